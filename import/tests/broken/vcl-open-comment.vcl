vcl 4.1;
/* a comment
