#!/bin/bash
# FOREBAY: path of forebay (target/release/forebay of the root)
. "$(dirname "$0")/../common.sh"
with_rules=()
if [ -n "${KIND:-}" ] && [ "${N:-0}" != 0 ]; then
  rules > "$RUN/bench.rules"
  with_rules=(--rules "$RUN/bench.rules")
fi
exec "${FOREBAY:-$HERE/../../../target/release/forebay}" serve \
  --origin "http://127.0.0.1:$ORIGIN" --listen "127.0.0.1:$PORT" --workers "$THREADS" \
  --cache-size "${CACHE_MIB}MiB" --runtime-dir "$RUN/run" --admin "$RUN/admin.sock" \
  --access-log "$(pick "$ACCESS_LOG" "$RUN/access.log" off)" --access-log-format combined \
  "${with_rules[@]}"
