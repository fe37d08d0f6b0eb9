vcl 4.1;
sub vcl_recv {
    unset req.http.Cookie
    return (hash);
}
