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
listen=127.0.0.1:$PORT
if [ "$PROTOCOL" != h1 ]; then
  # A stream counts as a connection, and 64 connections have up to 6,400 streams.
  options+=(--connections-per-address-max 20000 --connections-per-worker-max 20000)
  options+=(--requests-per-connection-max 4294967295)
fi
if [ "$PROTOCOL" = h2c ]; then options+=(--http2 true); fi
if [ "$PROTOCOL" = tls ]; then
  options+=(--listen-tls "$listen" --tls-cert "$RUN/cert.pem" --tls-key "$RUN/key.pem")
  options+=(--tls-handshakes-max 8192)
  listen=127.0.0.1:0
fi
exec "${FOREBAY:-$HERE/../../../target/release/forebay}" serve \
  --listen "$listen" --workers "$THREADS" \
  --cache-size "${CACHE_MIB}MiB" --runtime-dir "$RUN/run" --admin "$RUN/admin.sock" \
  --access-log "$(pick "$ACCESS_LOG" "$RUN/access.log" off)" --access-log-format combined \
  "${options[@]}"
