//! The meaning of valid configurations, and the documents that are generated from the table of
//! settings.

use std::net::IpAddr;
use std::path::Path;

use forebay_http::fields::{FieldId, FieldSet};
use forebay_http::policy::freshness::StatusFreshness;
use forebay_http::policy::tags::{SURROGATE_FIELDS, TAG_FIELDS};
use forebay_http::policy::targeted::TargetList;

use super::super::error_pages::ErrorPages;
use super::super::hsts::StrictTransportSecurity;
use super::super::lists::{LanguageList, NamePatterns, ParameterNames};
use super::super::setting::RawValue;
use super::super::table::{self, Settings};
use super::super::value::{BasicAuth, FixedAnswer, Redirect};
use super::super::*;

const SITE: &str =
    "[[site]]\nname = \"a\"\nnames = [\"a.org\"]\norigin = \"http://127.0.0.1:3000\"\n";

fn read(text: &str) -> Config {
    Config::from_toml(text, "test.toml").unwrap_or_else(|errors| panic!("{text}\n{errors}"))
}

fn top(text: &str) -> ServerSettings {
    read(&format!("{text}\n{SITE}")).server
}

#[test]
fn values_are_read_in_every_form() {
    assert_eq!(top(""), ServerSettings::default());
    assert_eq!(top("cache_size = \"1GiB\"").cache_size, 1 << 30);
    assert_eq!(top("cache_size = 8388608").cache_size, 8 << 20);
    assert_eq!(top("cache_size = 0x80_0000").cache_size, 8 << 20);
    assert_eq!(top("cache_size = '8388608'").cache_size, 8 << 20);
    assert_eq!(top("head_ms_max = \"1m\"").head_ms_max, 60_000);
    assert_eq!(top("head_ms_max = 250").head_ms_max, 250);
    assert_eq!(top("workers = 4").workers, 4);
    assert_eq!(top("listen = \"[::]:80\"").listen.first, "[::]:80".parse().unwrap());
    assert_eq!(top("admin = \"/run/a\"").admin, AdminAddress::Path("/run/a".into()));
    assert_eq!(top("runtime_dir = \"/run/x\"").runtime_dir, RuntimeDir::Path("/run/x".into()));
    assert_eq!(top("cache_dir = \"/c\"").cache_dir, CacheDir::Path("/c".into()));
    assert_eq!(
        top("access_log_format = \"combined\"").access_log_format,
        AccessLogFormat::Combined
    );
    for (index, level) in ["error", "warn", "info", "debug", "trace"].iter().enumerate() {
        let read = top(&format!("log_level = {level:?}")).log_level;
        assert_eq!(read as usize, index, "{level}");
    }
    // If a limit is lowered, the defaults of `target_bytes_max` and `origin_pool_idle_count_max`
    // may exceed it.
    assert_eq!(top("head_bytes_max = 2048").target_bytes_max, 8192);
    assert_eq!(top("origin_connections_max = 2").origin_pool_idle_count_max, 64);
}

#[test]
fn defaults_are_the_ones_that_are_documented() {
    let server = ServerSettings::default();
    assert_eq!(server.listen.first, "127.0.0.1:8080".parse().unwrap());
    assert_eq!(server.cache_size, 256 << 20);
    assert_eq!((server.head_bytes_max, server.field_count_max), (32 << 10, 100));
    assert_eq!((server.head_ms_max, server.idle_ms_max), (10_000, 60_000));
    assert_eq!(server.admin, AdminAddress::Auto);
    assert_eq!(SiteSettings::default().access_log, AccessLog::Off);
    assert!(server.connections_per_address_max >= 1024);
}

/// The defaults, with those of requests to origins written out.
fn documented_limits() -> RouteSettings {
    RouteSettings {
        signed_urls: Default::default(),
        concurrency_limit: Default::default(),
        origin_host: Default::default(),
        origin_strip_prefix: false,
        origin_add_prefix: Default::default(),
        files_fallback: FallbackFile::default(),
        decompress: false,
        body_bytes_max: 16 << 30,
        upload_buffer_bytes: 64 << 10,
        tunnel_idle_ms_max: 600_000,
        origin_connect_ms_max: 3_000,
        origin_first_byte_ms_max: 30_000,
        origin_idle_ms_max: 30_000,
        origin_excess: OriginExcess::Close,
        origin_tries_max: 16,
        origin_error_statuses: RouteSettings::default().origin_error_statuses,
        ..RouteSettings::default()
    }
}

