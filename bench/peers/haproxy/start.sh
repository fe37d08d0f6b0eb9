#!/bin/bash
# HAProxy writes each log line to the file immediately; it has no buffered file log.
# With rules, the limit of fields is raised: otherwise HAProxy would refuse the fields of 100 rules.
. "$(dirname "$0")/../common.sh"
protocol=
if [ "$PROTOCOL" = h2c ]; then protocol="proto h2"; fi
if [ "$PROTOCOL" = tls ]; then protocol="ssl crt $RUN/both.pem alpn h2,http/1.1"; fi
render haproxy.cfg "LOG=$(pick "$ACCESS_LOG" "log fd@3 format raw local0 info" "no log")" \
  "PROTOCOL=$protocol" "HEADERS=${KIND:+tune.http.maxhdr 600}" \
  "FORMAT=$(pick "$ACCESS_LOG" "option httplog" "")"
rules | insert haproxy.cfg @RULES@
origins choice | insert haproxy.cfg @CHOICE@
origins backends | insert haproxy.cfg @BACKENDS@
if [ -n "$COMPRESS" ]; then
  # In a backend, the cache has the plain response, and each hit is compressed. In the frontend,
  # compression would come before the cache, and nothing would be stored.
  printf '  %s\n' "compression algo $COMPRESS" "compression type text/plain" > "$RUN/compression.cfg"
  sed -i "/^backend /r $RUN/compression.cfg" "$RUN/haproxy.cfg"
fi
exec haproxy -db -f "$RUN/haproxy.cfg" 3> "$RUN/access.log"
