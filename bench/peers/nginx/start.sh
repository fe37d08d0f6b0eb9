#!/bin/bash
# SENDFILE=on|off (off): off is fastest for short bodies, and on for bodies of 64 KiB.
# POSTPONE=SIZE (1460): nginx writes a head above this size separately from the body.
. "$(dirname "$0")/../common.sh"
reuseport=
if [ "$THREADS" -gt 1 ]; then reuseport=reuseport; fi
render nginx.conf "SENDFILE=${SENDFILE:-off}" "POSTPONE=${POSTPONE:-1460}" "REUSEPORT=$reuseport" \
  "LOG=$(pick "$ACCESS_LOG" "$RUN/access.log combined buffer=64k flush=1s" off)"
rules maps > "$RUN/maps.conf"
rules rules > "$RUN/rules.conf"
exec nginx -e "$RUN/error.log" -c "$RUN/nginx.conf"