#[test]
fn a_route_keeps_all_parts_of_requests_and_all_tags_by_default() {
    let route = RouteSettings::default();
    assert!(route.keep_query.is_all() && route.keep_cookies.is_all() && !route.normalises());
    assert!(TAG_FIELDS.iter().all(|id| route.tag_fields.set().contains(*id)));
}

#[test]
fn defaults_of_routes_are_the_ones_that_are_documented() {
    let route = RouteSettings::default();
    assert_eq!(
        RouteSettings::default(),
        RouteSettings {
            cache: true,
            default_freshness_s: 0,
            override_freshness_s: 0,
            status_freshness: StatusFreshness::EMPTY,
            bypass_cookies: NamePatterns::default(),
            bypass_fields: NamePatterns::default(),
            ignore_client_no_cache: false,
            sort_query: false,
            keep_query: route.keep_query.clone(),
            drop_query: ParameterNames::default(),
            keep_cookies: route.keep_cookies.clone(),
            key_fields: route.key_fields.clone(),
            key_cookies: route.key_cookies.clone(),
            languages: LanguageList::default(),
            heuristic_percent: 10,
            freshness_jitter_percent: 0,
            heuristic_s_max: 3_600,
            heuristic_error_s_max: 60,
            stale_while_revalidate_s: 0,
            stale_if_error_s: 0,
            stale_if_unreachable_s: 3_600,
            hit_for_miss_ms: 10_000,
            fill_rate_min: 1024,
            fill_ms_max: 600_000,
            ambiguous_path: AmbiguousPath::Refuse,
            set_cookie: SetCookie::Strip,
            content_of_get: false,
            upgrade_protocols: Default::default(),
            compress: Default::default(),
            compress_types: route.compress_types.clone(),
            compress_bytes_min: 1 << 10,
            object_bytes_max: 64 << 40,
            range_unit_bytes: 1 << 20,
            unkeyed_fields: route.unkeyed_fields.clone(),
            forwarded_fields: route.forwarded_fields,
            allow_from: AddressList::default(),
            deny_from: AddressList::default(),
            rate_limit: Default::default(),
            tag_fields: route.tag_fields,
            early_hints: false,
            validate_variants: false,
            tags_shown: false,
            cache_status_key: false,
            targeted_cache_control: TargetList::new(["CDN-Cache-Control"]),
            https_redirect_port: 0,
            redirect: Redirect::default(),
            respond: FixedAnswer::default(),
            respond_type: route.respond_type.clone(),
            respond_retry_after_s: 0,
            files: FilesDirectory::default(),
            files_strip_prefix: false,
            files_index: route.files_index.clone(),
            files_types: FileTypes::default(),
            files_precompressed: false,
            hsts: StrictTransportSecurity::default(),
            error_pages: ErrorPages::default(),
            origin_error_pages: ErrorPages::default(),
            basic_auth: BasicAuth::default(),
            basic_auth_realm: route.basic_auth_realm.clone(),
            basic_auth_forward: false,
            purge_from: AddressList::default(),
            ..documented_limits()
        }
    );
}

