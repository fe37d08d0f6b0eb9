# Drupal: sessions bypass the cache, modules purge by URL and ban by tags.
vcl 4.1;

import std;

backend default {
    .host = "127.0.0.1";
    .port = "@APP_1@";
    .first_byte_timeout = 120s;
}

acl internal {
    "127.0.0.0"/8;
    "192.0.2.0"/24;
    "::1";
}

sub vcl_recv {
    if (req.method == "PURGE") {
        if (!client.ip ~ internal) {
            return (synth(403, "Not allowed."));
        }
        return (purge);
    }
    if (req.method == "BAN") {
        if (!client.ip ~ internal) {
            return (synth(403, "Not allowed."));
        }
        if (req.http.Cache-Tags) {
            ban("obj.http.Cache-Tags ~ " + req.http.Cache-Tags);
        } else {
            return (synth(403, "Cache-Tags header missing."));
        }
        return (synth(200, "Ban added."));
    }
    # Scripts for administrators are for the internal network.
    if (req.url ~ "^/(cron|install|update)\.php" && !client.ip ~ internal) {
        return (synth(404, "Page not found."));
    }
    if (req.url ~ "^/secret/" && client.ip ~ internal) {
        return (synth(403, "Not from here."));
    }
    if (req.url ~ "^/status\.php$" ||
        req.url ~ "^/admin/" ||
        req.url ~ "^/user/" ||
        req.url ~ "/ajax/") {
        return (pass);
    }
    if (req.http.Cookie) {
        set req.http.Cookie = ";" + req.http.Cookie;
        set req.http.Cookie = regsuball(req.http.Cookie, "; +", ";");
        set req.http.Cookie = regsuball(req.http.Cookie, ";(SESS[a-z0-9]+|SSESS[a-z0-9]+|NO_CACHE)=", "; \1=");
        set req.http.Cookie = regsuball(req.http.Cookie, ";[^ ][^;]*", "");
        set req.http.Cookie = regsuball(req.http.Cookie, "^[; ]+|[; ]+$", "");
        if (req.http.Cookie == "") {
            unset req.http.Cookie;
        } else {
            return (pass);
        }
    }
}

sub vcl_backend_response {
    if (beresp.http.Content-Type ~ "text|application/json") {
        set beresp.do_gzip = true;
    }
    if (bereq.url ~ "\.(css|js|png|svg)(\?.*)?$") {
        unset beresp.http.Set-Cookie;
    }
    set beresp.grace = 6h;
}

sub vcl_deliver {
    unset resp.http.Cache-Tags;
    unset resp.http.X-Generator;
    if (obj.hits > 0) {
        set resp.http.X-Cache = "HIT";
    } else {
        set resp.http.X-Cache = "MISS";
    }
}
