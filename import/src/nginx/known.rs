//! The directives that the translation knows.

use super::condition;
use super::source::NginxSource;
use super::syntax::NginxDirective;

/// Directives outside `http` that have no meaning for Forebay.
const MAIN: &[&str] = &[
    "user",
    "worker_processes",
    "pid",
    "events",
    "load_module",
    "worker_rlimit_nofile",
    "daemon",
    "worker_cpu_affinity",
    "worker_priority",
    "master_process",
    "pcre_jit",
    "thread_pool",
    "env",
    "worker_shutdown_timeout",
    "timer_resolution",
    "lock_file",
    "worker_rlimit_core",
    "working_directory",
    "ssl_engine",
    "debug_points",
    "quic_bpf",
    "google_perftools_profiles",
    "worker_aio_requests",
];

/// Directives that other files of this module translate, or report themselves.
const CARRIED: &[&str] = &[
    "server",
    "location",
    "upstream",
    "listen",
    "server_name",
    "ssl_certificate",
    "ssl_certificate_key",
    "ssl_protocols",
    "proxy_pass",
    "proxy_set_header",
    "proxy_cache",
    "proxy_cache_valid",
    "proxy_cache_use_stale",
    "proxy_cache_bypass",
    "proxy_no_cache",
    "proxy_cache_key",
    "add_header",
    "expires",
    "error_page",
    "proxy_intercept_errors",
    "proxy_hide_header",
    "return",
    "rewrite",
    "gzip",
    "gzip_types",
    "gzip_min_length",
    "gunzip",
    "limit_req",
    "limit_req_zone",
    "limit_req_status",
    "limit_req_dry_run",
    "limit_conn",
    "limit_conn_zone",
    "limit_conn_status",
    "limit_conn_dry_run",
    "auth_basic",
    "auth_basic_user_file",
    "allow",
    "deny",
    "satisfy",
    "client_max_body_size",
    "proxy_connect_timeout",
    "proxy_read_timeout",
    "access_log",
    "root",
    "alias",
    "index",
    "try_files",
    "if",
    "internal",
    "limit_except",
    "set_real_ip_from",
    "real_ip_header",
    "proxy_cache_background_update",
    "proxy_cache_lock",
    "proxy_cache_revalidate",
    "fastcgi_pass",
    "uwsgi_pass",
    "scgi_pass",
    "grpc_pass",
    "grpc_set_header",
    "grpc_hide_header",
    "grpc_connect_timeout",
    "grpc_read_timeout",
    "grpc_intercept_errors",
    "memcached_pass",
    "default_type",
];

/// Directives about the ways in which nginx works, which need no counterpart.
const QUIET: &[&str] = &[
    "sendfile",
    "sendfile_max_chunk",
    "tcp_nopush",
    "tcp_nodelay",
    "keepalive_timeout",
    "keepalive_requests",
    "types",
    "types_hash_max_size",
    "types_hash_bucket_size",
    "server_names_hash_bucket_size",
    "server_names_hash_max_size",
    "server_tokens",
    "log_format",
    "error_log",
    "proxy_http_version",
    "grpc_buffer_size",
    "proxy_buffering",
    "proxy_buffers",
    "proxy_buffer_size",
    "proxy_busy_buffers_size",
    "proxy_redirect",
    "proxy_request_buffering",
    "client_body_buffer_size",
    "client_header_buffer_size",
    "large_client_header_buffers",
    "open_file_cache",
    "open_file_cache_valid",
    "charset",
    "open_file_cache_min_uses",
    "open_file_cache_errors",
    "log_not_found",
    "gzip_vary",
    "gzip_proxied",
    "gzip_comp_level",
    "gzip_buffers",
    "gzip_http_version",
    "gzip_disable",
    "gzip_static",
    "ssl",
    "ssl_ciphers",
    "ssl_prefer_server_ciphers",
    "ssl_session_cache",
    "ssl_session_timeout",
    "ssl_session_tickets",
    "ssl_dhparam",
    "ssl_ecdh_curve",
    "ssl_stapling",
    "ssl_stapling_verify",
    "ssl_trusted_certificate",
    "resolver",
    "resolver_timeout",
    "http2",
    "map_hash_bucket_size",
    "map_hash_max_size",
    "variables_hash_max_size",
    "etag",
    "variables_hash_bucket_size",
    "reset_timedout_connection",
    "aio",
    "directio",
    "limit_req_log_level",
    "limit_conn_log_level",
    "fastcgi_param",
    "fastcgi_index",
    "fastcgi_split_path_info",
    "port_in_redirect",
    "absolute_redirect",
    "server_name_in_redirect",
    "proxy_headers_hash_max_size",
    "proxy_headers_hash_bucket_size",
    "merge_slashes",
    "autoindex",
    "disable_symlinks",
];

