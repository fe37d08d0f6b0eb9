//! Configurations with an error, and the expected position and text of the error.

use super::super::*;

/// A configuration, the position of its error, and parts of the error's text.
pub(super) type Case = (&'static str, &'static str, &'static [&'static str]);

/// Lines at the top of an otherwise valid file.
#[rustfmt::skip]
const TOP: &[Case] = &[
    ("listne = \"127.0.0.1:80\"", "1:1", &["`listne` is not a setting", "mean `listen`?"]),
    ("cache-size = \"1GiB\"", "1:1", &["did you mean `cache_size`?"]),
    ("colour = 1", "1:1", &["`colour`", "config --defaults"]),
    ("origin = \"http://a\"", "1:1", &["write this setting in [[site]]"]),
    ("path_prefix = \"/\"", "1:1", &["write this setting in [[site.route]]"]),
    ("route = []", "1:1", &["a route belongs to a site"]),
    ("\"a\\nb\" = 1", "1:1", &["`a\\nb`"]),
    ("\"ä\" = 1", "1:1", &["`ä`"]),
    ("[server]\nworkers = 1", "1:2", &["sections are [[site]] and [[site.route]]"]),
    ("[[sites]]", "1:3", &["did you mean `site`?"]),
    ("cache_size = \"64kb\"", "1:14", &["unknown unit", "did you mean \"64KiB\"?"]),
    ("cache_size = \"1 GiB\"", "1:14", &["did you mean \"1GiB\"?"]),
    ("cache_size = \"10s\"", "1:14", &["unknown unit", "KiB, MiB, GiB"]),
    ("cache_size = \"1.5GiB\"", "1:14", &["not a whole number", "mean \"1536MiB\"?"]),
    ("cache_size = 1.5", "1:14", &["cannot be a number with a decimal point"]),
    ("cache_size = \"1MiB\"", "1:14", &["too small: 1MiB", "from 4MiB to 256GiB"]),
    ("cache_size = -1", "1:14", &["too small: -1"]),
    (
        "workers = 64\ncache_size = \"4MiB\"",
        "2:14",
        &["too small for 64 workers", "or more, or reduce `workers`"],
    ),
    ("cache_size = \"257GiB\"", "1:14", &["too large: 257GiB"]),
    ("cache_size = \"65TiB\"", "1:14", &["too large: 65TiB"]),
    ("cache_size = \"99999999999TiB\"", "1:14", &["too large"]),
    ("cache_size = 99999999999999999999", "1:14", &["too large: 99999999999999999999"]),
    ("cache_size = []", "1:14", &["cannot be an array", "expected: a size"]),
    ("idle_ms_max = \"60\"", "1:15", &["has no unit", "write \"60s\""]),
    ("idle_ms_max = \"1.5s\"", "1:15", &["did you mean \"1500ms\"?"]),
    ("idle_ms_max = \"2w\"", "1:15", &["unknown unit", "ms, s, m, h or d"]),
    ("cache_size = 512", "1:14", &["too small", "did you mean \"512MiB\"?"]),
    ("cache_size = 2026-01-01", "1:14", &["cannot be a date"]),
    ("cache_size = \"\"", "1:14", &["not a whole number"]),
    ("head_ms_max = \"10sec\"", "1:15", &["did you mean \"10s\"?"]),
    ("head_ms_max = \"10KiB\"", "1:15", &["ms, s, m, h or d"]),
    ("head_ms_max = \"0s\"", "1:15", &["too small", "a duration from 1ms to 1d"]),
    ("head_ms_max = \"25h\"", "1:15", &["too large: 25h"]),
    ("origin_address_ms_max = \"2d\"", "1:25", &["too large: 2d", "a duration from 0 to 1d"]),
    ("origin_address_ms_max = \"10sec\"", "1:25", &["did you mean \"10s\"?"]),
    ("origin_resolve_ms_max = 10", "1:1", &["`origin_resolve_ms_max` is not a setting"]),
    ("origin_stale_address_ms_max = -1", "1:31", &["too small: -1"]),
    ("default_freshness_s = \"250ms\"", "1:23", &["not a whole number of seconds"]),
    ("workers = \"4\"", "1:11", &["cannot be text", "write 4 without quotes"]),
    ("workers = \"many\"", "1:11", &["not a whole number", "0 to 1024 threads"]),
    ("workers = 2000", "1:11", &["too large: 2000"]),
    ("workers = true", "1:11", &["cannot be a boolean"]),
    ("cache = \"false\"", "1:9", &["without quotes", "true or false"]),
    ("cache = 0", "1:9", &["cannot be a number", "true or false"]),
    ("upgrade_protocols = [\"h2c\"]", "1:21", &["cannot contain \"h2c\"", "would bypass routes"]),
    ("upgrade_protocols = [\"HTTP/2.0\"]", "1:21", &["would bypass routes"]),
    ("upgrade_protocols = [\"wss\"]", "1:21", &["write \"websocket\""]),
    ("upgrade_protocols = [\"a b\"]", "1:21", &["write a protocol as in the field Upgrade"]),
    ("upgrade_protocols = [\"a\", \"A\"]", "1:21", &["already in the list"]),
    ("connect_ports = [443, 443]", "1:17", &["cannot contain 443", "already in the list"]),
    ("connect_ports = [true]", "1:17", &["an element that is not a number"]),
    ("trusted_proxies = [\"10.0.0.1/8\"]", "1:19", &["cannot contain", "10.0.0.0/8"]),
    ("trusted_proxies = [\"proxy\"]", "1:19", &["write an IP address"]),
    ("trusted_proxies = \"10.0.0.1\"", "1:19", &["is not an array", "write [\"10.0.0.1\"]"]),
    ("forwarded_fields = [\"x-forwarded\"]", "1:20", &["cannot contain", "did you mean"]),
    ("allow_from = [\"10.0.0.1/8\"]", "1:14", &["cannot contain", "10.0.0.0/8"]),
    ("deny_from = [\"all\"]", "1:13", &["cannot contain \"all\"", "to refuse every address"]),
    ("redirect = '301 /x'\nrespond = '503 x'", "2:11", &["are both set", "leave one of them out"]),
    ("rate_limit = \"100/1s\"", "1:14", &["is not an array", "write [\"100/1s\"]"]),
    ("rate_limit = [\"100\"]", "1:14", &["cannot contain \"100\"", "such as \"100/1s\""]),
    ("rate_limit = [\"\"]", "1:14", &["such as \"100/1s\""]),
    ("rate_limit = [\"-1/1s\"]", "1:14", &["such as \"100/1s\""]),
    ("rate_limit = [\"0/1s\"]", "1:14", &["for no limit, leave it out"]),
    ("rate_limit = [\"10r/s\"]", "1:14", &["write \"10/1s\""]),
    ("rate_limit = [\"100/s\"]", "1:14", &["write \"100/1s\""]),
    ("rate_limit = [\"100/1\"]", "1:14", &["the unit of the time is s, m or h"]),
    ("rate_limit = [\"100/250ms\"]", "1:14", &["the unit of the time is s, m or h"]),
    ("rate_limit = [\"1/25h\"]", "1:14", &["from 1s to 24h"]),
    ("rate_limit = [\"1/0s\"]", "1:14", &["from 1s to 24h"]),
    ("rate_limit = [\"100001/1s\"]", "1:14", &["at most 100000 requests a second"]),
    ("rate_limit = [\"1/1h burst=25\"]", "1:14", &["within a day"]),
    ("rate_limit = [\"1/1s burst=0\"]", "1:14", &["a number of at least 1 after burst="]),
    ("rate_limit = [\"1/1s burst=1 burst=2\"]", "1:14", &["only one burst= and one by="]),
    ("rate_limit = [\"1/1s per=address\"]", "1:14", &["burst=N, by=address"]),
    ("rate_limit = [\"1/1s by=client\"]", "1:14", &["by=field:NAME"]),
    ("rate_limit = [\"1/1s by=field:a b\"]", "1:14", &["burst=N, by=address"]),
    ("rate_limit = [\"1/1s by=field:\"]", "1:14", &["the name of a field"]),
    ("rate_limit = [\"1/1s\", \"1/1s by=address\"]", "1:14", &["already in the list"]),
    (
        "rate_limit = [\"1/1s\", \"2/1s\", \"3/1s\", \"4/1s\", \"5/1s\"]",
        "1:14",
        &["more than 4 elements"],
    ),
    ("concurrency_limit = \"20\"", "1:21", &["is not an array", "write [\"20\"]"]),
    ("concurrency_limit = [\"\"]", "1:21", &["write a number of requests, such as \"20\""]),
    ("concurrency_limit = [\"-1\"]", "1:21", &["cannot contain \"-1\"", "such as \"20\""]),
    ("concurrency_limit = [\"0\"]", "1:21", &["for no limit, leave it out"]),
    ("concurrency_limit = [\"65536\"]", "1:21", &["at most 65535 requests"]),
    ("concurrency_limit = [\"20/1s\"]", "1:21", &["use `rate_limit`"]),
    ("concurrency_limit = [\"20 burst=2\"]", "1:21", &["by=address, by=route"]),
    ("concurrency_limit = [\"20 by=client\"]", "1:21", &["by=field:NAME"]),
    ("concurrency_limit = [\"2 by=route by=address\"]", "1:21", &["only one by="]),
    ("concurrency_limit = [\"2\", \"3 by=address\"]", "1:21", &["leave one of them out"]),
    ("rate_limit_entries = 1000", "1:22", &["too small: 1000"]),
    ("origin_error_statuses = [404]", "1:25", &["cannot contain 404", "500 to 599"]),
    ("origin_error_statuses = [\"5xx\"]", "1:25", &["cannot contain 5xx", "500 to 599"]),
    ("origin_error_statuses = 503", "1:25", &["is not an array", "such as [502, 503]"]),
    ("origin_error_statuses = [true]", "1:25", &["an element that is not a number"]),
    ("forwarded_fields = [\"via\"]", "1:20", &["cannot contain \"via\"", "x-request-id"]),
    ("compress = \"gzip\"", "1:12", &["is not an array", "write [\"gzip\"]"]),
    ("compress = [\"brotli\"]", "1:12", &["cannot contain \"brotli\"", "did you mean \"br\"?"]),
    ("compress = [\"gzipp\"]", "1:12", &["did you mean \"gzip\"?"]),
    ("compress = [\"lz4\"]", "1:12", &["an array of zstd, br and gzip"]),
    ("compress = [\"br\", \"br\"]", "1:12", &["already in the list"]),
    ("compress_types = [\"html\"]", "1:18", &["write a media type"]),
    ("compress_types = [\"*/*\"]", "1:18", &["write a media type"]),
    ("compress_types = [\"text/html; charset=utf-8\"]", "1:18", &["without parameters"]),
    ("compress_bytes_min = -1", "1:22", &["compress_bytes_min"]),
    ("tunnel_idle_ms_max = 0", "1:22", &["too small"]),
    ("admin = \"0.0.0.0:9000\"", "1:9", &["loopback or a Unix socket"]),
    ("admin = \"admin\"", "1:9", &["./admin"]),
    ("admin = \"127.0.0.1:8080\"", "1:9", &["same address and port"]),
    ("access_log = \"on\"", "1:14", &["\"off\" for no log"]),
    ("access_log = false", "1:14", &["write \"off\"", "a file, \"-\" or \"off\""]),
    ("access_log_format = \"jsn\"", "1:21", &["did you mean \"json\"?", "json, combined"]),
    ("log_level = \"verbose\"", "1:13", &["one of error, warn, info, debug, trace"]),
    ("log_level = \"warning\"", "1:13", &["did you mean \"warn\"?"]),
    ("log_level = \"INFO\"", "1:13", &["did you mean \"info\"?"]),
    ("target_bytes_max = \"64KiB\"", "1:20", &["larger than `head_bytes_max`"]),
    ("head_bytes_max = \"1MiB\"", "1:18", &["`connection_bytes_max` to \"2MiB\" or more"]),
    ("connection_bytes_max = \"16KiB\"", "1:24", &["less than twice `head_bytes_max`"]),
    ("origin_pool_idle_count_max = 300", "1:30", &["than `origin_connections_max`"]),
    (
        "lock_profile_stacks = 1\nlock_profile_size = \"300KiB\"",
        "1:23",
        &["too small for `lock_profile_stacks`", "\"350KiB\" or more"],
    ),
    ("tag_fields = \"xkey\"", "1:14", &["is not an array", "write [\"xkey\"]"]),
    ("tag_fields = [1]", "1:14", &["an element that is not text"]),
    ("tag_fields = [\"cache-tagg\"]", "1:14", &["did you mean \"cache-tag\"?", "cache-groups"]),
    ("targeted_cache_control = \"a\"", "1:26", &["is not an array", "write [\"a\"]"]),
    ("targeted_cache_control = [\"a b\"]", "1:26", &["\"a b\"", "the name of a field"]),
    ("targeted_cache_control = [\"a-b\", \"A-B\"]", "1:26", &["\"A-B\"", "already in the list"]),
    ("targeted_cache_control = [\"cache-control\"]", "1:26", &["applies if no field of the list"]),
    ("targeted_cache_control = [\"vary\"]", "1:26", &["\"vary\"", "cannot contain cache"]),
    (
        "targeted_cache_control = [\"a\",\"b\",\"c\",\"d\",\"e\",\"f\",\"g\",\"h\",\"i\"]",
        "1:26",
        &["more than 8 elements"],
    ),
    ("cache_name = \"caf\u{e9}\"", "1:14", &["cannot be", "printable ASCII"]),
    ("cache_name = \"\"", "1:14", &["is empty"]),
    ("cache_name = 1", "1:14", &["in double quotes"]),
    ("status_freshness = \"404=1m\"", "1:20", &["is not an array", "write [\"404=1m\"]"]),
    ("status_freshness = [\"404\"]", "1:20", &["write a status and a duration"]),
    ("status_freshness = [\"206=1m\"]", "1:20", &["with this status are not stored"]),
    ("status_freshness = [\"4xx=1m\"]", "1:20", &["a number from 200 to 599"]),
    ("status_freshness = [\"404=1m\", \"404=2m\"]", "1:20", &["already in the list"]),
    ("status_freshness = [\"404=1500ms\"]", "1:20", &["a whole number and s, m, h or d"]),
    ("status_freshness = [\"404=2y\"]", "1:20", &["a whole number and s, m, h or d"]),
    ("bypass_cookies = [\"a*b\"]", "1:18", &["\"a*b\"", "with * at the end"]),
    ("bypass_cookies = [\"*\"]", "1:18", &["beginning of names followed by *"]),
    ("drop_query = [\"a=b\"]", "1:14", &["\"a=b\"", "beginning of names followed by *"]),
    ("drop_query = [\"*a\"]", "1:14", &["\"*a\"", "with * at the end"]),
    ("keep_query = [\"*\", \"a\"]", "1:14", &["besides \"*\"", "leave the others out"]),
    ("keep_cookies = [\"a b\"]", "1:16", &["\"a b\"", "beginning of names followed by *"]),
    ("key_fields = [\"a b\"]", "1:14", &["\"a b\"", "the name of a field"]),
    ("key_fields = [\"Range\"]", "1:14", &["\"Range\"", "does not get this field"]),
    ("key_fields = [\"x-forwarded-for\"]", "1:14", &["does not get this field"]),
    ("key_fields = [\"connection\"]", "1:14", &["does not get this field"]),
    ("key_fields = [\"X-A\", \"x-a\"]", "1:14", &["\"x-a\"", "already in the list"]),
    ("key_fields = [\"host\"]", "1:14", &["every key contains the host"]),
    ("key_cookies = [\"a=b\"]", "1:15", &["\"a=b\"", "the name of a cookie"]),
    ("key_cookies = [\"plan*\"]", "1:15", &["the name of a cookie"]),
    (
        "key_cookies = [\"a\",\"b\",\"c\",\"d\",\"e\",\"f\",\"g\",\"h\",\"i\"]",
        "1:15",
        &["more than 8"],
    ),
    ("sort_query = \"true\"", "1:14", &["without quotes"]),
    ("languages = [\"de_AT\"]", "1:13", &["\"de_AT\"", "language tag"]),
    ("languages = [\"*\"]", "1:13", &["\"*\"", "language tag"]),
    ("languages = [\"de\", \"DE\"]", "1:13", &["already in the list"]),
    ("bypass_fields = [\"a b\"]", "1:17", &["\"a b\"", "write a name"]),
    ("hedge_ms = \"200\"", "1:12", &["has no unit", "\"200s\""]),
    ("hedge_ms = \"p95\"", "1:12", &["`hedge_ms`"]),
    ("hedge_ms = false", "1:12", &["cannot be a boolean"]),
    ("origin_outlier_factor = 1", "1:25", &["cannot be 1", "write 2 or more"]),
    ("origin_outlier_factor = 1.5", "1:25", &["`origin_outlier_factor`"]),
    ("origin_outlier_factor = 101", "1:25", &["too large: 101"]),
    ("origin_outlier_ms_min = 0", "1:25", &["too small"]),
    ("health_path = \"health\"", "1:15", &["cannot be \"health\"", "write \"/health\""]),
    ("health_path = \"/a b\"", "1:15", &["cannot be \"/a b\"", "percent-encoded"]),
    ("health_path = \"/a#b\"", "1:15", &["percent-encoded"]),
    ("health_path = 1", "1:15", &["in double quotes"]),
    ("health_status = 199", "1:17", &["too small: 199", "200 to 599"]),
    ("health_interval_ms = \"500ms\"", "1:22", &["too small", "1s"]),
    ("basic_auth = \"users\"", "1:14", &["is not an absolute path", "absolute path"]),
    ("basic_auth = true", "1:14", &["cannot be a boolean", "the absolute path of a file"]),
    (
        "basic_auth = \"/nowhere/users\"",
        "1:14",
        &["/nowhere/users: No such file", "htpasswd -B /nowhere"],
    ),
    ("basic_auth = \"/dev/null\"", "1:14", &["not a regular file"]),
    ("basic_auth_realm = \"a\\\"b\"", "1:20", &["without quotes"]),
    ("basic_auth_realm = \"a\\r\\nb: c\"", "1:20", &["printable ASCII"]),
    ("purge_from = 1", "1:14", &["is not an array", "127.0.0.1"]),
    ("purge_from = [\"10.0.0.1/8\"]", "1:14", &["\"10.0.0.1/8\"", "network, \"10.0.0.0/8\""]),
    ("purge_from = [\"::ffff:10.0.0.0/104\"]", "1:14", &["write \"10.0.0.0/8\""]),
    ("purge_from = [\"::ffff:10.0.0.1\"]", "1:14", &["write \"10.0.0.1/32\""]),
    ("purge_from = [\"10.0.0.0/33\"]", "1:14", &["a number from 1 to 32"]),
    ("purge_from = [\"10.0.0.0/+8\"]", "1:14", &["a number from 1 to 32"]),
    ("purge_from = [\"::/129\"]", "1:14", &["a number from 1 to 128"]),
    ("purge_from = [\"localhost\"]", "1:14", &["write an IP address"]),
    ("purge_from = [\"127.0.0.1:80\"]", "1:14", &["without brackets or a port"]),
    ("workers = 1\nworkers = 2", "2:1", &["`workers` is set twice", "first use is in line 1"]),
    ("cache_size = 64KiB", "1:14", &["must be in quotes", "write \"64KiB\""]),
    ("listen = \"127.0.0.1:80", "1:23", &["has no end in this line"]),
    ("ä = 1", "1:1", &["a key has only letters, digits, - and _"]),
    ("\t listen = \"ü\" # ü", "1:12", &["such as \"127.0.0.1:8080\""]),
];

