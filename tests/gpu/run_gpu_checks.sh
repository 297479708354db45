#!/usr/bin/env bash
# Every check that needs a GPU, one step after the other; `./parplan-dev gpu` packs and calls it.
#
#   run.sh [FOLDER] [SECONDS]
#
# It lies in the folder of a bundle (make_bundle.sh) and installs nothing. The output of each step
# goes to FOLDER/<step>.log, and FOLDER/results.json has all outcomes, and as `figures` the JSON that
# a step printed last. A step that fails does not keep others from running; the last ones are left
# out, and said to be, when SECONDS are over: by default 540, and 2,400 where two GPUs or more are
# visible. A step whose tests were all skipped was not run; with others, `skipped` counts those that
# were.
# With several GPUs, PARPLAN_GPU_STEPS (10,000) is the number of steps of each plan in
# `many-steps-*`, and PARPLAN_GPU_STEP_SECONDS (600) the most seconds that each of these takes.
# Ends with 1 if a step failed, and with 77 and the reason where there is no GPU.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=${1:-gpu-checks}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)

# Prints folders with the libraries of CUDA: a toolkit, and what came with PyTorch.
cuda_folders() {
  local packages
  for packages in $(python3 -c 'import site; print(*site.getsitepackages())' 2>/dev/null); do
    find "$packages/nvidia" -name 'lib*.so*' -path '*/lib/*' 2>/dev/null | xargs -r -n 1 dirname
  done | sort -u
  ls -d "${CUDA_HOME:-/usr/local/cuda}"/{lib64,lib} /usr/lib/x86_64-linux-gnu 2>/dev/null
}
libraries="$here/lib:$(cuda_folders | tr '\n' ':')${LD_LIBRARY_PATH:-}"

# What starts a program of the bundle: with the bundle's C library where the system's is older.
system_libc=$(ldd --version 2>/dev/null | awk 'NR == 1 {print $NF}')
if [[ "$(printf '%s\n2.36\n' "${system_libc:-0}" | sort -V | head -n 1)" == 2.36 ]]; then
  loader=()
  bundled=(env "LD_LIBRARY_PATH=$libraries")
else
  loader=("$here/glibc/ld-linux-x86-64.so.2" --library-path "$here/glibc:$libraries")
  bundled=("${loader[@]}")
fi

export PARPLAN_CUDA_PLUGIN="$here/bin/libparplan_cuda.so"
export TEST_TMPDIR="$folder/temporary"
mkdir -p "$TEST_TMPDIR"

# The plugin opens NCCL when it needs it; `all_reduce_speed` is linked with it.
missing=$(LD_LIBRARY_PATH="$libraries" ldd "$PARPLAN_CUDA_PLUGIN" "$here/bin/all_reduce_speed" \
  2>/dev/null | awk '/not found/ {print $1}' | sort -u)
if [[ -n "$missing" ]]; then
  echo "not found: $(echo $missing)"
  echo "These come with the CUDA toolkit 13, or with PyTorch built for it. Name their folders in" \
    "LD_LIBRARY_PATH, or the toolkit's in CUDA_HOME."
  exit 77
fi
"${bundled[@]}" "$here/bin/device_report" cuda --plugin "$PARPLAN_CUDA_PLUGIN" --look |
  tee "$folder/device.log"
status=${PIPESTATUS[0]}
if [[ "$status" -ne 0 ]]; then exit "$status"; fi
# Those that CUDA_VISIBLE_DEVICES leaves.
gpu_count=$(awk '/^devices: / {print $2}' "$folder/device.log")
gpu_count=${gpu_count:-1}
seconds=${2:-$((gpu_count >= 2 ? 2400 : 540))}

results=()
failed=0
step() {
  local name=$1 most=$2 started=$SECONDS outcome=passed log="$folder/$1.log" status skipped figures more
  shift 2
  if [[ $((seconds - SECONDS)) -lt 10 ]]; then
    results+=("{\"step\": \"$name\", \"outcome\": \"not run\", \"reason\": \"no time was left\"}")
    return
  fi
  if [[ "$most" -gt $((seconds - SECONDS)) ]]; then most=$((seconds - SECONDS)); fi
  printf '\n== %s\n' "$name"
  timeout -k 5 "$most" "$@" >"$log" 2>&1
  status=$?
  if [[ "$status" -eq 124 ]]; then echo "stopped after $most s" >>"$log"; fi
  tail -n 25 "$log"
  skipped=$(grep -c '^\[  SKIPPED \] .* ms)$' "$log")
  if [[ "$status" -ne 0 ]]; then
    outcome=FAILED
    failed=1
  elif [[ "$skipped" -gt 0 ]] && ! grep -q '^\[       OK \]' "$log"; then
    # GoogleTest ends with 0 then.
    absent "$name" "$(grep -m 1 -A 1 ': Skipped$' "$log" | tail -n 1 | tr -d '"\\')"
    return
  fi
  more=
  if [[ "$skipped" -gt 0 ]]; then more=", \"skipped\": $skipped"; fi
  figures=$(grep '^{.*}$' "$log" | tail -n 1)
  if [[ -n "$figures" ]]; then more="$more, \"figures\": $figures"; fi
  results+=("{\"step\": \"$name\", \"outcome\": \"$outcome\", \"seconds\": $((SECONDS - started))$more}")
}
absent() { results+=("{\"step\": \"$1\", \"outcome\": \"not run\", \"reason\": \"$2\"}"); }

