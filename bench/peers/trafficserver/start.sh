#!/bin/bash
# Traffic Server binds its threads to processors by itself: whoever wants them elsewhere must move
# them after the start, as run.py does with the threads of every server.
. "$(dirname "$0")/../common.sh"
mkdir -p "$RUN"/{store,etc,run,log,cache,lib}
cp -r /etc/trafficserver/. "$RUN/etc/"
for file in records.config remap.config storage.config logging.yaml runroot.yaml; do
  render "$file" "LOGGING=$(pick "$ACCESS_LOG" 3 0)"
done
mv "$RUN"/{records,remap,storage}.config "$RUN/logging.yaml" "$RUN/etc/"
if [ "$(id -u)" = 0 ]; then
  # It gives root up for this user, who must reach its folders.
  chmod 755 "$(dirname "$RUN")" "$RUN"
  chown -R trafficserver "$RUN"
fi
exec traffic_server --run-root="$RUN/runroot.yaml"