/// A path of 108 bytes.
const LONG_SOCKET: &str = "origin = \"unix:/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\
    aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"";

/// Bad values in a second site, which is otherwise valid: its header is on line 5; `name`, `names`
/// and `origin` are on lines 6 to 8.
#[rustfmt::skip]
pub(super) const SITE_VALUES: &[Case] = &[
    ("name = \"a\"", "6:8", &["two sites have the name \"a\"", "at f.toml:2:8"]),
    ("name = \"a b\"", "6:8", &["cannot be \"a b\"", "printable ASCII"]),
    ("name = 7", "6:8", &["in double quotes"]),
    ("names = [\"b.org\", \"A.org\"]", "7:19", &["a site already serves `a.org`", "f.toml:3:10"]),
    ("names = [\"b.org\", \"b.org\"]", "7:19", &["a site already serves `b.org`", "f.toml:7:10"]),
    ("names = []", "7:9", &["is empty"]),
    ("names = \"b.org\"", "7:9", &["is not an array", "write [\"b.org\"]"]),
    ("names = [1]", "7:10", &["in double quotes"]),
    ("names = [\"b.org:80\"]", "7:10", &["write \"b.org\""]),
    ("names = [\"http://b.org\"]", "7:10", &["without a scheme or a path"]),
    ("names = [\"b..org\"]", "7:10", &["between single dots"]),
    ("names = [\"b.*.org\"]", "7:10", &["\"*.example.org\""]),
    ("names = [\"bücher.de\"]", "7:10", &["xn--"]),
    ("names = [\"[::g]\"]", "7:10", &["IPv6"]),
    ("origin = \"https://b/x\"", "8:10", &["leave out the path"]),
    ("origin = \"127.0.0.1:3000\"", "8:10", &["write \"http://127.0.0.1:3000\""]),
    ("origin = \"ftp://b\"", "8:10", &["has to be http"]),
    ("origin = \"http://b/app\"", "8:10", &["leave out the path"]),
    ("origin = \"http://b?x\"", "8:10", &["leave out the path"]),
    ("origin = \"http://u:p@b\"", "8:10", &["leave out user name, password and @"]),
    ("origin = \"http://b:0\"", "8:10", &["1 to 65535"]),
    ("origin = \"http://b:65536\"", "8:10", &["1 to 65535"]),
    ("origin = \"http://b:\"", "8:10", &["1 to 65535"]),
    ("origin = \"http://b:+1\"", "8:10", &["1 to 65535"]),
    ("origin = \"http://\"", "8:10", &["1 to 255 characters"]),
    ("origin = \"http://[::1\"", "8:10", &["in brackets"]),
    ("origin = \"http://*.b\"", "8:10", &["a * can only be"]),
    ("origin = \"unix:app.sock\"", "8:10", &["path of a Unix socket is absolute", "unix:/PATH"]),
    ("origin = \"unix:///run/a\"", "8:10", &["write \"unix:/run/a\""]),
    ("origin = \"unix:/run/\"", "8:10", &["write the path of a socket"]),
    ("origin = \"unix:/run/a b\"", "8:10", &["without spaces"]),
    ("origin = [\"unix:/a\", \"unix:/a\"]", "8:22", &["repeats \"unix:/a\""]),
    (LONG_SOCKET, "8:10", &["at most 107 bytes"]),
    ("origin = 80", "8:10", &["cannot be a number", "in double quotes"]),
    ("origin = []", "8:10", &["`origin` is empty"]),
    ("origin = [\"http://b\", \"c:1\"]", "8:23", &["write \"http://c:1\""]),
    ("origin = [\"http://b\", \"HTTP://B:80\"]", "8:23", &["repeats \"b\"", "`weight`"]),
    ("origin = { weight = 2 }", "8:10", &["`url` is missing here", "http://HOST"]),
    ("origin = { url = \"http://b\", wieght = 2 }", "8:30", &["of an origin", "`weight`?"]),
    ("origin = { url = \"http://b\", weight = 0 }", "8:39", &["too small: 0", "1 to 1000"]),
    ("origin = { url = \"b\" }", "8:18", &["write \"http://b\""]),
    ("origin = [{ url = \"http://b\", backup = \"yes\" }]", "8:40", &["true or false"]),
    ("origin = [{ url = \"http://b\", backup = true }]", "8:10", &["only backups"]),
    ("origin = \"http://b, http://c\"", "8:10", &["write [\"http://b\", \"http://c\"]"]),
    ("origin = \"http:/b\"", "8:10", &["write \"http://b\""]),
    ("origin = \"http://unix:/run/a:/\"", "8:10", &["write \"unix:/run/a\""]),
    ("origin = [\"https://b\", \"https://c\"]\norigin_ca = [\"none.pem\"]", "9:13",
        &["cannot read none.pem", "a path is relative"]),
    ("names = [\"b.org, c.org\"]", "7:10", &["of its own: [\"b.org\", \"c.org\"]"]),
];