#[test]
fn lists_are_arrays_in_a_file_and_words_between_commas_or_several_flags() {
    let route = |text: &str, flags: &[(&str, &str)]| {
        let text = format!("{text}\n{SITE}");
        let flags = flags.iter().map(|(name, value)| FlagValue { name, value });
        let flags: Vec<_> = flags.collect();
        let source = ConfigSource::Toml { text: &text, file: "f.toml" };
        let config = Config::load(source, &flags).expect("it is right");
        let site = config.sites.lookup(b"a.org").expect("it is served");
        site.routes().last().expect("/").settings.clone()
    };
    let set = FieldSet::of;
    type Case = (&'static str, &'static [(&'static str, &'static str)], FieldSet);
    let cases: &[Case] = &[
        ("tag_fields = []", &[], FieldSet::EMPTY),
        ("tag_fields = ['xkey', \"Cache-Tag\"]", &[], set(&[FieldId::Xkey, FieldId::CacheTag])),
        ("tag_fields = []", &[("tag-fields", "xkey")], set(&[FieldId::Xkey])),
        ("", &[("tag_fields", "none")], FieldSet::EMPTY),
        (
            "",
            &[("tag-fields", "xkey , cache-tag"), ("tag-fields", "cache-groups")],
            set(&[FieldId::Xkey, FieldId::CacheTag, FieldId::CacheGroups]),
        ),
    ];
    for (text, flags, expected) in cases {
        assert_eq!(route(text, flags).tag_fields.set(), *expected, "{text} {flags:?}");
    }
    let limits = |text, flags| route(text, flags).rate_limit;
    let listed = limits("rate_limit = ['100/1s', '6/1m burst=9 by=route']", &[]);
    assert_eq!(listed, limits("", &[("rate-limit", "100/1s,6/1m  by=route burst=9")]));
    assert_eq!(
        listed,
        limits(
            "",
            &[
                ("rate-limit", "100/1s burst=100 by=address"),
                ("rate-limit", "6/60s burst=9 by=route")
            ]
        )
    );
    let limits = |text, flags| route(text, flags).concurrency_limit;
    let listed = limits("concurrency_limit = ['20 by=address', '500 by=route']", &[]);
    assert_eq!(listed, limits("", &[("concurrency-limit", "20,500  by=route")]));
    let allowed = |list: &AddressList, address: &str| {
        list.contains(address.parse::<IpAddr>().expect("an address"))
    };
    let list = route("purge_from = [\"127.0.0.1\", \"10.0.0.0/8\"]", &[]).purge_from;
    assert!(allowed(&list, "127.0.0.1") && allowed(&list, "10.9.8.7") && !allowed(&list, "::1"));
    let list = route("", &[("purge-from", "::1,192.0.2.0/24")]).purge_from;
    assert!(allowed(&list, "::1") && allowed(&list, "192.0.2.9") && !allowed(&list, "127.0.0.1"));
}

#[test]
fn the_fields_that_are_read_are_hidden_but_for_the_standards() {
    let hidden = |text: &str| {
        let config = read(&format!("{text}\n{SITE}"));
        let site = config.sites.lookup(b"a.org").expect("it is served").routes();
        site.last().expect("/").settings.hidden_fields()
    };
    assert_eq!(hidden(""), SURROGATE_FIELDS);
    assert_eq!(hidden("tags_shown = true"), FieldSet::EMPTY);
    let two = "tag_fields = [\"xkey\", \"cache-groups\"]";
    assert_eq!(hidden(two), FieldSet::of(&[FieldId::Xkey]));
}

#[test]
fn the_innermost_value_of_a_route_setting_wins() {
    let config = read(
        "object_bytes_max = \"1MiB\"\ndefault_freshness_s = 5\n\
         [[site]]\nname = \"a\"\nnames = [\"a.org\"]\norigin = \"http://[::1]/\"\n\
         default_freshness_s = \"1m\"\n\
         [[site.route]]\npath_prefix = \"/x\"\ncache = false\ndefault_freshness_s = \"2m\"\n\
         [[site]]\nname = \"b\"\nnames = [\"*\"]\norigin = \"HTTP://Origin.Example:80\"\n",
    );
    let [a, b] = config.sites.iter().collect::<Vec<_>>()[..] else { panic!("two sites") };
    let x = &a.route(b"/x/1").settings;
    assert_eq!((x.cache, x.default_freshness_s, x.object_bytes_max), (false, 120, 1 << 20));
    let rest = &a.route(b"/").settings;
    assert_eq!((rest.cache, rest.default_freshness_s, rest.object_bytes_max), (true, 60, 1 << 20));
    assert_eq!(b.route(b"/").settings.default_freshness_s, 5);
    let origin = |host: &str, port, authority: &str| OriginAddress {
        service: None,
        host: host.to_owned(),
        port,
        authority: authority.to_owned(),
        socket: None,
        tls: None,
        proxy_protocol: ProxyProtocol::Off,
        http2: OriginHttp2::Never,
    };
    assert_eq!(*a.origins.first().unwrap(), origin("::1", 80, "[::1]"));
    assert_eq!(*b.origins.first().unwrap(), origin("origin.example", 80, "origin.example"));
}

