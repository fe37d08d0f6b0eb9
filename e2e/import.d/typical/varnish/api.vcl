# Two hosts: an API that is never stored, and files; a WebSocket, redirects, sorted queries.
vcl 4.1;

import std;

backend files {
    .host = "127.0.0.1";
    .port = "@APP_1@";
}

backend api {
    .host = "127.0.0.1";
    .port = "@APP_2@";
    .first_byte_timeout = 30s;
}

sub vcl_recv {
    if (req.http.host == "old.test") {
        return (synth(301, "http://www.test" + req.url));
    }
    if (req.http.host ~ "^(www\.)?shop\.test$" && req.url == "/start") {
        return (synth(752, "/page/1"));
    }
    if (req.http.User-Agent ~ "(?i)badbot") {
        return (synth(403, "No robots"));
    }
    if (req.method != "GET" && req.method != "HEAD" && req.method != "POST" &&
        req.method != "PUT" && req.method != "DELETE" && req.method != "OPTIONS") {
        return (synth(405, "Method not allowed"));
    }
    if (req.http.host == "api.test") {
        set req.backend_hint = api;
        if (req.http.Upgrade ~ "(?i)websocket") {
            return (pipe);
        }
        return (pass);
    }
    set req.backend_hint = files;
    set req.http.X-Own = "edge";
    set req.url = std.querysort(req.url);
    if (req.url ~ "^/static/") {
        unset req.http.Cookie;
        unset req.http.Authorization;
        return (hash);
    }
}

sub vcl_synth {
    if (resp.status == 301) {
        set resp.http.Location = resp.reason;
        set resp.reason = "Moved Permanently";
        return (deliver);
    }
    if (resp.status == 752) {
        set resp.http.Location = "http://" + req.http.host + resp.reason;
        set resp.status = 302;
        return (deliver);
    }
    set resp.http.Content-Type = "text/plain; charset=utf-8";
    synthetic(resp.reason);
    return (deliver);
}

sub vcl_pipe {
    if (req.http.Upgrade) {
        set bereq.http.Upgrade = req.http.Upgrade;
        set bereq.http.Connection = req.http.Connection;
    }
}

sub vcl_backend_fetch {
    unset bereq.http.X-Debug;
}

sub vcl_backend_response {
    if (bereq.url ~ "^/static/") {
        set beresp.ttl = 1h;
        set beresp.http.Cache-Control = "public, max-age=600";
    }
    if (beresp.http.Content-Type ~ "text/html") {
        set beresp.ttl = 30s;
    }
}

sub vcl_deliver {
    set resp.http.X-Frame-Options = "DENY";
    unset resp.http.X-Powered-By;
}