/// Lines that follow a valid site, and so begin on line 5.
#[rustfmt::skip]
const BEHIND: &[Case] = &[
    ("orgin = 1", "5:1", &["`orgin` is not a setting of a site", "mean `origin`?"]),
    ("workers = 1", "5:1", &["before the first section"]),
    ("listen = \"x\"", "5:10", &["is not an address", "\"127.0.0.1:8080\""]),
    ("path_prefix = \"/\"", "5:1", &["write this setting in [[site.route]]"]),
    ("hsts = 'on'", "5:8", &["cannot have the directive \"on\"", "off, or max-age=SECONDS"]),
    ("hsts = 'includeSubDomains'", "5:8", &["has no `max-age`", "browsers ignore"]),
    ("hsts = 'max-age=1y'", "5:8", &["cannot have the time \"1y\"", "max-age=31536000"]),
    ("hsts = 'max-age=+1'", "5:8", &["cannot have the time \"+1\""]),
    ("hsts = 'max-age=1; max-age=2'", "5:8", &["has `max-age` twice"]),
    ("hsts = 'max-age=1; includeSubDomain'", "5:8", &["did you mean `includeSubDomains`?"]),
    ("https_redirect_port = 65536", "5:23", &["65536"]),
    ("redirect = 'https://x'", "5:12", &["write a status in front", "\"302 https://x\""]),
    ("redirect = '302 htps://b.org'", "5:12", &["did you mean https://b.org?"]),
    ("redirect = '302 ftp://b.org'", "5:12", &["has to be http or https"]),
    ("redirect = '301 /x$request_uri'", "5:12", &["did you mean $uri?"]),
    ("redirect = '301'", "5:12", &["cannot be \"301\"", "a status and a URL"]),
    ("redirect = '300 /x'", "5:12", &["301, 302, 303, 307 or 308"]),
    ("redirect = '301 x.org'", "5:12", &["write https:// in front of the host", "https://x.org"]),
    ("redirect = '301 $uri'", "5:12", &["could lead to another host"]),
    ("redirect = '301 /$path'", "5:12", &["begins with two slashes"]),
    ("redirect = '301 http://$path'", "5:12", &["write the host after the scheme"]),
    ("redirect = '301 http://a@b$path'", "5:12", &["cannot have a user name", "the part before @"]),
    ("redirect = '301 http://b$query'", "5:12", &["a path between host and query", "org/$query"]),
    ("redirect = '301 /x$pth'", "5:12", &["did you mean $path?"]),
    ("redirect = '301 /x$remote_addr'", "5:12", &["$path, $query, $uri and $host", "%24"]),
    ("redirect = '301 /x$path$path'", "5:12", &["$path can be in the URL only once"]),
    ("redirect = \"301 /x\\r\\ny: z\"", "5:12", &["cannot have the character '\\r'"]),
    ("redirect = '301 /x y'", "5:12", &["cannot have the character ' '"]),
    ("respond = 503", "5:11", &["cannot be a number", "with a text: \"503 "]),
    ("respond = '99 x'", "5:11", &["cannot begin with \"99\"", "200 to 599"]),
    ("respond = '301 /x'", "5:11", &["for a redirect use `redirect`"]),
    ("respond = '401 no'", "5:11", &["fields that `respond` cannot give"]),
    ("respond = '204 no'", "5:11", &["status 204 has no text"]),
    ("respond_type = 'html'", "5:16", &["cannot be \"html\"", "text/html"]),
    ("respond_type = \"a/b\\r\\nc: d\"", "5:16", &["a media type"]),
    ("respond_retry_after_s = '2y'", "5:25", &["unknown unit"]),
    ("respond = '503 x'\nredirect = '301 /x'", "5:11", &["same section", "one answer"]),
    ("[[site.route]]\npath_prefix = \"/x\"\nredirect = '301 /y'\nrespond = '410'", "8:11",
        &["same section", "leave one of them out"]),
    ("[[site]]\nname = \"b\"\nnames = [\"b.org\"]\nredirect = '301'", "8:12",
        &["cannot be \"301\""]),
    ("[[site]]\nname = \"b\"\nnames = [\"b.org\"]\n[[site.route]]\npath_prefix = \"/x\"\n\
        redirect = '301 /y'", "5:1", &["`origin` is missing"]),
    ("[[site]]\nname = \"b\"\nnames = [\"b.org\"]\nredirect = '301 /x'\n[[site.route]]\n\
        path_prefix = \"/x\"\nredirect = 'off'", "5:1", &["`origin` is missing"]),
    ("error_pages = ['502']", "5:15", &["cannot contain \"502\"", "absolute path"]),
    ("error_pages = ['502=x.html']", "5:15", &["absolute path of a file"]),
    ("error_pages = ['200=/x.html']", "5:15", &["400 to 599"]),
    ("error_pages = ['502=/x.php']", "5:15", &[".html, .json or .txt"]),
    ("error_pages = ['502=/nowhere/x.html']", "5:15", &["cannot be read: No such file"]),
    ("origin_error_pages = ['404']", "5:22", &["cannot contain \"404\"", "absolute path"]),
    ("origin_error_pages = ['404=/nowhere/x.html']", "5:22", &["cannot be read: No such file"]),
    ("freshness_jitter_percent = 51", "5:28", &["too large: 51", "0 to 50 percent"]),
    ("heuristic_percent = 101", "5:21", &["too large: 101", "0 to 100 percent"]),
    ("[site.route]\npath_prefix = \"/\"", "5:1", &["write [[site.route]]"]),
    ("[[site.route]]\ncache = false", "5:1", &["needs `path_prefix`, `path` or `path_regex`"]),
    ("[[site.route]]\npath_prefix = \"x\"", "6:15", &["write \"/x\""]),
    ("[[site.route]]\npath_prefix = \"/x/*\"", "6:15", &["write \"/x/\"; it stands for all"]),
    ("[[site.route]]\npath_prefix = \"/x*\"", "6:15", &["without patterns"]),
    ("[[site.route]]\npath_prefix = \"/ä\"", "6:15", &["percent-encoded"]),
    ("[[site.route]]\npath_prefix = \"/%61\"", "6:15", &["percent-encode only a space"]),
    ("[[site.route]]\npath_prefix = \"/x/../\"", "6:15", &["without //, /./, /../"]),
    ("[[site.route]]\npath = \"x\"", "6:8", &["`path` cannot be", "write \"/x\""]),
    ("[[site.route]]\npath = \"/x?y\"", "6:8", &["with_query = [\"y\"] below it"]),
    ("[[site.route]]\npath = \"/x\"\npath_prefix = \"/x\"", "6:8",
        &["in the same section", "leave one of them out"]),
    ("[[site.route]]\npath = \"/x\"\n[[site.route]]\npath = \"/x\"", "8:8",
        &["two routes for \"/x\"", "at f.toml:6:8"]),
    ("path = \"/\"", "5:1", &["write this setting in [[site.route]]"]),
    ("ambiguous_path = \"normal\"", "5:18", &["refuse", "normal-form"]),
    ("[[site.route]]\npath_prefix = 1", "6:15", &["in double quotes"]),
    ("[[site.route]]\npath_prefix = \"/x\"\n[[site.route]]\npath_prefix = \"/x\"", "8:15",
        &["two routes for \"/x\"", "at f.toml:6:15"]),
    ("[[site.route]]\npath_prefix = \"/x\"\nname = \"x\"", "7:1",
        &["not a setting of a route", "write this setting in [[site]]"]),
    ("[[site]]\nname = \"b\"\nnames = [\"b.org\"]", "5:1", &["`origin` is missing"]),
    ("[[site]]\nname = \"b\"\norigin = \"http://b\"", "5:1", &["`names` is missing"]),
    ("[[site]]\nnames = [\"b.org\"]\norigin = \"http://b\"", "5:1", &["`name` is missing"]),
];

