#!/usr/bin/env bash
# From a configuration of transformers to trained steps, on two processes of this machine: measures a
# small Llama, asks a server for a signed plan, checks the plan, trains under it and looks at a step.
#
#     ./parplan-dev build && ./parplan-dev wheel
#     python3 -m venv try && . try/bin/activate
#     pip install 'build/wheel/parplan-0.1.0-py3-none-any.whl[transformers]'
#     PATH="$PWD/build/release/bin:$PATH" clients/python/examples/first_steps.sh build/first-steps
#
# With a configuration of your own as second argument it does the same for your model, which must fit
# this machine. Everything is written to the folder. Takes about two minutes for the small one.
set -euo pipefail
examples=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=${1:?the folder to write to}
mkdir -p "$folder"
if [[ $# -gt 1 ]]; then cp "$2" "$folder/config.json"; fi
cd "$folder"
say() { printf '\n== %s\n' "$*"; }

if [[ ! -e config.json ]]; then
  cat >config.json <<'JSON'
{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 512,
 "hidden_size": 128, "intermediate_size": 352, "num_hidden_layers": 4, "num_attention_heads": 8,
 "num_key_value_heads": 4, "max_position_embeddings": 128, "hidden_act": "silu",
 "rms_norm_eps": 1e-05, "tie_word_embeddings": false}
JSON
fi

say "The layers of the model"
planctl import hf config.json --precision fp32 --sequence-length "${TOKENS:-64}" --out model.json

say "Measures them in PyTorch, and collectives of gloo, on two processes"
parplan-agent --once --ranks 2 --even-if-busy --runtime torch --model model.json \
  --torch-model hf:config.json --budget "${BUDGET:-60s}" --micro-batches 1 2 \
  --max-message-bytes 1048576 --out profile.json --topology-out cluster.json

say "A server, and a signed plan for two devices"
parplan-server --listen 127.0.0.1:0 --port-file port --metrics-listen off --data-dir data \
  >server.log 2>&1 &
trap 'kill %1 2>/dev/null || true' EXIT
for _ in $(seq 100); do
  if [[ -s port ]]; then break; fi
  sleep 0.1
done
PARPLAN_SERVER=127.0.0.1:$(cat port)
export PARPLAN_SERVER
planctl profile upload profile.json --cluster local --node first
planctl plan --model model.json --cluster cluster.json --batch 8 --target fsdp2 \
  --allow-estimates --job first-steps --out plan.dsse.json
files=(--trust data/trust-bundle.jwks.json --job first-steps)
planctl verify plan.dsse.json "${files[@]}"

say "Checks the plan: gradients of a small copy, and the collectives of a step"
files+=(--spec model.json --cluster cluster.json --model hf:config.json)
parplan-torch check plan.dsse.json "${files[@]}" --out evidence.dsse.json

say "Trains under the plan"
# transformers reads a configuration by the folder that it is in.
python -m torch.distributed.run --standalone --nproc-per-node 2 "$examples/train_llama.py" \
  --plan plan.dsse.json --trust data/trust-bundle.jwks.json --model model.json \
  --topology cluster.json --config . --job first-steps --steps 10 --checkpoint checkpoint

say "A measured step beside the predicted one; open step.trace.json in ui.perfetto.dev"
planctl trace plan.dsse.json --out predicted.trace.json
parplan-torch trace plan.dsse.json "${files[@]}" --predicted predicted.trace.json \
  --out step.trace.json
