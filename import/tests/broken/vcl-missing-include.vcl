vcl 4.1;
include "./missing.vcl";
