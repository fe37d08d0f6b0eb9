vcl 4.1;
include "./vcl-include-itself.vcl";
