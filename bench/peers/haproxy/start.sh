#!/bin/bash
# HAProxy writes each log line to the file at once; it has no buffered file log.
. "$(dirname "$0")/../common.sh"
render haproxy.cfg "LOG=$(pick "$ACCESS_LOG" "log fd@3 format raw local0 info" "no log")" \
  "FORMAT=$(pick "$ACCESS_LOG" "option httplog" "")"
exec haproxy -db -f "$RUN/haproxy.cfg" 3> "$RUN/access.log"
