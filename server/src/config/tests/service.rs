//! Origins from SRV records.

use std::sync::Arc;

use super::super::{Config, ConfigSource, OriginMember};
use super::bad::{Case, check};
use crate::dns::ServiceTarget;

/// Bad origins of a site, on its fourth line.
#[rustfmt::skip]
const BAD: &[Case] = &[
    ("origin = \"srv://b\"", "4:10", &["write \"srv+http://b\""]),
    ("origin = \"srv+ftp://b\"", "4:10", &["write \"srv+http://b\", or"]),
    ("origin = \"srv+http://_http._tcp.b:80\"", "4:10",
        &["write \"srv+http://_http._tcp.b\"", "have the ports"]),
    ("origin = \"srv+http://b/app\"", "4:10", &["leave out the path"]),
    ("origin = \"srv+http://10.0.0.1\"", "4:10", &["the name of SRV records"]),
    ("origin = \"srv+http://_http._tcp\"", "4:10", &["goes on with that of a domain"]),
    ("origin = \"srv+http://_http._tcp.b..c\"", "4:10", &["between single dots"]),
    ("origin = [\"srv+http://_a.b\", \"srv+https://_A.B.\"]", "4:30", &["repeats \"_a.b\""]),
    ("origin = { url = \"srv+http://_a.b\", weight = 2 }", "4:46", &["are in the SRV records"]),
    ("origin = { url = \"http://b\", targets_max = 2 }", "4:44", &["only an origin with a URL"]),
    ("origin = { url = \"srv+http://b\", targets_max = 33 }", "4:48", &["too large: 33"]),
    ("origin = [\"srv+http://b\", \"http://c\", \"srv+http://d\"]", "4:39",
        &["more than 32 origins and targets", "smaller `targets_max`"]),
    ("origin = { srv = \"_a.b\" }", "4:12", &["write url = \"srv+http://_a.b\""]),
];

fn target(host: &str, priority: u16, weight: u16) -> ServiceTarget {
    ServiceTarget { host: host.to_owned(), port: 80, priority, weight }
}

fn read(text: &str) -> Config {
    Config::load(ConfigSource::Toml { text, file: "f.toml" }, &[]).expect("it is right")
}

/// Gives the configuration these targets of the service `_a.test`; returns whether any changed.
fn set(config: &mut Config, targets: &[ServiceTarget]) -> bool {
    config.sites.set_targets(&|name| (name == "_a.test").then(|| Arc::from(targets)))
}

fn members(config: &Config, path: &str) -> Vec<String> {
    let show = |one: &OriginMember| {
        let OriginMember { priority, weight, is_backup, .. } = one;
        let backup = if *is_backup { " backup" } else { "" };
        format!("{} {priority} {weight}{backup}", one.address.authority)
    };
    let site = config.sites.iter().next().expect("it has one");
    site.route(path.as_bytes()).origins.members().iter().map(show).collect()
}

#[test]
fn targets_take_the_place_of_their_service_in_a_site_and_its_routes() {
    let mut config = read(
        "[[site]]\nname = 'a'\nnames = ['*']\n\
         origin = [{ url = 'srv+http://_a.test', targets_max = 3 }, 'http://c:80',\n\
         { url = 'srv+https://_b.test', backup = true }]\n\
         [[site.route]]\npath_prefix = '/own'\norigin = 'srv+http://_a.test'\n\
         [[site.route]]\npath_prefix = '/same'\n",
    );
    assert!(set(&mut config, &[]), "services without targets leave");
    assert_eq!(members(&config, "/"), ["c 0 1"]);
    assert_eq!(members(&config, "/own"), ["_a.test 0 1"], "a group is never empty");
    let four = [target("w", 9, 7), target("x", 5, 0), target("y", 9, 2), target("z", 7, 1)];
    assert!(set(&mut config, &four));
    let expected = ["x:80 0 0", "z:80 1 1", "w:80 2 7", "c 0 1"];
    assert_eq!(members(&config, "/"), expected);
    assert_eq!(members(&config, "/same"), expected);
    assert_eq!(members(&config, "/own").len(), 4);
    assert!(!set(&mut config, &four), "nothing has changed");
    let site = config.sites.iter().next().expect("it has one");
    assert!(Arc::ptr_eq(&site.origins, &site.route(b"/same").origins));
    assert_eq!(site.origins.first().expect("it has one").own_host(), "test");
    // A target that is named twice is one origin.
    assert!(set(&mut config, &[target("x", 0, 1), target("x", 1, 1)]));
    assert_eq!(members(&config, "/own"), ["x:80 0 1"]);
    assert!(set(&mut config, &[]));
    assert_eq!(members(&config, "/own"), ["_a.test 0 1"]);
}

#[test]
fn a_configuration_without_services_does_not_change() {
    let mut config = read("[[site]]\nname = 'a'\nnames = ['*']\norigin = 'http://_a.test'\n");
    assert!(!set(&mut config, &[target("x", 0, 1)]));
    assert_eq!(members(&config, "/"), ["_a.test 0 1"]);
}

#[test]
fn targets_are_no_difference_of_configurations() {
    let text = "[[site]]\nname = 'a'\nnames = ['*']\norigin = 'srv+http://_http._tcp.a.test'\n";
    let (mut used, written) = (read(text), read(text));
    let targets: Arc<[ServiceTarget]> = Arc::from([target("x", 0, 1)]);
    assert!(used.sites.set_targets(&|_| Some(Arc::clone(&targets))));
    assert_eq!(used.changes(&written), []);
    assert_eq!(written.changes(&used), []);
    let other = read(&text.replace("a.test", "b.test"));
    assert_eq!(used.changes(&other).len(), 1);
}

#[test]
fn a_bad_origin_with_srv_records_is_refused_with_its_place_and_a_hint() {
    for (line, place, parts) in BAD {
        check(&format!("[[site]]\nname = 'a'\nnames = ['*']\n{line}\n"), place, parts);
    }
}
