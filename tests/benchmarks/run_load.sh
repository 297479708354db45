#!/usr/bin/env bash
# Measures a release server under load and prints one JSON object a run:
#
#   run_load.sh [RUNS] [FLAGS OF rpc_load]
#
# Builds the programs it needs first. Figures belong into docs/measurements/, with the
# machine and the spread.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
runs=${1:-3}
if [[ $# -gt 0 ]]; then shift; fi
[[ -f build/bench/build.ninja ]] || cmake --preset bench >/dev/null
cmake --build --preset bench --target parplan-server rpc_load >&2
printf '%s, %s processors\n' \
  "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)" "$(nproc)" >&2
for ((run = 0; run < runs; ++run)); do
  build/bench/benchmarks/rpc_load "$@"
done
