#!/usr/bin/env bash
# Measures a release server to which the 1,000 ranks of a job report, and prints one JSON object
# a run:
#
#   run_report_load.sh [RUNS] [FLAGS OF report_load]
#
# Builds the programs it needs first.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
runs=${1:-3}
if [[ $# -gt 0 ]]; then shift; fi
[[ -f build/bench/build.ninja ]] || cmake --preset bench >/dev/null
cmake --build --preset bench --target parplan-server report_load >&2
printf '%s, %s processors\n' \
  "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)" "$(nproc)" >&2
for ((run = 0; run < runs; ++run)); do
  build/bench/benchmarks/report_load "$@"
done
