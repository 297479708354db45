#!/usr/bin/env bash
# Shows the main use from start to end: starts a server on an embedded store, uploads a measured
# profile, and obtains, verifies and explains a signed plan. Run by `./parplan-dev demo`.
#
#   demo.sh [--keep]     --keep leaves the server running
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
bin=${PARPLAN_BIN:-$root/build/release/bin}
examples="$root/deploy/examples"
work="$root/build/demo"
keep=no
for argument in "$@"; do
  case "$argument" in
    --keep) keep=yes ;;
    *) echo "demo: unknown argument $argument (there is --keep)" >&2; exit 2 ;;
  esac
done

step() { printf '\n== %s\n' "$*"; }

# A server from an earlier --keep holds the lock of the same folder.
if [[ -f "$work/server.pid" ]] && kill -0 "$(cat "$work/server.pid")" 2>/dev/null; then
  echo "demo: a server of an earlier demo still runs; stop it with: kill $(cat "$work/server.pid")" >&2
  exit 1
fi
rm -rf "$work"
mkdir -p "$work"

step "start parplan-server on an embedded SQLite store"
"$bin/parplan-server" --data-dir "$work/data" --listen 127.0.0.1:0 --metrics-listen 127.0.0.1:0 \
  --port-file "$work/port" >"$work/server.log" 2>&1 &
server=$!
echo "$server" >"$work/server.pid"
stop() { [[ "$keep" == yes ]] || { kill "$server" 2>/dev/null && wait "$server" 2>/dev/null; } || true; }
trap stop EXIT
for _ in $(seq 1 200); do
  [[ -s "$work/port" ]] && break
  kill -0 "$server" 2>/dev/null || { cat "$work/server.log" >&2; exit 1; }
  sleep 0.05
done
[[ -s "$work/port" ]] || { echo "demo: the server did not start; see $work/server.log" >&2; exit 1; }
address="127.0.0.1:$(head -n 1 "$work/port")"
trust="$work/data/trust-bundle.jwks.json"
echo "listening on $address, public keys in ${trust#"$root"/}"

step "upload a measured profile (Llama-2-7B layers and collectives of an 8-GPU node)"
"$bin/planctl" profile upload "$examples/llama2-7b-a100.profile.json" --cluster a100-40g-8 --node node-0 \
  --server "$address"

step "what could the job ask for? (nodes unknown, at submit)"
"$bin/planctl" shape --model "$examples/llama2-7b.model.json" --cluster "$examples/a100-40g-8.cluster.json" \
  --batch 64 --min-devices 2 --max-devices 8 --server "$address"

step "plan for the 8 GPUs it got, signed"
"$bin/planctl" plan --model "$examples/llama2-7b.model.json" --cluster "$examples/a100-40g-8.cluster.json" \
  --batch 64 --compare --job demo --server "$address" \
  --out "$work/plan.dsse.json" --report "$work/report.html"

step "verify it with no server, against the public keys"
"$bin/planctl" verify "$work/plan.dsse.json" --trust "$trust" --cluster a100-40g-8 --job demo \
  --topology "$examples/a100-40g-8.cluster.json"

step "the same with nothing measured: estimated from data sheets, no server, no profile"
"$bin/planctl" plan --offline --model "$examples/llama2-7b.model.json" \
  --cluster "$examples/a100-40g-8.cluster.json" --batch 64 --report "$work/estimated.html"

"$root/deploy/demo/train_here.sh" "$bin" "$work" "$address" "$trust"

printf '\nreport      %s\nplan        %s\n' "$work/report.html" "$work/plan.dsse.json"
if [[ "$keep" == yes ]]; then
  printf 'server      %s (log in %s)\nstop it     kill %s\n' "$address" "$work/server.log" "$server"
fi
