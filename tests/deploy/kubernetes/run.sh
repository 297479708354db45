#!/usr/bin/env bash
# Everything about Kubernetes that can run without a cluster, with the programs in a folder:
#
#   tests/deploy/kubernetes/run.sh BIN
set -euo pipefail
bin=$(cd "$1" && pwd)
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."

run() {
  local status=0
  echo "== $1"
  /usr/bin/python3 -B "$@" --source . --bin "$bin" || status=$?
  # 77: skipped, and the test has said why.
  [[ "$status" -eq 0 || "$status" -eq 77 ]] || exit "$status"
}

run tests/deploy/kubernetes/manifests_test.py
run tests/deploy/kubernetes/example_job_test.py
run tests/deploy/kubernetes/schedulers_test.py
run tests/deploy/kubernetes/jobs_test.py
run tests/clients/kubernetes/sidecar_test.py
run tests/deploy/kubernetes/images_test.py --all
