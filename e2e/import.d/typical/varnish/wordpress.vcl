# WordPress: visitors get stored pages, users who are logged in and editors do not.
vcl 4.0;

import std;

backend default {
    .host = "127.0.0.1";
    .port = "@APP_1@";
    .connect_timeout = 5s;
    .first_byte_timeout = 300s;
    .between_bytes_timeout = 30s;
}

acl purge {
    "localhost";
    "127.0.0.1";
    "::1";
}

sub vcl_recv {
    set req.http.Host = regsub(req.http.Host, ":[0-9]+", "");
    unset req.http.proxy;
    set req.url = std.querysort(req.url);

    if (req.method == "PURGE") {
        if (!client.ip ~ purge) {
            return (synth(405, "This IP is not allowed to send PURGE requests."));
        }
        return (purge);
    }

    if (req.method != "GET" && req.method != "HEAD") {
        return (pass);
    }
    if (req.http.Authorization) {
        return (pass);
    }
    if (req.http.Upgrade ~ "(?i)websocket") {
        return (pipe);
    }
    if (req.url ~ "(?i)^/xmlrpc\.php") {
        return (synth(403, "Forbidden"));
    }
    if (req.url ~ "^/wp-(login|admin)" || req.url ~ "^/(cart|my-account|checkout)") {
        return (pass);
    }
    if (req.url ~ "[?&](preview|add-to-cart)=") {
        return (pass);
    }
    if (req.http.Cookie ~ "(^|;\s*)(wordpress_logged_in_[^=]*|wp-postpass_[^=]*|comment_author_[^=]*|woocommerce_items_in_cart)=") {
        return (pass);
    }
    if (req.url ~ "(?i)\.(css|gif|ico|jpe?g|js|png|svg|webp|woff2?)(\?.*)?$") {
        unset req.http.Cookie;
        return (hash);
    }
    unset req.http.Cookie;
    return (hash);
}

sub vcl_backend_response {
    if (bereq.url ~ "(?i)\.(css|gif|ico|jpe?g|js|png|svg|webp|woff2?)(\?.*)?$") {
        unset beresp.http.Set-Cookie;
        set beresp.ttl = 1d;
    }
    if (beresp.status == 404) {
        set beresp.ttl = 30s;
    }
    set beresp.grace = 6h;
}

sub vcl_deliver {
    unset resp.http.X-Powered-By;
    unset resp.http.Server;
}
