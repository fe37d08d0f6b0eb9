# A news site: pages for all readers are the same, and lifetimes depend on the kind of file.
vcl 4.1;

import std;

backend default {
    .host = "127.0.0.1";
    .port = "@APP_1@";
    .first_byte_timeout = 20s;
}

sub vcl_recv {
    # Editors work without the cache.
    if (req.url ~ "^/(editor|login)(/|\?|$)") {
        return (pass);
    }
    if (req.url ~ "^/internal/") {
        return (synth(403, "Forbidden"));
    }
    # Parameters that count visitors.
    if (req.url ~ "(\?|&)(utm_[a-z]+|fbclid|gclid)=") {
        set req.url = regsuball(req.url, "(utm_[a-z]+|fbclid|gclid)=[-_A-Za-z0-9+()%.]+&?", "");
        set req.url = regsub(req.url, "[?|&]+$", "");
    }
    set req.url = std.querysort(req.url);
    unset req.http.Cookie;
}

sub vcl_backend_response {
    unset beresp.http.Set-Cookie;
    if (bereq.url ~ "\.(css|js|png|jpg|woff2)(\?.*)?$") {
        set beresp.ttl = 1d;
    } elsif (bereq.url ~ "^/ticker/") {
        set beresp.ttl = 5s;
    } else {
        set beresp.ttl = 60s;
    }
    if (beresp.status >= 500) {
        set beresp.uncacheable = true;
    }
    set beresp.grace = 1h;
}

sub vcl_deliver {
    unset resp.http.X-Powered-By;
    unset resp.http.Via;
    unset resp.http.X-Varnish;
    if (obj.hits > 0) {
        set resp.http.X-Cache = "HIT";
    } else {
        set resp.http.X-Cache = "MISS";
    }
}