{
  date -u '+%Y-%m-%d %H:%M UTC'
  uname -srm
  echo "parplan $(cat "$here/revision")"
  if command -v nvidia-smi >/dev/null; then nvidia-smi; fi
} | tee "$folder/machine.log"
step kernels 60 "${bundled[@]}" "$here/tests/device_cuda_gpu_test"
step plans 90 "${bundled[@]}" "$here/tests/executor_gpu_test" \
  --gtest_filter=-GpuTraining.ManyStepsOfSeveralGpusDoNotHang

# Plans over NCCL, with as many hardware queues as can be, by default and as few as can be.
for queues in 32 8 1; do
  if [[ "$gpu_count" -ge 2 ]]; then
    step "many-steps-$queues-queues" "${PARPLAN_GPU_STEP_SECONDS:-600}" \
      env "CUDA_DEVICE_MAX_CONNECTIONS=$queues" "PARPLAN_GPU_STEPS=${PARPLAN_GPU_STEPS:-10000}" \
      NCCL_BUFFSIZE=262144 NCCL_MAX_P2P_NCHANNELS=2 \
      "${bundled[@]}" "$here/tests/executor_gpu_test" \
      --gtest_filter=GpuTraining.ManyStepsOfSeveralGpusDoNotHang
  else
    absent "many-steps-$queues-queues" "one GPU is visible"
  fi
done

# 8 KiB, by nccl-tests' method and by the probe that plans are predicted from.
if [[ "$gpu_count" -ge 2 ]]; then
  step all-reduce 90 "${bundled[@]}" "$here/bin/all_reduce_speed" --plugin "$PARPLAN_CUDA_PLUGIN"
else
  absent all-reduce "one GPU is visible"
fi

# The smallest cases do: what these tools find does not depend on size. cuDNN's kernels are not ours
# to examine.
sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)
# The tool is the system's, so it gets none of the bundle's libraries where the system is older; what
# it examines is started by the bundle's loader then.
sanitized=("$sanitizer")
if [[ ${#loader[@]} -eq 0 ]]; then sanitized=("${bundled[@]}" "$sanitizer"); fi
for tool in memcheck racecheck synccheck; do
  if [[ -n "$sanitizer" ]]; then
    step "sanitizer-$tool" 90 "${sanitized[@]}" --tool "$tool" --error-exitcode 1 "${loader[@]}" \
      "$here/tests/device_cuda_gpu_test" --gtest_filter='*Cases*-*Cudnn*'
  else
    absent "sanitizer-$tool" "there is no compute-sanitizer"
  fi
done

step device-report 200 "${bundled[@]}" "$here/bin/device_report" cuda --plugin "$PARPLAN_CUDA_PLUGIN" \
  --layers 8 --profile "$folder/profile.json" --steps "$folder/steps.jsonl"

if python3 -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null; then
  step torch-layers 150 python3 "$here/tests/gpu/torch_checks.py" "$folder/torch" \
    --prepared "$here/prepared" --parts layers-eager,layers-compiled --budget 140
  if [[ -s "$folder/steps.jsonl" && -s "$folder/torch/layers.json" ]]; then
    step layers-beside-torch 20 python3 "$here/tests/gpu/compare_layers.py" "$folder/steps.jsonl" \
      "$folder/torch/layers.json"
  else
    absent layers-beside-torch "device-report or torch-layers measured no layer"
  fi
else
  absent torch-layers "python3 has no torch that sees a GPU"
fi

{
  printf '{"revision": "%s", "steps": [\n' "$(cat "$here/revision")"
  printf '%s' "${results[0]}"
  printf ',\n%s' "${results[@]:1}"
  printf '\n]}\n'
} >"$folder/results.json"
printf '\n== Results\n'
cat "$folder/results.json"
exit "$failed"