#[test]
fn an_origin_can_be_a_unix_socket() {
    let config = Config::load(ConfigSource::Origin("unix:/run/app.sock"), &[]).unwrap();
    let site = config.sites.lookup(b"any.example").unwrap();
    let origin = site.origins.first().unwrap();
    assert_eq!((site.name.as_str(), origin.own_host()), ("unix:/run/app.sock", "localhost"));
    assert_eq!(origin.socket.as_deref(), Some(std::path::Path::new("/run/app.sock")));
}

#[test]
fn an_origin_alone_serves_every_host() {
    let flags = [
        FlagValue { name: "cache-size", value: "16MiB" },
        FlagValue { name: "workers", value: "2" },
        FlagValue { name: "cache", value: "false" },
    ];
    let config = Config::load(ConfigSource::Origin("http://127.0.0.1:3000"), &flags).unwrap();
    assert_eq!((config.server.cache_size, config.server.workers), (16 << 20, 2));
    let site = config.sites.lookup(b"any.example").unwrap();
    assert_eq!((&*site.name, site.origins.first().unwrap().port), ("127.0.0.1:3000", 3000));
    assert!(!site.route(b"/").settings.cache);
}

#[test]
fn a_flag_wins_over_the_file() {
    let text = format!("workers = 1\nidle_ms_max = 5\n{SITE}");
    let flags = [FlagValue { name: "workers", value: "3" }];
    let config = Config::load(ConfigSource::Toml { text: &text, file: "f" }, &flags).unwrap();
    assert_eq!((config.server.workers, config.server.idle_ms_max), (3, 5));
}

#[test]
fn a_reload_names_what_needs_a_restart() {
    let old = read(SITE);
    let new = read(&format!(
        "listen = \"127.0.0.1:1\"\nadmin = \"/a\"\nworkers = 2\ncache_size = \"8MiB\"\n\
         runtime_dir = \"/r\"\ncache_dir = \"/c\"\nidle_ms_max = 1\nlog_level = \"warn\"\n\
         {SITE}cache = false\n"
    ));
    let names: Vec<_> =
        old.reload_conflicts(&new).iter().filter_map(|change| change.setting).collect();
    assert_eq!(names, ["listen", "admin", "runtime_dir", "workers", "cache_size", "cache_dir"]);
    assert!(new.reload_conflicts(&new.clone()).is_empty());
}

#[test]
fn every_setting_has_a_whole_sentence_and_a_fitting_default() {
    let mut names = std::collections::HashSet::new();
    for setting in all_settings() {
        // The server and a site may have different settings of one name, such as `listen`.
        let is_of_site = setting.scope == SettingScope::Site;
        let is_new = names.insert((setting.name, is_of_site));
        assert!(is_new, "the setting {} is listed twice", setting.name);
        assert!(setting.doc.ends_with('.') && !setting.doc.contains('|'), "{}", setting.name);
        assert!(setting.reason.ends_with('.') && !setting.reason.contains('|'), "{}", setting.name);
        if let Some((min, max)) = setting.kind.range() {
            assert!(min < max, "{}", setting.name);
        }
    }
    let (mut server, mut route) = (ServerSettings::default(), RouteSettings::default());
    let mut site = SiteSettings::default();
    // `rules` is skipped, because neither struct has a field for it.
    for setting in table::top_level().filter(|setting| setting.scope != SettingScope::Everywhere) {
        let flag = RawValue::Flag(setting.default.unwrap());
        let set = match setting.scope {
            SettingScope::Server => server.set(setting, flag),
            SettingScope::PerSite => site.set(setting, flag),
            _ => route.set(setting, flag),
        };
        assert_eq!(set, Ok(()), "{}", setting.name);
        // The largest allowed value has to fit the type of the field.
        if let Some((min, max)) = setting.kind.range() {
            for limit in [min, max] {
                let limit = RawValue::Integer(limit.into());
                let set = match setting.scope {
                    SettingScope::Server => ServerSettings::default().set(setting, limit),
                    SettingScope::PerSite => SiteSettings::default().set(setting, limit),
                    _ => RouteSettings::default().set(setting, limit),
                };
                assert_eq!(set, Ok(()), "{} {limit:?}", setting.name);
            }
        }
    }
    assert_eq!((server, route), (ServerSettings::default(), RouteSettings::default()));
}

