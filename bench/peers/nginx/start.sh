#!/bin/bash
# SENDFILE=on|off (off): off is nginx's best for short bodies, on for 64 KiB.
# POSTPONE=SIZE (1460): a head above it is written apart from the body.
. "$(dirname "$0")/../common.sh"
reuseport=
if [ "$THREADS" -gt 1 ]; then reuseport=reuseport; fi
render nginx.conf "SENDFILE=${SENDFILE:-off}" "POSTPONE=${POSTPONE:-1460}" "REUSEPORT=$reuseport" \
  "LOG=$(pick "$ACCESS_LOG" "$RUN/access.log combined buffer=64k flush=1s" off)"
rules maps > "$RUN/maps.conf"
rules rules > "$RUN/rules.conf"
exec nginx -e "$RUN/error.log" -c "$RUN/nginx.conf"
