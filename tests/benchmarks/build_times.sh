#!/usr/bin/env bash
# Measures how long a stranger waits, and writes the rows of docs/measurements/build.md:
#
#   tests/benchmarks/build_times.sh [demo] [ci] [test] [warm] [torch] [rebuild]
#
# by default all but `ci`.
#
# Each works on a clone of the last commit in a new folder, with a compiler cache of its own that
# starts empty. Debian's packages have to be installed before (`./parplan-dev setup test`): what
# they take depends on the network. `ci` is .ci/run; `test` and `torch` are its two commands, with
# their own limits of time for lint and fuzz. `warm` runs README's test command again in a new clone,
# with the compiler cache that `ci` or `test` before it has filled. The output of each command is kept
# in build/build-times.
set -euo pipefail
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
what=("$@")
if [[ ${#what[@]} -eq 0 ]]; then what=(demo test warm torch rebuild); fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# Neither objects nor clean sources nor wheels of a run before.
export CCACHE_DIR="$folder/cache" XDG_CACHE_HOME="$folder/user-cache"
commit=$(git -C "$source" rev-parse --short=8 HEAD)
table="$source/docs/measurements/build.md"
logs="$source/build/build-times"
mkdir -p "$logs"

head_of_table() {
  cat <<TEXT
# How long a build takes

Written by \`tests/benchmarks/build_times.sh\`, each row at its commit: $(nproc) cores
($(awk -F': ' '/^model name/ {print $2; exit}' /proc/cpuinfo)), new clones, a compiler cache that
starts empty ("warm": that of the row before), Debian's packages installed. Processor time is that
of the command. What others used is the share of the cores that other processes had, and the host
stole, meanwhile. \`.ci/run\` is \`./parplan-dev test\`, with 40 s of clang-tidy and 5 s of each fuzz
target, and then \`./parplan-dev torch-test\`, which installs PyTorch; the steps of the first and what
each covers are in [CONTRIBUTING.md](../../CONTRIBUTING.md#the-way-of-a-change), and their times stand
with the result.

| command | wall time | processor time | used by others | result | commit |
|---|---|---|---|---|---|
TEXT
}

# Writes a row in the place of the one with the same command, or at the end.
write_row() {
  local name=$1 row=$2 rows=()
  if [[ -f "$table" ]]; then
    mapfile -t rows < <(grep '^| `\|^| rebuild' "$table" | grep -vF "| $name |" || true)
  fi
  { head_of_table; printf '%s\n' "${rows[@]}" "$row" | grep . | sort; } >"$table.new"
  mv "$table.new" "$table"
  echo "$row"
}

# Prints the times of the steps of `./parplan-dev test` that a log tells, in brackets.
steps_of() {
  awk '/^-- [a-z]+ (passed|FAILED) in [0-9]+ s$/ {list = list separator $2 " " $5 " s"; separator = ", "}
       END {if (list != "") print " (" list ")"}' "$1"
}

# Runs a command in a clone and writes its row.
measure() {
  local name=$1 clone=$2 log=$3 status=0 before after
  shift 3
  before=$(awk '/^cpu / {print $2+$3+$4+$7+$8+$9}' /proc/stat)
  /usr/bin/env bash -c 'TIMEFORMAT="%R %U %S"; cd "$0" && { time "${@:2}" >"$1" 2>&1; }' \
    "$clone" "$logs/$log.log" "$@" 2>"$folder/time" || status=$?
  after=$(awk '/^cpu / {print $2+$3+$4+$7+$8+$9}' /proc/stat)
  write_row "$name" "$(tail -n 1 "$folder/time" | awk -v name="$name" -v status="$status" \
    -v before="$before" -v after="$after" -v hertz="$(getconf CLK_TCK)" -v cores="$(nproc)" \
    -v commit="$commit" -v steps="$(steps_of "$logs/$log.log")" '{
      own = $2 + $3
      others = ((after - before) / hertz - own) / ($1 * cores)
      if (others < 0) others = 0
      printf "| %s | %.1f min | %.1f min | %.0f %% | %s | %s |", name, $1 / 60, own / 60,
             others * 100, (status == 0 ? "passed" : "exit " status) steps, commit }')"
}

clone() {
  git clone -q "$source" "$folder/$1"
  if [[ -d "$source/../shared" ]]; then
    ln -sfn "$(cd "$source/../shared" && pwd)" "$folder/shared"
  fi
}

for one in "${what[@]}"; do
  case "$one" in
    demo)
      clone demo
      measure '`./parplan-dev demo`, cold' "$folder/demo" demo ./parplan-dev demo
      ;;
    ci)
      clone ci
      measure '`.ci/run`, cold' "$folder/ci" ci-cold ./.ci/run
      rm -rf "$folder/ci"
      ;;
    test)
      clone ci
      measure '`./parplan-dev test`, cold' "$folder/ci" test-cold ./parplan-dev test
      rm -rf "$folder/ci"
      ;;
    torch)
      clone ci
      measure '`./parplan-dev torch-test`, cold' "$folder/ci" torch-test-cold ./parplan-dev torch-test
      rm -rf "$folder/ci"
      ;;
    warm)
      # At the same place, since the cache knows objects by the paths of their sources too.
      clone ci
      measure '`./parplan-dev test`, warm' "$folder/ci" test-warm ./parplan-dev test
      rm -rf "$folder/ci"
      ;;
    rebuild)
      clone rebuild
      (cd "$folder/rebuild" && cmake --preset dev && cmake --build --preset dev --target planner_test) \
        >"$logs/rebuild-before.log" 2>&1
      echo '// A change.' >>"$folder/rebuild/planner/cost/rank_memory.cc"
      measure 'rebuild after `planner/cost/rank_memory.cc`, then its tests' "$folder/rebuild" rebuild \
        bash -c "cmake --build --preset dev --target planner_test && ctest --preset dev -R '^MemoryOf(Rank|Layer)'"
      ;;
    *) echo "usage: $0 [demo] [ci] [test] [warm] [torch] [rebuild]" >&2; exit 2 ;;
  esac
done
cat "$table"
