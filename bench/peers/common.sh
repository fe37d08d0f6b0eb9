# Every start.sh sources this file. A start script runs one server in the foreground, as the root of
# one process tree, until SIGTERM. Its settings come from the environment:
#
#   PORT        listen on 127.0.0.1:PORT                          (required)
#   ORIGIN      the origin's port on 127.0.0.1                    (18000)
#   ORIGINS     number of origins: 127.0.0.1, 127.0.0.2, ..., all on port ORIGIN; see
#               lib/origins.py                                    (1)
#   FILES       directory whose files answer in place of the origin (none)
#   COMPRESS    gzip: compress responses of text/plain            (none)
#   THREADS     worker threads or processes                       (1)
#   CACHE_MIB   size of the cache                                 (256)
#   ACCESS_LOG  1: write a line for each request to $RUN/access.log (0)
#   PROTOCOL    what clients speak at PORT: h1 (HTTP/1.1), h2c (HTTP/2 without TLS, by prior
#               knowledge), or tls (TLS with a new certificate; HTTP/2 and HTTP/1.1 by ALPN)
#                                                                 (h1)
#   TLS_KEY     the key of that certificate: ecdsa (P-256), or rsa (2,048 bits)
#                                                                 (ecdsa)
#   KIND, N     N header rules of this kind, see lib/rulesets.py  (none)
#   RUN         folder for configuration, cache and logs; it is emptied first
#               (/dev/shm/forebay-bench/NAME-PORT)
set -eu
HERE=$(cd "$(dirname "$0")" && pwd)
: "${PORT:?is the port to listen on}" "${ORIGIN:=18000}" "${THREADS:=1}"
: "${CACHE_MIB:=256}" "${ACCESS_LOG:=0}" "${ORIGINS:=1}" "${FILES:=}" "${COMPRESS:=}"
: "${PROTOCOL:=h1}" "${TLS_KEY:=ecdsa}"
: "${RUN:=/dev/shm/forebay-bench/$(basename "$HERE")-$PORT}"
rm -rf "$RUN"
mkdir -p "$RUN"
ulimit -n "$(ulimit -Hn)"
case $TLS_KEY in
  ecdsa) new_key=(-newkey ec -pkeyopt ec_paramgen_curve:P-256) ;;
  rsa) new_key=(-newkey rsa:2048) ;;
  *) echo "TLS_KEY is ecdsa or rsa" >&2; exit 1 ;;
esac
case $PROTOCOL in
  h1 | h2c) ;;
  tls)
    openssl req -x509 "${new_key[@]}" -nodes -days 2 \
      -subj /CN=localhost -addext subjectAltName=DNS:localhost,IP:127.0.0.1 \
      -keyout "$RUN/key.pem" -out "$RUN/cert.pem" 2> /dev/null
    cat "$RUN/cert.pem" "$RUN/key.pem" > "$RUN/both.pem"
    ;;
  *) echo "PROTOCOL is h1, h2c or tls" >&2; exit 1 ;;
esac

# render FILE NAME=VALUE...: writes $RUN/FILE, which is $HERE/FILE.in with every @NAME@ replaced
render() {
  local file=$1 expression pair
  shift
  expression="s|@PORT@|$PORT|g;s|@ORIGIN@|$ORIGIN|g;s|@THREADS@|$THREADS|g"
  expression+=";s|@RUN@|$RUN|g;s|@CACHE_MIB@|$CACHE_MIB|g"
  for pair in "$@"; do expression+=";s|@${pair%%=*}@|${pair#*=}|g"; done
  sed -e "$expression" "$HERE/$file.in" > "$RUN/$file"
}

# rules [PART]: prints N header rules of KIND in this server's language
rules() {
  if [ -n "${KIND:-}" ]; then
    (cd "$HERE/../.." && python3 -m lib.rulesets "$(basename "$HERE")" "$KIND" "${N:-0}" "$@")
  fi
}

# origins PART: prints a part of the configuration of ORIGINS origins in this server's language
origins() {
  (cd "$HERE/../.." &&
    python3 -m lib.origins "$(basename "$HERE")" "$ORIGIN" "$ORIGINS" "$@")
}

# insert FILE MARK: replaces the line MARK in $RUN/FILE by the standard input
insert() {
  cat > "$RUN/inserted"
  sed -i -e "/^$2\$/{r $RUN/inserted" -e 'd}' "$RUN/$1"
}

# pick CONDITION YES NO: prints YES if CONDITION is 1, otherwise NO
pick() { if [ "$1" = 1 ]; then echo "$2"; else echo "$3"; fi; }
