#!/bin/bash
# FOREBAY: path of forebay (target/release/forebay of the root)
. "$(dirname "$0")/../common.sh"
if [ -n "$FILES" ]; then
  options=(--files "$FILES")
elif [ "$ORIGINS" != 1 ]; then
  origins > "$RUN/forebay.toml"
  options=(--config "$RUN/forebay.toml")
else
  options=(--origin "http://127.0.0.1:$ORIGIN")
fi
if [ -n "$COMPRESS" ]; then options+=(--compress "$COMPRESS"); fi
if [ -n "${KIND:-}" ] && [ "${N:-0}" != 0 ]; then
  rules > "$RUN/bench.rules"
  options+=(--rules "$RUN/bench.rules")
fi
exec "${FOREBAY:-$HERE/../../../target/release/forebay}" serve \
  --listen "127.0.0.1:$PORT" --workers "$THREADS" \
  --cache-size "${CACHE_MIB}MiB" --runtime-dir "$RUN/run" --admin "$RUN/admin.sock" \
  --access-log "$(pick "$ACCESS_LOG" "$RUN/access.log" off)" --access-log-format combined \
  "${options[@]}"
