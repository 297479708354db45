#!/bin/sh
# Runs a compiler through ccache: compile_cached.sh CCACHE COMPILER ARGUMENTS...
#
# Removes a precompiled header before it is made again. Where the one of an earlier build lies,
# ccache looks for what it compiled by that file and not by the headers, and may give one that
# another clone made of other headers.
previous=
for word; do
  case "$previous $word" in
    "-o "*.gch | "-o "*.pch) rm -f "$word" ;;
  esac
  previous=$word
done
exec "$@"
