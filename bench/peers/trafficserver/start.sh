#!/bin/bash
# Traffic Server binds its threads to processors by itself. To run on other processors, they must be
# moved after the start, as run.py does with the threads of every server.
# SANITY=on|off (on): off runs a copy of the program in which the check of the whole head, at each
# change of a field, returns at once. No distribution ships such a program. In Debian's, with many
# rules, the check costs more than the rules.
. "$(dirname "$0")/../common.sh"
mkdir -p "$RUN"/{store,etc,run,log,cache,lib}
cp -r /etc/trafficserver/. "$RUN/etc/"
protocol=
if [ "$PROTOCOL" = h2c ]; then
  echo "Traffic Server 9 speaks HTTP/2 over TLS only" >&2
  exit 1
fi
if [ "$PROTOCOL" = tls ]; then protocol=ssl:; fi
for file in records.config remap.config storage.config logging.yaml runroot.yaml; do
  render "$file" "LOGGING=$(pick "$ACCESS_LOG" 3 0)" \
    "PROTOCOL=$protocol" "PARENTS=$(pick "$ORIGINS" 0 1)"
done
origins remap | insert remap.config @REMAP@
origins parents > "$RUN/etc/parent.config"
mv "$RUN"/{records,remap,storage}.config "$RUN/logging.yaml" "$RUN/etc/"
if [ "$PROTOCOL" = tls ]; then
  echo "dest_ip=* ssl_cert_name=$RUN/both.pem" > "$RUN/etc/ssl_multicert.config"
fi
if [ -n "${KIND:-}" ] && [ "${N:-0}" != 0 ]; then
  rules > "$RUN/etc/bench.rules"
  echo "header_rewrite.so $RUN/etc/bench.rules" > "$RUN/etc/plugin.config"
fi
if [ -n "$COMPRESS" ]; then
  # The cache has the compressed response.
  printf '%s\n' "cache true" "remove-accept-encoding true" "supported-algorithms $COMPRESS" \
    "compressible-content-type text/plain" "minimum-content-length 1024" > "$RUN/etc/bench.compress"
  echo "compress.so $RUN/etc/bench.compress" >> "$RUN/etc/plugin.config"
fi
program=traffic_server
if [ "${SANITY:-on}" = off ]; then
  program=$RUN/traffic_server
  "$HERE/without-check" "$(command -v traffic_server)" "$program"
fi
if [ "$(id -u)" = 0 ]; then
  # Traffic Server changes from root to the user trafficserver, which must have access to its folders.
  chmod 755 "$(dirname "$RUN")" "$RUN"
  chown -R trafficserver "$RUN"
fi
exec "$program" --run-root="$RUN/runroot.yaml"
