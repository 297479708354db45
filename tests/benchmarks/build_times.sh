#!/usr/bin/env bash
# Measures how long a stranger waits, and writes docs/measurements/build.md:
#
#   tests/benchmarks/build_times.sh [demo] [ci] [rebuild]      by default all three
#
# Each works on a clone of the last commit in a new folder, with a compiler cache of its own that
# starts empty. Debian's packages have to be installed before (`./parplan-dev setup test`): what
# they take depends on the network. `ci` takes as long as .ci/run does, twice.
set -euo pipefail
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
what=("$@")
if [[ ${#what[@]} -eq 0 ]]; then what=(demo ci rebuild); fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export CCACHE_DIR="$folder/cache"
commit=$(git -C "$source" rev-parse --short HEAD)
rows=()

# Runs a command in a new clone; adds a row of wall time, processor time and the share of the
# processors that others took meanwhile (time stolen by the host counts as theirs).
measure() {
  local name=$1 clone=$2 status=0 before after
  shift 2
  before=$(awk '/^cpu / {print $2+$3+$4+$7+$8+$9, $9}' /proc/stat)
  /usr/bin/env bash -c 'TIMEFORMAT="%R %U %S"; cd "$0" && time "$@" >"$0.log" 2>&1' \
    "$clone" "$@" 2>"$folder/time" || status=$?
  after=$(awk '/^cpu / {print $2+$3+$4+$7+$8+$9, $9}' /proc/stat)
  local line
  line=$(tail -n 1 "$folder/time")
  rows+=("$(awk -v name="$name" -v status="$status" -v before="$before" -v after="$after" \
    -v hertz="$(getconf CLK_TCK)" -v cores="$(nproc)" '{
      split(before, b); split(after, a); busy = (a[1] - b[1]) / hertz; own = $2 + $3
      others = (busy - own) / ($1 * cores); if (others < 0) others = 0
      printf "| %s | %.1f min | %.1f min | %.0f %% | %s |", name, $1 / 60, own / 60, others * 100,
             status == 0 ? "passed" : "exit " status }' <<<"$line")")
  echo "${rows[-1]}"
}

clone() { git clone -q "$source" "$folder/$1"; if [[ -d "$source/../shared" ]]; then ln -sfn "$(cd "$source/../shared" && pwd)" "$folder/shared"; fi; }

for one in "${what[@]}"; do
  case "$one" in
    demo)
      clone demo
      measure '`./parplan-dev demo`, cold' "$folder/demo" ./parplan-dev demo
      ;;
    ci)
      clone ci
      measure '`.ci/run`, cold' "$folder/ci" bash .ci/run
      clone again
      measure '`.ci/run`, warm' "$folder/again" bash .ci/run
      ;;
    rebuild)
      clone rebuild
      (cd "$folder/rebuild" && cmake --preset dev && cmake --build --preset dev --target planner_test) \
        >"$folder/rebuild.log" 2>&1
      echo '// A change.' >>"$folder/rebuild/planner/cost/rank_memory.cc"
      measure 'rebuild after `planner/cost/rank_memory.cc`, then its tests' "$folder/rebuild" \
        bash -c "cmake --build --preset dev --target planner_test && ctest --preset dev -R '^RankMemory'"
      ;;
    *) echo "usage: $0 [demo] [ci] [rebuild]" >&2; exit 2 ;;
  esac
done

{
  echo "# How long a build takes"
  echo
  echo "Written by \`tests/benchmarks/build_times.sh ${what[*]}\` at $commit: $(nproc) cores" \
    "($(awk -F': ' '/^model name/ {print $2; exit}' /proc/cpuinfo)), new clones, a compiler cache" \
    "that starts empty (\"warm\": that of the row before). Processor time is that of the command;" \
    "the share of others counts what the host stole." | fold -s -w 98 | sed 's/ *$//'
  echo
  echo "| command | wall time | processor time | used by others | |"
  echo "|---|---|---|---|---|"
  printf '%s\n' "${rows[@]}"
} >"$source/docs/measurements/build.md"
cat "$source/docs/measurements/build.md"
