#!/bin/bash
# HAProxy writes each log line to the file immediately; it has no buffered file log.
# With rules, the limit of fields is raised: otherwise HAProxy would refuse the fields of 100 rules.
. "$(dirname "$0")/../common.sh"
render haproxy.cfg "LOG=$(pick "$ACCESS_LOG" "log fd@3 format raw local0 info" "no log")" \
  "HEADERS=${KIND:+tune.http.maxhdr 600}" \
  "FORMAT=$(pick "$ACCESS_LOG" "option httplog" "")"
rules > "$RUN/rules.cfg"
sed -i -e "/^@RULES@$/{r $RUN/rules.cfg" -e 'd}' "$RUN/haproxy.cfg"
exec haproxy -db -f "$RUN/haproxy.cfg" 3> "$RUN/access.log"