/// Handlers other than `proxy_pass` and files.
pub(super) const HANDLERS: &[&str] = &[
    "fastcgi_pass",
    "uwsgi_pass",
    "scgi_pass",
    "memcached_pass",
    "stub_status",
    "empty_gif",
    "random_index",
    "dav_methods",
    "flv",
    "mp4",
    "hls",
    "image_filter",
    "xslt_stylesheet",
];

/// Families of directives that refuse nothing: they are about the way to the origin, about
/// responses, or set variables, whose effect is in the condition that reads them.
const HARMLESS: &[&str] = &[
    "proxy_",
    "fastcgi_",
    "uwsgi_",
    "scgi_",
    "grpc_",
    "memcached_",
    "gzip",
    "gunzip",
    "brotli",
    "zstd",
    "ssl_",
    "http2",
    "http3",
    "quic_",
    "keepalive_",
    "open_file_cache",
    "open_log_file_cache",
    "sub_filter",
    "subs_filter",
    "ssi",
    "charset",
    "source_charset",
    "override_charset",
    "client_",
    "send_",
    "output_buffers",
    "postpone_output",
    "lingering_",
    "types",
    "server_",
    "log_",
    "limit_rate",
    "limit_conn",
    "limit_req",
    "map",
    "geo",
    "split_clients",
    "userid",
    "mirror",
    "resolver",
    "status_zone",
    "vhost_traffic_status",
    "more_set_headers",
    "more_clear_headers",
    "headers_more",
    "add_",
    "expires",
    "etag",
    "if_modified_since",
    "recursive_error_pages",
    "msie_",
    "chunked_",
    "read_ahead",
    "max_ranges",
    "underscores_in_headers",
    "ignore_invalid_headers",
    "connection_pool_size",
    "request_pool_size",
    "subrequest_output_buffer_size",
    "slice",
    "otel_",
    "opentracing",
    "opentelemetry",
    "uninitialized_variable_warn",
    "rewrite_log",
    "valid_referers",
    "referer_hash_",
    "auth_delay",
    "auth_request_set",
    "modsecurity_",
    "lua_",
    "js_import",
    "js_include",
    "js_path",
    "js_set",
    "js_var",
    "js_header_filter",
    "js_body_filter",
    "perl_modules",
    "perl_require",
    "perl_set",
    "min_delete_depth",
    "create_full_put_path",
    "dav_",
    "image_filter_",
    "xslt_",
    "mp4_",
    "hls_",
    "real_ip_",
    "aio",
    "directio",
    "autoindex",
    "fancyindex",
    "ancient_browser",
    "modern_browser",
    "set_",
    "pagespeed",
    "break",
];

/// Programs in Lua that run when the answer is decided, or that set variables.
const HARMLESS_LUA: &[&str] = &[
    "init_by_lua",
    "init_worker_by_lua",
    "log_by_lua",
    "header_filter_by_lua",
    "body_filter_by_lua",
    "set_by_lua",
];

/// Advice for directives that are left out.
const ADVICE: &[(&str, &str)] = &[
    ("map", "variables have no counterpart; header rules can compare fields (docs/rules.md)"),
    ("geo", "use allow_from and deny_from"),
    (
        "proxy_cache_path",
        "stored responses are in memory: set cache_size to the size that you want",
    ),
    ("proxy_send_timeout", "body_rate_min and body_grace_ms limit slow senders"),
    ("grpc_send_timeout", "body_rate_min and body_grace_ms limit slow senders"),
    ("proxy_next_upstream", "docs/origins.md says which requests go on to another origin"),
    ("grpc_next_upstream", "docs/origins.md says which requests go on to another origin"),
    ("proxy_ignore_headers", "the origin's fields count; override_freshness_s replaces lifetimes"),
    ("proxy_ssl_trusted_certificate", "name the file in origin_ca"),
    ("grpc_ssl_trusted_certificate", "name the file in origin_ca"),
    ("proxy_ssl_name", "use origin_tls_name"),
    ("grpc_ssl_name", "use origin_tls_name"),
    ("proxy_ssl_verify", "certificates of https origins are always verified"),
    ("grpc_ssl_verify", "certificates of https origins are always verified"),
    ("proxy_cache_min_uses", "responses are stored at their first request"),
    ("proxy_cache_methods", "only GET and HEAD are answered from the cache"),
    ("client_body_timeout", "body_rate_min and body_grace_ms limit slow senders"),
    ("client_header_timeout", "use head_ms_max"),
    ("send_timeout", "body_rate_min and body_grace_ms limit slow readers"),
    ("sub_filter", "bodies are not changed"),
    ("set", "variables have no counterpart"),
    ("stub_status", "forebay stats shows the counters"),
];