/// A valid site, on four lines.
pub(super) const SITE: &str =
    "[[site]]\nname = \"a\"\nnames = [\"a.org\"]\norigin = \"http://a\"\n";

pub(super) fn errors(text: &str) -> ConfigErrors {
    match Config::from_toml(text, "f.toml") {
        Ok(_) => panic!("no error was found in\n{text}"),
        Err(errors) => errors,
    }
}

/// Checks that the configuration has exactly one error, which is at `place` and whose text contains
/// all of `parts`.
pub(super) fn check(text: &str, place: &str, parts: &[&str]) {
    let errors = errors(text);
    let shown = errors.to_string();
    assert_eq!(errors.count(), 1, "{text}\n{shown}");
    assert!(shown.starts_with(&format!("f.toml:{place}: ")), "{text}\n{shown}");
    for part in parts {
        assert!(shown.contains(part), "no {part:?} in the answer to\n{text}\n{shown}");
    }
}

#[test]
fn a_bad_line_at_the_top_is_refused_with_its_place_and_a_hint() {
    for (line, place, parts) in TOP {
        check(&format!("{line}\n{SITE}"), place, parts);
    }
}

#[test]
fn a_bad_site_is_refused_with_its_place_and_a_hint() {
    for (line, place, parts) in SITE_VALUES {
        let right = ["name = \"b\"", "names = [\"b.org\"]", "origin = \"http://b\""];
        let key = |line: &str| line.split(' ').next().map(str::to_owned);
        let second = right.map(|other| if key(other) == key(line) { *line } else { other });
        check(&format!("{SITE}[[site]]\n{}\n", second.join("\n")), place, parts);
    }
    for (lines, place, parts) in BEHIND {
        check(&format!("{SITE}{lines}\n"), place, parts);
    }
    check("[site]\nname = \"a\"", "1:1", &["write [[site]]"]);
    check("site = [1]", "1:9", &["has to be a [[site]] section"]);
}

