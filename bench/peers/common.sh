# Sourced by every start.sh. A start script runs one server in the foreground, as the root of one
# process tree, until SIGTERM. Its settings come from the environment:
#
#   PORT        listen on 127.0.0.1:PORT                          (required)
#   ORIGIN      the origin's port on 127.0.0.1                    (18000)
#   THREADS     worker threads or processes                       (1)
#   CACHE_MIB   size of the cache                                 (256)
#   ACCESS_LOG  1: one line for each request into $RUN/access.log (0)
#   KIND, N     header rules: N of this kind, see lib/rulesets.py (none)
#   RUN         folder for configuration, cache and logs, emptied (/dev/shm/forebay-bench/NAME-PORT)
set -eu
HERE=$(cd "$(dirname "$0")" && pwd)
: "${PORT:?is the port to listen on}" "${ORIGIN:=18000}" "${THREADS:=1}"
: "${CACHE_MIB:=256}" "${ACCESS_LOG:=0}"
: "${RUN:=/dev/shm/forebay-bench/$(basename "$HERE")-$PORT}"
rm -rf "$RUN"
mkdir -p "$RUN"
ulimit -n "$(ulimit -Hn)"

# render FILE NAME=VALUE...: $HERE/FILE.in with every @NAME@ replaced, as $RUN/FILE
render() {
  local file=$1 expression pair
  shift
  expression="s|@PORT@|$PORT|g;s|@ORIGIN@|$ORIGIN|g;s|@THREADS@|$THREADS|g"
  expression+=";s|@RUN@|$RUN|g;s|@CACHE_MIB@|$CACHE_MIB|g"
  for pair in "$@"; do expression+=";s|@${pair%%=*}@|${pair#*=}|g"; done
  sed -e "$expression" "$HERE/$file.in" > "$RUN/$file"
}

# rules [PART]: N header rules of KIND in this server's language
rules() {
  if [ -n "${KIND:-}" ]; then
    (cd "$HERE/../.." && python3 -m lib.rulesets "$(basename "$HERE")" "$KIND" "${N:-0}" "$@")
  fi
}

# pick CONDITION YES NO: YES if CONDITION is 1
pick() { if [ "$1" = 1 ]; then echo "$2"; else echo "$3"; fi; }
