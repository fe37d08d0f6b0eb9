//! The access logs of the server and of sites.

use super::super::*;

const SITE: &str = "[[site]]\nname = \"a\"\nnames = [\"a.org\"]\norigin = \"http://a\"\n";

#[test]
fn sites_have_the_access_log_of_the_server_or_their_own() {
    let site = |name: &str, lines: &str| {
        format!(
            "[[site]]\nname = \"{name}\"\nnames = [\"{name}\"]\norigin = \"http://a\"\n{lines}\n"
        )
    };
    // The lines at the top; the lines of a site; the positions and logs of the configuration; the
    // numbers of the logs of the server and of the site.
    type Case<'a> = (&'a str, &'a str, &'a [(&'a str, AccessLog)], Option<u16>, Option<u16>);
    let file = |path: &str| AccessLog::File(path.into());
    let cases: &[Case<'_>] = &[
        ("", "", &[], None, None),
        ("access_log = \"-\"", "", &[("f:1:14", AccessLog::Stdout)], Some(0), Some(0)),
        ("access_log = \"a\"", "access_log = \"off\"", &[("f:1:14", file("a"))], Some(0), None),
        ("", "access_log = \"a\"", &[("f:6:14", file("a"))], None, Some(0)),
        ("access_log = \"a\"", "access_log = \"./a\"", &[("f:1:14", file("a"))], Some(0), Some(0)),
        (
            "access_log = \"a\"",
            "access_log = \"b\"",
            &[("f:1:14", file("a")), ("f:6:14", file("b"))],
            Some(0),
            Some(1),
        ),
    ];
    for (top, lines, expected, server, of_site) in cases {
        let text = format!("{top}\n{}{}", site("a", lines), site("b", ""));
        let config = Config::from_toml(&text, "f").expect("it is valid");
        let logs: Vec<_> = config.access_logs.iter().collect();
        let logs: Vec<_> = logs.iter().map(|log| (&log.at[..], log.log.clone())).collect();
        assert_eq!(logs, *expected, "{text}");
        let number = |log: Option<LogNumber>| log.map(|number| number.index() as u16);
        assert_eq!(number(config.access_logs.server()), *server, "{text}");
        let numbers: Vec<_> = config.sites.iter().map(|site| number(site.log)).collect();
        assert_eq!(numbers, [*of_site, *server], "{text}");
    }
}

#[test]
fn a_flag_is_the_log_of_the_server_and_of_sites_without_one() {
    let flags = [FlagValue { name: "access-log", value: "flag.log" }];
    let text = format!("access_log = \"top.log\"\n{SITE}");
    let own = text.clone() + "access_log = \"own.log\"\n";
    let sources = [
        (ConfigSource::Toml { text: &text, file: "f" }, Some(0), 1),
        (ConfigSource::Toml { text: &own, file: "f" }, Some(1), 2),
        (ConfigSource::Origin("http://a"), Some(0), 1),
    ];
    for (source, of_site, count) in sources {
        let config = Config::load(source, &flags).expect("it is valid");
        let logs: Vec<_> = config.access_logs.iter().collect();
        assert_eq!(logs.len(), count, "{source:?}");
        assert_eq!(logs[0].log, AccessLog::File("flag.log".into()), "{source:?}");
        assert_eq!(logs[0].at, "--access-log", "{source:?}");
        let site = config.sites.iter().next().expect("a site");
        assert_eq!(site.log.map(LogNumber::index), of_site, "{source:?}");
    }
}

#[test]
fn too_many_access_logs_are_refused() {
    use crate::limits::ACCESS_LOGS_MAX;
    let site = |number: usize, log: usize| {
        format!(
            "[[site]]\nname = \"s{number}\"\nnames = [\"s{number}\"]\norigin = \"http://a\"\n\
             access_log = \"{log}.log\"\n"
        )
    };
    let text: String = (0..=ACCESS_LOGS_MAX).map(|number| site(number, number)).collect();
    let place = format!("{}:14", 5 * ACCESS_LOGS_MAX + 5);
    let errors = Config::from_toml(&text, "f.toml").expect_err("there are too many").to_string();
    assert!(errors.starts_with(&format!("f.toml:{place}: there are more than 128")), "{errors}");
    assert!(errors.contains("give several sites the same file"), "{errors}");
    // Sites that share a log do not count.
    let text: String = (0..500).map(|number| site(number, number % ACCESS_LOGS_MAX)).collect();
    let config = Config::from_toml(&text, "f.toml").expect("it is valid");
    assert_eq!(config.access_logs.iter().len(), ACCESS_LOGS_MAX);
}
