# Conditions that cannot be carried over close what they protect.
vcl 4.1;

import std;
import geoip2;

backend default { .host = "192.0.2.10"; }
backend secure { .host = "192.0.2.11"; .via = default; }

acl office { "198.51.100.0"/24; ! "198.51.100.7"; }
acl named { "office.example.org"; }
acl admins { "203.0.113.5"; "2001:db8::"/32; }

sub check {
    if (std.ip(req.http.X-Forwarded-For, "0.0.0.0") !~ admins) {
        return (synth(403, "No"));
    }
}

sub vcl_recv {
    # A list that exempts an address.
    if (req.url ~ "^/office/" && client.ip !~ office) {
        return (synth(403, "Office only"));
    }
    if (req.url ~ "^/named/" && client.ip !~ named) {
        return (synth(403, "No"));
    }
    # The address is a text of a proxy.
    if (req.url ~ "^/proxied/") {
        call check;
    }
    # Look-around.
    if (req.url ~ "^/tricky/" && req.http.X-Token !~ "^(?!bad)[a-z]+$") {
        return (synth(403, "Token"));
    }
    # A password in the VCL.
    if (req.url ~ "^/members/" && req.http.Authorization != "Basic YTpi") {
        return (synth(401, "Password"));
    }
    # These have counterparts.
    if (req.url ~ "^/admin/" && !client.ip ~ admins) {
        return (synth(403, "Admins only"));
    }
    if (req.http.User-Agent ~ "(?i)scanner \d") {
        return (synth(403, "No scanners"));
    }
    # Another URL for the origin.
    if (req.url ~ "^/v1/") {
        set req.url = regsub(req.url, "^/v1/", "/");
    }
    # A condition on time.
    if (req.url ~ "^/night/" && now > std.time("2030-01-01", now)) {
        return (pass);
    }
    if (req.http.X-Forwarded-Proto !~ "(?i)https") {
        return (synth(750, "https://" + req.http.host + req.url));
    }
}

sub vcl_synth {
    if (resp.status == 750) {
        set resp.status = 301;
        set resp.http.Location = resp.reason;
        return (deliver);
    }
}

sub vcl_hash {
    hash_data(regsub(req.http.Cookie, ".*lang=([a-z]+).*", "\1"));
}
