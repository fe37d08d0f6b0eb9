#!/bin/bash
# h2o has no cache: it serves the files of FILES, whose bodies have the lengths of the origin's.
. "$(dirname "$0")/../common.sh"
: "${FILES:?is the directory that h2o serves}"
render h2o.conf "USER=$(id -un)" "FILES=$FILES"
{ if [ "$PROTOCOL" = tls ]; then
  printf '  %s\n' "ssl:" "  certificate-file: $RUN/cert.pem" "  key-file: $RUN/key.pem"
fi; } | insert h2o.conf @TLS@
{ if [ "$ACCESS_LOG" = 1 ]; then echo "access-log: $RUN/access.log"; fi; } | insert h2o.conf @LOG@
exec h2o -m worker -c "$RUN/h2o.conf"
