//! What the language has and Forebay has not: why, and what to use instead.

/// Why, and what instead.
pub(crate) type UnsupportedReason = (&'static str, &'static str);

/// A condition that is refused whatever stands around it.
pub(crate) fn condition(name: &str, qualifier: Option<&str>) -> Option<UnsupportedReason> {
    match name {
        "ACCESS" => Some((
            "no file is looked at while requests wait",
            "switch the rule by changing the rule file and `forebay reload`",
        )),
        "DBM" => Some(("no such files are read (nor does the original)", "a set: (a,b,c)")),
        "GEO" => Some((
            "no database of places is read",
            "ranges: cond %{IP:CLIENT} {10.0.0.0/8,192.0.2.0/24}",
        )),
        "TCP-INFO" => Some((
            "the state of a TCP connection is not looked at",
            "the access log has the times of each request",
        )),
        "SSN-TXN-COUNT" => Some((
            "requests on a connection to the origin are not counted for rules",
            "TXN-COUNT counts those of the client's connection",
        )),
        "INBOUND" => {
            let of_certificate = |name: &str| qualifier.is_some_and(|q| q.starts_with(name));
            let refused = of_certificate("CLIENT-CERT") || of_certificate("SERVER-CERT");
            refused.then_some(("clients are not spoken to over TLS yet", "leave it out"))
        }
        "NEXT-HOP" => (qualifier == Some("STRATEGY"))
            .then_some(("a site has one origin and no strategies", "NEXT-HOP:HOST")),
        _ => None,
    }
}

/// A control of `set-http-cntl` and `HTTP-CNTL`.
pub(crate) fn control(name: &str) -> Option<UnsupportedReason> {
    match name {
        "INTERCEPT_RETRY" => Some(("there are no plugins that intercept", "leave it out")),
        "TXN_DEBUG" => Some((
            "single requests are not traced by rules",
            "the setting log_level, or `forebay rules explain`",
        )),
        "SKIP_REMAP" => Some((
            "a request for no site is unsupported, never passed on",
            "a `[[site]]` of its own for such requests",
        )),
        _ => None,
    }
}

/// An operator.
pub(crate) fn operator(name: &str) -> Option<UnsupportedReason> {
    Some(match name {
        "set-body-from" => {
            ("no second request is made for an answer", "set-body with the text, or set-redirect")
        }
        "set-cc-alg" => {
            ("congestion control is the system's", "sysctl net.ipv4.tcp_congestion_control")
        }
        "set-conn-mark" => ("sockets are not marked", "set-conn-dscp, or the firewall's own marks"),
        "set-next-hop-strategy" => {
            ("a site has one origin and no strategies", "a `[[site]]` for each origin")
        }
        "set-effective-address" => (
            "the client's address is that of its connection",
            "compare with %{HEADER:X-Forwarded-For}",
        ),
        "set-debug" => (
            "single requests are not traced by rules",
            "the setting log_level, or `forebay rules explain`",
        ),
        "skip-remap" => (
            "a request for no site is unsupported, never passed on",
            "a `[[site]]` of its own for such requests",
        ),
        "timeout-out" | "set-timeout-out" => (
            "times are settings, the same for all requests",
            "origin_connect_ms_max, origin_first_byte_ms_max, origin_idle_ms_max",
        ),
        _ => return None,
    })
}

/// What to set instead of a variable of `set-config`.
pub(crate) fn config(variable: &str) -> &'static str {
    let name = variable.strip_prefix("proxy.config.http.").unwrap_or(variable);
    match name {
        "cache.http" => "the setting cache = false of a route, or set-http-cntl SERVER_NO_STORE on",
        "cache.required_headers" | "cache.when_to_revalidate" | "cache.heuristic_min_lifetime" => {
            "the setting default_freshness_s of a site or a route"
        }
        "cache.heuristic_max_lifetime" => "the setting heuristic_s_max of a site or a route",
        "cache.heuristic_lm_factor" => "the setting heuristic_percent of a site or a route",
        "cache.guaranteed_min_lifetime" | "cache.guaranteed_max_lifetime" => {
            "set-header Cache-Control \"max-age=…\" in READ_RESPONSE_HDR_HOOK"
        }
        "cache.max_doc_size" | "proxy.config.cache.max_doc_size" => {
            "the setting object_bytes_max of a site or a route"
        }
        "cache.open_read_retry_time" | "cache.max_open_read_retries" => {
            "the setting collapse_wait_ms_max"
        }
        "connect_attempts_timeout" => "the setting origin_connect_ms_max",
        "transaction_no_activity_timeout_out" => {
            "the settings origin_first_byte_ms_max and origin_idle_ms_max"
        }
        "keep_alive_no_activity_timeout_out" => "the setting origin_pool_idle_ms_max",
        "keep_alive_no_activity_timeout_in" => "the setting idle_ms_max",
        "transaction_no_activity_timeout_in" => "the settings body_rate_min and body_grace_ms",
        "request_header_max_size" => "the setting head_bytes_max",
        "per_server.connection.max" => "the setting origin_connections_max",
        _ => "docs/settings.md lists the settings, those of a site and of a route among them",
    }
}
