#!/bin/bash
# Without an access log, Varnish's shared-memory log is switched off, too. With an access log it has
# its default, and varnishncsa, which writes it as lines, is part of the process tree.
# With rules, the limit of fields is raised: otherwise Varnish would answer 500 with 100 rules.
. "$(dirname "$0")/../common.sh"
render default.vcl
rules | insert default.vcl @RULES@
for part in backends directors choice; do
  origins "$part" | insert default.vcl "@${part^^}@"
done
# The cache has the compressed response.
compression=
if [ -n "$COMPRESS" ]; then compression="set beresp.do_gzip = true;"; fi
echo "  $compression" | insert default.vcl @COMPRESSION@
pools=2
if [ "$THREADS" = 1 ]; then pools=1; fi
server=(varnishd -F -j none -n "$RUN/work" -a "127.0.0.1:$PORT,HTTP" -f "$RUN/default.vcl"
  -s "malloc,${CACHE_MIB}m" -p "thread_pools=$pools" -p thread_pool_min=200
  -p thread_pool_max=2000 -p timeout_idle=600 -p listen_depth=4096)
if [ "$PROTOCOL" = h2c ]; then server+=(-p feature=+http2); fi
if [ -n "${KIND:-}" ]; then server+=(-p http_max_hdr=600); fi
if [ "$ACCESS_LOG" != 1 ]; then
  # No value of vsl_mask means "nothing", so each tag of vsl(7) is switched off by name.
  exec "${server[@]}" -p "vsl_mask=$(sed 's/^/-/' "$HERE/log_tags" | paste -sd,)"
fi
"${server[@]}" &
varnishncsa -n "$RUN/work" -w "$RUN/access.log" -t 20 &
trap 'kill $(jobs -p) 2>/dev/null || true; wait' TERM INT
wait
