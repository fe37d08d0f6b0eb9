vcl 4.1;
director pool round-robin { }