#[test]
fn a_file_without_sites_has_nothing_to_serve() {
    let shown = errors("workers = 1").to_string();
    assert!(shown.starts_with("f.toml: there is no [[site]]"), "{shown}");
}

#[test]
fn too_many_routes_are_refused() {
    let routes: String = (0..=crate::limits::ROUTES_PER_SITE_MAX)
        .map(|i| format!("[[site.route]]\npath_prefix = \"/{i}\"\n"))
        .collect();
    let line = 5 + 2 * crate::limits::ROUTES_PER_SITE_MAX;
    check(&format!("{SITE}{routes}"), &format!("{line}:1"), &["at most 256 routes"]);
}

#[test]
fn all_errors_are_reported_in_the_order_of_the_file() {
    let text = "workers = -1\nlisen = \"x\"\nlog_level = \"loud\"\n\
                [[site]]\nnames = [\"a b\", \"c:1\"]\norigin = \"c\"\n[[site]]\n";
    let found = errors(text);
    let places: Vec<String> = found.iter().map(|error| error.place.to_string()).collect();
    let expected = ["1:11", "2:1", "3:13", "4:1", "5:10", "5:17", "6:10", "7:1", "7:1", "7:1"];
    assert_eq!(places, expected.map(|place| format!("f.toml:{place}")), "{found}");
    assert!(found.to_string().ends_with("10 errors"), "{found}");
    let many = errors(&"[[site]]\n".repeat(1000)).to_string();
    assert!(many.ends_with("3000 errors; the first 50 are shown"), "{many}");
}

