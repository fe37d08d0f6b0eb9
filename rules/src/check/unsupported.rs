//! The parts of the language that Forebay does not support, each with the reason and an
//! alternative.

/// The reason why a part of the language is not supported, and an alternative.
pub(crate) type UnsupportedReason = (&'static str, &'static str);

/// Returns the reason why a condition is refused at every hook; `None` if it is not.
pub(crate) fn condition(name: &str, qualifier: Option<&str>) -> Option<UnsupportedReason> {
    match name {
        "ACCESS" => Some((
            "files are not read while requests wait",
            "change the rule file and run `forebay reload`",
        )),
        "DBM" => Some((
            "DBM files are not supported; the plugin header_rewrite does not read them either",
            "use a set: (a,b,c)",
        )),
        "GEO" => Some((
            "geographic databases are not supported",
            "use ranges: cond %{IP:CLIENT} {10.0.0.0/8,192.0.2.0/24}",
        )),
        "TCP-INFO" => Some((
            "the state of TCP connections is not available",
            "see the times of each request in the access log",
        )),
        "SSN-TXN-COUNT" => Some((
            "requests per origin connection are not counted",
            "use TXN-COUNT, which counts requests on the client's connection",
        )),
        "INBOUND" => {
            const PARTS: [&str; 5] = ["PEM", "SIG", "VERSION", "NOT_BEFORE", "NOT_AFTER"];
            let part = qualifier.and_then(|qualifier| qualifier.strip_prefix("CLIENT-CERT:"));
            if part.is_some_and(|part| PARTS.contains(&part)) {
                return Some((
                    "this part of the client's certificate is not available",
                    "use CLIENT-CERT:FINGERPRINT, or forward_client_certificate for the origin",
                ));
            }
            let of_server = qualifier.is_some_and(|text| text.starts_with("SERVER-CERT"));
            of_server.then_some((
                "the server's certificate is not available",
                "use the host of the request",
            ))
        }
        "NEXT-HOP" => (qualifier == Some("STRATEGY")).then_some((
            "sites have no strategies; the setting `balance` chooses among their origins",
            "use NEXT-HOP:HOST",
        )),
        _ => None,
    }
}

/// Returns the reason why a control of `set-http-cntl` and `HTTP-CNTL` is refused; `None` if it is
/// not.
pub(crate) fn control(name: &str) -> Option<UnsupportedReason> {
    match name {
        "INTERCEPT_RETRY" => Some(("there are no intercepting plugins", "leave the control out")),
        "TXN_DEBUG" => Some((
            "rules cannot trace single requests",
            "use `forebay trace`, or `forebay rules explain`",
        )),
        "SKIP_REMAP" => Some((
            "a request for a host that no site serves is refused, never passed on",
            "configure a `[[site]]` for such requests",
        )),
        _ => None,
    }
}

/// Returns the reason why an operator is refused; `None` if it is not.
pub(crate) fn operator(name: &str) -> Option<UnsupportedReason> {
    Some(match name {
        "set-body-from" => (
            "rules cannot send a second request to fetch a body",
            "use set-body with the text, or set-redirect",
        ),
        "set-cc-alg" => (
            "congestion control is a setting of the system",
            "use sysctl net.ipv4.tcp_congestion_control",
        ),
        "set-conn-mark" => (
            "marking sockets is not supported",
            "use set-conn-dscp, or mark packets in the firewall",
        ),
        "set-next-hop-strategy" => (
            "sites have no strategies; the setting `balance` chooses among their origins",
            "configure a `[[site.route]]` with an `origin` of its own for such requests",
        ),
        "set-effective-address" => (
            "rules cannot choose the client's address; the setting trusted_proxies does",
            "use the setting trusted_proxies, or compare with %{HEADER:X-Forwarded-For}",
        ),
        "set-debug" => (
            "rules cannot trace single requests",
            "use `forebay trace`, or `forebay rules explain`",
        ),
        "skip-remap" => (
            "a request for a host that no site serves is refused, never passed on",
            "configure a `[[site]]` for such requests",
        ),
        "timeout-out" | "set-timeout-out" => (
            "timeouts are settings, the same for all requests",
            "use origin_connect_ms_max, origin_first_byte_ms_max and origin_idle_ms_max",
        ),
        _ => return None,
    })
}

/// Returns the setting or the operator to use instead of a variable of `set-config`.
pub(crate) fn config(variable: &str) -> &'static str {
    let name = variable.strip_prefix("proxy.config.http.").unwrap_or(variable);
    match name {
        "cache.http" => {
            "use the setting cache = false of a route, or set-http-cntl SERVER_NO_STORE on"
        }
        "cache.required_headers" | "cache.when_to_revalidate" | "cache.heuristic_min_lifetime" => {
            "use the setting default_freshness_s of a site or a route"
        }
        "cache.heuristic_max_lifetime" => "use the setting heuristic_s_max of a site or a route",
        "cache.heuristic_lm_factor" => "use the setting heuristic_percent of a site or a route",
        "cache.guaranteed_min_lifetime" | "cache.guaranteed_max_lifetime" => {
            "use set-header Cache-Control \"max-age=…\" in READ_RESPONSE_HDR_HOOK"
        }
        "cache.max_doc_size" | "proxy.config.cache.max_doc_size" => {
            "use the setting object_bytes_max of a site or a route"
        }
        "cache.open_read_retry_time" | "cache.max_open_read_retries" => {
            "use the setting origin_first_byte_ms_max, which bounds this wait too"
        }
        "connect_attempts_timeout" => "use the setting origin_connect_ms_max",
        "transaction_no_activity_timeout_out" => {
            "use the settings origin_first_byte_ms_max and origin_idle_ms_max"
        }
        "keep_alive_no_activity_timeout_out" => "use the setting origin_pool_idle_ms_max",
        "keep_alive_no_activity_timeout_in" => "use the setting idle_ms_max",
        "transaction_no_activity_timeout_in" => "use the settings body_rate_min and body_grace_ms",
        "request_header_max_size" => "use the setting head_bytes_max",
        "per_server.connection.max" => "use the setting origin_connections_max",
        _ => "see docs/settings.md for all settings, including those of sites and routes",
    }
}
