#!/usr/bin/env bash
# Repacks what CPack packed, so that packages do not depend on the time or the machine: times are at
# most SOURCE_DATE_EPOCH, names are sorted, and root owns everything.
#
#   finish_packages.sh FOLDER-OF-CPACK FOLDER
set -euo pipefail
from=$1 to=$2
: "${SOURCE_DATE_EPOCH:?is needed}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$to"
for package in "$from"/*.deb; do
  tree="$work/$(basename "$package" .deb)"
  dpkg-deb --raw-extract "$package" "$tree"
  chmod -R u+rwX,go+rX,go-w,g-s "$tree"
  # CPack adds scripts that repeat what the trigger of the package does.
  if grep -qs ldconfig "$tree/DEBIAN/triggers"; then
    rm -f "$tree/DEBIAN/postinst" "$tree/DEBIAN/postrm"
  fi
  find "$tree" -exec touch --no-dereference --date "@$SOURCE_DATE_EPOCH" {} +
  dpkg-deb --root-owner-group --uniform-compression -Zxz --build "$tree" "$to" >/dev/null
done
