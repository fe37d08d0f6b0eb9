vcl 3.0;
backend default { .host = "192.0.2.1"; }
