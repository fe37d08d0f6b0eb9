vcl 4.1;
acl office {
    192.0.2.1;
}
