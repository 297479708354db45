#!/usr/bin/env bash
# Everything that needs a GPU, one step after the other; `./parplan-dev gpu` builds first.
#
#   run_gpu_checks.sh BUILD FOLDER
#
# The output of each step goes to FOLDER/<step>.log as well, the profile of the GPU to
# FOLDER/profile.json. A step that fails does not keep others from running. Ends with 77 and the
# reason where there is no GPU.
set -uo pipefail
if [[ $# -ne 2 ]]; then
  echo "usage: run_gpu_checks.sh BUILD FOLDER" >&2
  exit 2
fi
build=$1
folder=$2
plugin="$build/bin/libparplan_cuda.so"
report="$build/gpu/device_report"
mkdir -p "$folder"

"$report" cuda --plugin "$plugin" --look | tee "$folder/device.log"
status=${PIPESTATUS[0]}
if [[ "$status" -ne 0 ]]; then exit "$status"; fi

summary=()
failed=0
step() {
  local name=$1 started=$SECONDS outcome=passed
  shift
  printf '\n== %s: %s\n' "$name" "$*"
  "$@" 2>&1 | tee "$folder/$name.log"
  if [[ "${PIPESTATUS[0]}" -ne 0 ]]; then
    outcome=FAILED
    failed=1
  fi
  summary+=("$(printf '%-22s %-8s %5d s' "$name" "$outcome" "$((SECONDS - started))")")
}
absent() { summary+=("$(printf '%-22s not run: %s' "$1" "$2")"); }

machine() {
  date -u '+%Y-%m-%d %H:%M UTC'
  uname -srm
  git describe --always --dirty 2>/dev/null
  if command -v nvidia-smi >/dev/null; then nvidia-smi; fi
}
step machine machine
step gpu-tests ctest --test-dir "$build" -L gpu --output-on-failure --no-tests=error

# The smallest cases do: what these tools find does not depend on size. cuDNN's kernels are not ours
# to examine.
sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)
for tool in memcheck racecheck synccheck; do
  if [[ -n "$sanitizer" ]]; then
    step "sanitizer-$tool" "$sanitizer" --tool "$tool" --error-exitcode 1 \
      "$build/tests/device_cuda_gpu_test" --gtest_filter='*Cases*-*Cudnn*'
  else
    absent "sanitizer-$tool" "there is no compute-sanitizer"
  fi
done

step device-report "$report" cuda --plugin "$plugin" --profile "$folder/profile.json"

printf '\n== Summary\n'
printf '%s\n' "${summary[@]}" | tee "$folder/summary.log"
exit "$failed"
