#!/usr/bin/env bash
# Closes the loop on this machine: measures it, plans a small GPT for it, trains under the plan and
# under three others, and compares predicted with measured times. The last lines say how much of the
# processors other programs used meanwhile, and mark times that cannot be believed. Run by demo.sh.
#
#   train_here.sh BIN WORK SERVER TRUST     folder of programs, folder for files, address of a
#                                           server, file with the public keys of its plans
#
# PARPLAN_DEMO_STEPS, PARPLAN_DEMO_MODEL and PARPLAN_DEMO_MEASURE (flags of parplan-agent) make it
# shorter or longer.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
bin=$1 work=$2 server=$3 trust=$4
steps=${PARPLAN_DEMO_STEPS:-50}
node=this-machine-0
read -ra measure <<<"${PARPLAN_DEMO_MEASURE:---micro-batches 1 2 4 8 --max-message-bytes 16777216}"

step() { printf '\n== %s\n' "$*"; }

# Uses GPUs if there are any and the programs were built with the CUDA back end; otherwise cores.
backend=cpu ranks=2 model=${PARPLAN_DEMO_MODEL:-$root/deploy/examples/small-gpt.model.json}
if [[ -f "$bin/libparplan_cuda.so" ]] && compgen -G '/dev/nvidia[0-9]*' >/dev/null; then
  backend=cuda
  ranks=$(compgen -G '/dev/nvidia[0-9]*' | wc -l)
  model=${PARPLAN_DEMO_MODEL:-$root/deploy/examples/small-gpt-bf16.model.json}
elif [[ "$(nproc)" -lt 2 ]]; then
  ranks=1
fi

step "measure this machine ($backend, $ranks ranks)"
"$bin/parplan-agent" --once --backend "$backend" --ranks "$ranks" --model "$model" --even-if-busy \
  "${measure[@]}" --cluster this-machine --node "$node" \
  --out "$work/here.profile.json" --topology-out "$work/here.cluster.json"
"$bin/planctl" profile upload "$work/here.profile.json" --cluster this-machine --node "$node" \
  --server "$server"

question=(--model "$model" --cluster "$work/here.cluster.json" --batch 8 --job here --server "$server")
step "plan a small GPT for it: the best, and three others"
"$bin/planctl" plan "${question[@]}" --out "$work/best.plan.json"
plans=(best)
for planner in sdp tp pp dp; do
  if [[ "${#plans[@]}" -gt 3 ]]; then break; fi
  if "$bin/planctl" --quiet plan "${question[@]}" --planner "$planner" \
    --out "$work/$planner.plan.json" >/dev/null; then
    plans+=("$planner")
  fi
done

for plan in "${plans[@]}"; do
  step "verify, apply and train: $plan"
  "$bin/parplan-exec" --plan "$work/$plan.plan.json" --trust "$trust" --model "$model" \
    --topology "$work/here.cluster.json" --node "$node" --job here --backend "$backend" \
    --ranks "$ranks" --steps "$steps" --text "$root/LICENSE" --log-every 10 \
    --server "$server" --results "$work/$plan.results.json"
done

step "predicted and measured, and how much of the machine others used: the plan and its rivals"
(cd "$work" && "$bin/planctl" runs "${plans[@]/%/.results.json}")
