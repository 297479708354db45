#!/usr/bin/env bash
# Everything about watching, with the programs of a build, and the figures at the end:
#
#   run_observe_tests.sh BUILD_FOLDER
set -euo pipefail
build=$(realpath "$1")
cd "$(dirname "${BASH_SOURCE[0]}")"
source=$(realpath ../../..)
log=$(mktemp)
trap 'rm -f "$log"' EXIT

run() {
  echo "== $1"
  /usr/bin/python3 -B "$@" --source "$source" 2>&1 | tee -a "$log"
}
run rules_test.py
run dashboards_test.py
run observe_test.py --server-binary "$build/bin/parplan-server" --agent "$build/bin/parplan-agent" \
  --sidecar "$build/bin/parplan-sidecar"

echo "== figures"
grep -E '^(rules|dashboards|server:|agent:|sidecar:) ' "$log" | sort -u
