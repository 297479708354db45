#!/bin/sh
# Runs a compiler through ccache: compile_cached.sh CCACHE COMPILER ARGUMENTS...
#
# Removes a precompiled header before it is made again. Where the one of an earlier build lies,
# ccache looks for what it compiled by that file and not by the headers, and may give one that
# another clone made of other headers.
#
# A precompiled header of Clang names the folder of its clone, so it is made without ccache. Beside
# it stands the digest of what it was made of: its command and all headers, without the place of
# the clone. ccache takes that for the header (CCACHE_PCH_EXTSUM), so that what one clone compiled
# with it serves another.
previous=
header=
dependencies=
for word; do
  case "$previous $word" in
    "-o "*.gch) rm -f "$word" ;;
    "-o "*.pch)
      header=$word
      rm -f "$word" "$word.sum"
      ;;
    "-MF "*) dependencies=$word ;;
  esac
  previous=$word
  # ccache makes paths relative to the build's folder, but not this one of Clang.
  shift
  case "$word" in
    "$PWD"/*/cmake_pch.hxx) set -- "$@" "${word#"$PWD"/}" ;;
    *) set -- "$@" "$word" ;;
  esac
done
if [ -z "$header" ] || [ -z "$dependencies" ]; then exec "$@"; fi
shift
"$@" || exit
root=$(cd "$(dirname "$0")/.." && pwd -P)
{
  printf '%s\n' "$@"
  # The file names its output, then headers; names have no spaces.
  sed -e 's/^[^:]*://' -e 's/\\$//' "$dependencies" | tr -s ' ' '\n' | xargs cat
} | sed "s#$root#.#g" | sha256sum >"$header.sum"