#[test]
fn the_printed_defaults_are_a_configuration_with_every_setting() {
    let text = defaults_toml();
    let config = read(&text);
    assert_eq!(config.server, ServerSettings::default());
    let site = config.sites.lookup(b"www.example.org").unwrap();
    assert_eq!(site.routes().len(), 5);
    let (conditional, others): (Vec<_>, Vec<_>) =
        site.routes().iter().partition(|route| route.conditions.is_some());
    assert!(others.iter().all(|route| route.settings == RouteSettings::default()));
    assert!(conditional.iter().all(|route| !route.settings.cache));
    for setting in all_settings() {
        assert!(text.contains(&format!("\n{} = ", setting.name)), "{} is missing", setting.name);
        assert!(text.contains(&format!("# {}", setting.doc)), "{} has no sentence", setting.name);
    }
}

#[test]
fn flags_are_named_after_their_settings() {
    let flags = flags();
    assert_eq!(flags.len(), table::top_level().count());
    let flag = flags.iter().find(|flag| flag.setting.name == "cache_size").unwrap();
    assert_eq!((&*flag.name, &*flag.value_hint), ("cache-size", "SIZE"));
    assert!(flag.help.ends_with("[default: 256MiB]"), "{}", flag.help);
}

#[test]
fn the_page_of_settings_is_the_one_that_the_table_gives() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/settings.md");
    let wanted = settings_markdown();
    if std::env::var_os("UPDATE_DOCS").is_some_and(|value| value == "1") {
        std::fs::write(path, &wanted).unwrap();
    }
    let found = std::fs::read_to_string(path).unwrap_or_default();
    assert!(found == wanted, "docs/settings.md is out of date: run the tests with UPDATE_DOCS=1");
}

#[test]
fn a_file_that_cannot_be_read_says_why() {
    let missing = read_file(Path::new("/nonexistent/forebay.toml")).unwrap_err().to_string();
    assert!(missing.contains("/nonexistent/forebay.toml: cannot read the file"), "{missing}");
    let endless = read_file(Path::new("/dev/zero")).unwrap_err().to_string();
    assert!(endless.contains("is larger than"), "{endless}");
    let latin = std::env::temp_dir().join(format!("forebay-latin-{}.toml", std::process::id()));
    std::fs::write(&latin, b"# one\nlisten = \"\xe9\"\n").unwrap();
    let found = read_file(&latin).unwrap_err().to_string();
    std::fs::remove_file(&latin).unwrap();
    assert!(found.contains(".toml:2:11") && found.contains("0xe9 is not UTF-8"), "{found}");
    let ours = read_file(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")));
    assert!(ours.unwrap().contains("[package]"));
}

#[test]
fn lists_with_every_address_get_a_warning() {
    let text = "trusted_proxies = [\"::/0\"]\n[[site]]\nname = \"a\"\nnames = [\"a\"]\n\
                origin = \"http://127.0.0.1:1\"\npurge_from = [\"0.0.0.0/0\"]\n\
                allow_from = [\"10.0.0.1\"]\ndeny_from = [\"0.0.0.0/0\"]\n";
    let warnings = read(text).address_warnings();
    for (warning, part) in warnings.iter().zip(["any client can", "may purge", "no effect"]) {
        assert!(warning.contains(part), "{warning}");
    }
    assert_eq!(warnings.len(), 3);
    let mended = text.replace("::/0", "::1").replace("0.0.0.0/0", "10.0.0.2");
    assert_eq!(read(&mended).address_warnings(), Vec::<String>::new());
}
