# A VCL in the form of the one in Debian's package: one backend, and subs without statements.
vcl 4.1;

# The backend is the server that this one caches for.
backend default {
    .host = "127.0.0.1";
    .port = "@APP_1@";
}

sub vcl_recv {
    # Before the cache is asked: clean up the request here.
}

sub vcl_backend_response {
    # After the head of the backend's response has been read: set lifetimes here.
}

sub vcl_deliver {
    # Before the response is sent to the client: change its fields here.
}