#[test]
fn an_invalid_balance_hides_no_error_of_the_origins() {
    let text =
        "[[site]]\nname = \"a\"\nnames = [\"a.org\"]\nbalance = \"lest\"\norigin = [\"c:1\"]\n";
    let found = errors(text);
    let places: Vec<String> = found.iter().map(|error| error.place.to_string()).collect();
    assert_eq!(places, ["f.toml:4:11", "f.toml:5:11"], "{found}");
}

#[test]
fn an_error_shows_the_line_and_marks_the_value() {
    let text = format!("workers = 1\n\tcache_size = \"64kb\" # small\r\n{SITE}");
    let expected = "\
f.toml:2:15: `cache_size` has an unknown unit: \"64kb\"
  2 |  cache_size = \"64kb\" # small
    |               ^^^^^^
  expected: a size from 4MiB to 256GiB
  hint: did you mean \"64KiB\"?

1 error";
    assert_eq!(errors(&text).to_string(), expected);
    // A line that is too long for a terminal is cut, and its carets are cut too.
    let long = format!("log_level = \"{}\"\n{SITE}", "x".repeat(1000));
    assert!(errors(&long).to_string().lines().all(|line| line.len() < 1100));
}

#[test]
fn flags_are_named_in_their_errors() {
    let cases = [
        ("workers", "many", "--workers: `workers` is not a whole number"),
        ("cache-size", "1kb", "--cache-size: `cache_size` has an unknown unit"),
        ("cache", "maybe", "--cache: `cache` cannot be \"maybe\""),
        ("listen", "", "--listen: `listen` is empty"),
        ("colour", "red", "--colour: no setting has this flag"),
    ];
    for (name, value, expected) in cases {
        let flags = [FlagValue { name, value }];
        let shown = Config::load(ConfigSource::Origin("http://a"), &flags).unwrap_err().to_string();
        assert!(shown.starts_with(expected), "{shown}");
    }
    let shown = Config::load(ConfigSource::Origin("a:1"), &[]).unwrap_err().to_string();
    assert!(shown.starts_with("--origin: ") && shown.contains("\"http://a:1\""), "{shown}");
}

#[test]
fn a_file_cut_anywhere_causes_no_panic() {
    let text = defaults_toml();
    for (end, _) in text.char_indices().step_by(5) {
        let _ = Config::from_toml(&text[..end], "f");
    }
    for text in ["\u{feff}", "=", "[[", "[[site", "[[site]]\n[[site.route]]\n[site.route.x]", "\0"]
    {
        let _ = Config::from_toml(text, "f").map_err(|errors| errors.to_string());
    }
}