/// Whether a directive outside `http` can be passed over.
pub(super) fn is_main(name: &str) -> bool {
    MAIN.contains(&name)
}

/// Whether a directive may refuse a request that nothing else refuses. One that is not known may.
pub(super) fn may_refuse(directive: &NginxDirective) -> bool {
    match directive.name.as_str() {
        "ssl_verify_client" => directive.arg(0) == "on",
        "satisfy" => directive.arg(0) == "any",
        "limit_except" => true,
        // An origin may trust fields that clients send, but that nginx removes.
        "proxy_pass_request_headers" => directive.arg(0) == "off",
        "if" => condition::refuses(directive),
        name => !is_harmless(name) && directive.arg(0) != "off",
    }
}

/// Whether nginx applies a directive only in the block that has it, not in the locations inside.
pub(super) fn is_own_only(name: &str) -> bool {
    matches!(name, "if" | "limit_except")
}

fn is_harmless(name: &str) -> bool {
    let is_known = CARRIED.contains(&name) || QUIET.contains(&name) || HANDLERS.contains(&name);
    let has_advice = ADVICE.iter().any(|(known, _)| *known == name);
    let is_of = |families: &[&str]| families.iter().any(|family| name.starts_with(family));
    if name.contains("_by_lua") || name == "ssl_reject_handshake" {
        return is_of(HARMLESS_LUA);
    }
    is_known || has_advice || is_of(HARMLESS)
}

/// Whether a directive needs no note here.
fn is_passed_over(name: &str) -> bool {
    CARRIED.contains(&name) || QUIET.contains(&name) || name.ends_with("_temp_path")
}

/// Notes the directives of a block, and of the blocks inside, that have no translation.
pub(super) fn note_unknown(source: &NginxSource<'_>, block: &[NginxDirective]) {
    let mut blocks = vec![block];
    while let Some(block) = blocks.pop() {
        for directive in block {
            let name = directive.name.as_str();
            if matches!(name, "server" | "location") {
                blocks.push(directive.inner());
            }
            if may_refuse(directive) {
                let is_signed = name.starts_with("secure_link") && !source.drop_access_rules;
                source.note(directive, if is_signed { SIGNED_LINK } else { refusal(source) });
            } else if name == "map" && directive.arg(0) == "$http_upgrade" {
                // The usual value of `Connection`, which Forebay sets.
            } else if name == "if" {
                let advice =
                    "the condition is left out; a header rule may replace it (docs/rules.md)";
                source.note(directive, advice);
            } else if !is_passed_over(name) {
                let advice = ADVICE.iter().find(|(known, _)| *known == name);
                let advice = advice.map_or("it has no counterpart", |(_, advice)| advice);
                source.note(directive, format!("left out: {advice}"));
            }
        }
    }
}

/// The consequence of a directive of `secure_link`, unless access rules are dropped.
const SIGNED_LINK: &str = "cannot be carried over and may refuse requests, so the requests that it \
                           applies to get 403; use signed_urls, whose signatures differ \
                           (docs/access.md), or --drop-access-rules";

/// The consequence of a directive that may refuse requests.
pub(super) fn refusal(source: &NginxSource<'_>) -> &'static str {
    match source.drop_access_rules {
        true => "left out, because of --drop-access-rules: requests that it refused are now served",
        false => {
            "cannot be carried over and may refuse requests, so the requests that it applies to \
             get 403; protect them by allow_from or basic_auth (docs/access.md), or use \
             --drop-access-rules"
        }
    }
}
