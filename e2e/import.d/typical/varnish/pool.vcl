# Two equal servers with checks, a reserve for some paths, and grace.
vcl 4.1;

import directors;
import std;

probe health {
    .url = "/health";
    .interval = 2s;
    .timeout = 1s;
    .window = 5;
    .threshold = 3;
    .expected_response = 200;
}

backend app1 {
    .host = "127.0.0.1";
    .port = "@APP_1@";
    .probe = health;
}

backend app2 {
    .host = "127.0.0.1";
    .port = "@APP_2@";
    .probe = health;
}

sub vcl_init {
    new pool = directors.round_robin();
    pool.add_backend(app1);
    pool.add_backend(app2);
    new ordered = directors.fallback();
    ordered.add_backend(app1);
    ordered.add_backend(app2);
}

sub vcl_recv {
    set req.backend_hint = pool.backend();
    if (req.url ~ "^/report/") {
        set req.backend_hint = ordered.backend();
        return (pass);
    }
    if (std.healthy(req.backend_hint)) {
        set req.grace = 10s;
    }
    if (req.http.Authorization) {
        return (pass);
    }
    if (req.url ~ "^/page/") {
        unset req.http.Cookie;
    }
}

sub vcl_hash {
    hash_data(req.url);
    hash_data(req.http.Host);
    hash_data(req.http.X-Device);
    return (lookup);
}

sub vcl_backend_response {
    set beresp.grace = 1h;
    if (beresp.status >= 500 && bereq.is_bgfetch) {
        return (abandon);
    }
    if (beresp.ttl <= 0s || beresp.http.Set-Cookie || beresp.http.Vary == "*") {
        set beresp.ttl = 120s;
        set beresp.uncacheable = true;
        return (deliver);
    }
}
