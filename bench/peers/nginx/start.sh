#!/bin/bash
# SENDFILE=on|off (off): off is fastest for short bodies, and on for bodies of 64 KiB.
# POSTPONE=SIZE (1460): nginx writes a head above this size separately from the body.
. "$(dirname "$0")/../common.sh"
reuseport=
if [ "$THREADS" -gt 1 ]; then reuseport=reuseport; fi
source="proxy_pass http://origin"
if [ -n "$FILES" ]; then source="root $FILES"; fi
protocol=
: > "$RUN/tls.conf"
if [ "$PROTOCOL" = h2c ]; then protocol=http2; fi
if [ "$PROTOCOL" = tls ]; then
  protocol="ssl http2"
  printf '%s\n' "ssl_certificate $RUN/cert.pem;" "ssl_certificate_key $RUN/key.pem;" \
    "ssl_protocols TLSv1.2 TLSv1.3;" > "$RUN/tls.conf"
fi
render nginx.conf "PROTOCOL=$protocol" \
  "SENDFILE=${SENDFILE:-off}" "POSTPONE=${POSTPONE:-1460}" "REUSEPORT=$reuseport" \
  "SOURCE=$source" \
  "LOG=$(pick "$ACCESS_LOG" "$RUN/access.log combined buffer=64k flush=1s" off)"
origins upstreams > "$RUN/upstreams.conf"
origins locations > "$RUN/locations.conf"
if [ -n "$COMPRESS" ]; then
  # The cache has the plain response; each hit is compressed, with the default level, 1.
  printf '%s\n' "gzip on;" "gzip_types text/plain;" "gzip_proxied any;" > "$RUN/compression.conf"
else
  : > "$RUN/compression.conf"
fi
rules maps > "$RUN/maps.conf"
rules rules > "$RUN/rules.conf"
exec nginx -e "$RUN/error.log" -c "$RUN/nginx.conf"
