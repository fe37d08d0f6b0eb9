#!/bin/bash
# FOREBAY_BENCH: path of forebay-bench (bench/target/release/forebay-bench)
. "$(dirname "$0")/../common.sh"
exec "${FOREBAY_BENCH:-$HERE/../../target/release/forebay-bench}" tokio --port "$PORT" --threads "$THREADS"
