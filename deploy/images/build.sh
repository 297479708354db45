#!/usr/bin/env bash
# Builds container images from programs that are already built. An image holds a program, the
# libraries that it links from Debian packages, and nothing else. Needs no root, daemon, registry or
# network. Equal programs and packages give bit-identical images.
#
#   deploy/images/build.sh [--bin FOLDER] [--out FOLDER] [--tag TAG] [--archive] [IMAGE...]
#
# IMAGE is server, agent, sidecar, planctl or executor; by default the first four. They are stored in
# OUT/storage, for buildah with `--root OUT/storage --runroot OUT/run --storage-driver vfs`, and with
# --archive also as OUT/parplan-IMAGE.tar (OCI), whose digests are in OUT/digests. The bill of
# materials is in the image (usr/share/doc/parplan/sbom.spdx.json) and beside it, as
# OUT/parplan-IMAGE.spdx.json. Prints a line for each image: name, id, bytes.
set -euo pipefail
umask 022
source_folder=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

bin="$source_folder/build/release/bin"
out="$source_folder/build/images"
tag=$(sed -n 's/^project(parplan VERSION \([0-9.]*\).*/\1/p' "$source_folder/CMakeLists.txt")
archive=
images=()

fail() {
  echo "build.sh: $*" >&2
  exit 1
}

while [[ $# -gt 0 ]]; do
  case "$1" in
    --bin) bin=$2 && shift 2 ;;
    --out) out=$2 && shift 2 ;;
    --tag) tag=$2 && shift 2 ;;
    --archive) archive=1 && shift ;;
    --help | -h) sed -n '2,13s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" && exit 0 ;;
    -*) fail "no such option: $1" ;;
    *) images+=("$1") && shift ;;
  esac
done
if [[ "${#images[@]}" -eq 0 ]]; then images=(server agent sidecar planctl); fi
command -v buildah >/dev/null || fail "buildah is not installed (Debian: buildah)"
[[ -x /usr/bin/python3 ]] || fail "python3 is not installed (Debian: python3)"
mkdir -p "$out"
out=$(cd "$out" && pwd)

programs_of() {
  case "$1" in
    server) echo parplan-server ;;
    agent) echo parplan-agent parplan-agent-probe ;;
    sidecar) echo parplan-sidecar ;;
    planctl) echo planctl ;;
    executor) echo parplan-exec ;;
    *) fail "no such image: $1; there are server, agent, sidecar, planctl and executor" ;;
  esac
}

# Prints the Debian packages that contain the files, one per line; fails if a file is in none.
# Packages list some files under their paths from before /lib became a link.
packages_of() {
  local file found
  found=$(for file in "$@"; do printf '%s\n' "$file" "${file#/usr}"; done |
    { LC_ALL=C xargs dpkg-query -S 2>/dev/null || true; })
  for file in "$@"; do
    awk -F ': ' -v file="$file" '$2 == file || "/usr" $2 == file {print $1; found = 1; exit}
      END {exit !found}' <<<"$found" || fail "$file is of no Debian package"
  done | sed 's/:.*//' | LC_ALL=C sort -u
}

# PostgreSQL's client library can look up its server in LDAP, for which Debian adds a second TLS
# library: 7 MB that no image needs. A library of the same name replaces them; it knows no directory,
# so such a look-up fails with a message.
readonly left_out='libldap-*.so.*'
stand_in() {
  local user=$1 target=$2 work
  work=$(mktemp -d)
  nm -D --undefined-only "$user" | awk '$2 ~ /^ldap_.*@/ {sub("@.*", "", $2); print "void *" $2 "(void) {return 0;}"}' \
    >"$work/ldap.c"
  nm -D --undefined-only "$user" | awk '$2 ~ /^ldap_.*@/ {sub(".*@", "", $2); version = $2}
    END {print version " { global: ldap_*; local: *; };"}' >"$work/ldap.map"
  gcc -shared -nostdlib -s -O1 -fPIC -Wl,--build-id=none -Wl,-soname,"$(basename "$target")" \
    -Wl,--version-script,"$work/ldap.map" -o "$target" "$work/ldap.c"
  rm -r "$work"
}

# Prints the libraries of a program as the loader finds them, one path per line, without those that
# are left out and those needed only by them; then `left-out NAME USER` lines.
libraries_of() {
  local file name path
  local -A path_of=() seen=()
  local queue=("$1")
  while read -r name path; do path_of[$name]=$path; done < <(
    ldd "$1" | awk '$2 == "=>" && $3 ~ /^\// {print $1, $3} $2 == "=>" && $3 !~ /^\// {print $1, "missing"}')
  while [[ "${#queue[@]}" -gt 0 ]]; do
    file=${queue[0]}
    queue=("${queue[@]:1}")
    for name in $(objdump -p "$file" | awk '$1 == "NEEDED" {print $2}'); do
      [[ -z "${seen[$name]:-}" ]] || continue
      seen[$name]=1
      # The loader is always included.
      [[ "$name" != ld-linux* ]] || continue
      # shellcheck disable=SC2254
      case "$name" in $left_out) echo "left-out $name $file" && continue ;; esac
      path=${path_of[$name]:-missing}
      [[ "$path" != missing ]] || fail "$1 needs $name, which is not installed"
      echo "$path"
      queue+=("$path")
    done
  done
  ldd "$1" | awk '$1 ~ /^\/.*ld-linux/ {print $1}'
}

# Writes what is in an image into it, and beside it. Like the image it bears no time.
write_sbom() {
  local root=$1 name=$2
  SOURCE_DATE_EPOCH=0 /usr/bin/python3 -B "$source_folder/deploy/releases/make_sbom.py" image \
    "$root" "$name" "$tag" "$out/$name.spdx.json" --bin "$bin" --stand-in "$left_out" ||
    fail "the bill of materials of $name could not be written"
  install -m 644 "$out/$name.spdx.json" "$root/usr/share/doc/parplan/sbom.spdx.json"
}

# Copies the programs and all linked libraries into a folder that becomes the image's root.
gather() {
  local root=$1 program library name user real package reals=()
  shift
  mkdir -p "$root"/{etc/ssl/certs,usr/bin,usr/lib,usr/lib64,usr/share/doc/parplan,tmp,plan}
  mkdir -p "$root/var/lib/parplan"
  ln -s usr/lib "$root/lib"
  ln -s usr/lib64 "$root/lib64"
  for program in "$@"; do
    [[ -x "$bin/$program" ]] || fail "$bin/$program is not built"
    install -m 755 -s "$bin/$program" "$root/usr/bin/$program"
  done
  for program in "$@"; do libraries_of "$root/usr/bin/$program"; done |
    LC_ALL=C sort -u >"$root.libraries"
  while read -r library name user; do
    if [[ "$library" == left-out ]]; then
      mkdir -p "$root/usr/lib/x86_64-linux-gnu"
      stand_in "$user" "$root/usr/lib/x86_64-linux-gnu/$name"
      continue
    fi
    real=$(readlink -f "$library")
    library=${library/#\/lib/\/usr\/lib}
    install -D -m 755 "$real" "$root$library"
    reals+=("$real")
  done <"$root.libraries"
  # Lists the contents and their licences for people and scanners, including what is linked into
  # programs statically (cmake/FindCBC.cmake).
  packages_of "${reals[@]}" >"$root.packages"
  for program in "$@"; do
    if grep -q 8CbcModel "$bin/$program" && ! grep -q '/libCbc' "$root.libraries"; then
      dpkg-query -W -f '${Package}\n' coinor-libcbc-dev coinor-libcgl-dev coinor-libclp-dev \
        coinor-libosi-dev coinor-libcoinutils-dev liblapack-dev libblas-dev >>"$root.packages"
    fi
  done
  LC_ALL=C sort -u -o "$root.packages" "$root.packages"
  while read -r package; do
    dpkg-query -W -f '${Package} ${Version} ${Architecture}\n' "$package" | head -n 1
    mkdir -p "$root/usr/share/doc/$package"
    gzip -9nc "/usr/share/doc/$package/copyright" >"$root/usr/share/doc/$package/copyright.gz"
  done <"$root.packages" >"$root/usr/share/doc/parplan/packages"
  install -m 644 "$source_folder/LICENSE" "$root/usr/share/doc/parplan/LICENSE"
  rm -f "$root.libraries" "$root.packages"
  # Mozilla's certificate authorities from Debian's package, and none of this machine's own.
  find /usr/share/ca-certificates/mozilla -name '*.crt' -print0 2>/dev/null | LC_ALL=C sort -z |
    xargs -0 -r cat >"$root/etc/ssl/certs/ca-certificates.crt"
  echo 'parplan:x:65532:65532::/:/usr/sbin/nologin' >"$root/etc/passwd"
  echo 'parplan:x:65532:' >"$root/etc/group"
  echo 'hosts: files dns' >"$root/etc/nsswitch.conf"
  write_sbom "$root" "parplan-$image"
  # The root file system is read-only and has no owner; volumes are mounted for data.
  find "$root" -type d -exec chmod 755 {} +
  find "$root" -exec touch -h -d @0 {} +
}

containerfile() {
  local first=$1
  echo 'FROM scratch'
  echo 'COPY root/ /'
  echo "LABEL org.opencontainers.image.title=\"$first\" \\"
  echo "  org.opencontainers.image.version=\"$tag\" org.opencontainers.image.licenses=\"Apache-2.0\""
  echo 'ENV PATH=/usr/bin'
  echo 'USER 65532:65532'
  echo "ENTRYPOINT [\"/usr/bin/$first\"]"
}

if [[ -n "$archive" ]]; then : >"$out/digests"; fi
for image in "${images[@]}"; do
  read -r -a programs <<<"$(programs_of "$image")"
  [[ "${#programs[@]}" -gt 0 ]] || exit 1
  context="$out/context-$image"
  rm -rf "$context"
  mkdir -p "$context"
  gather "$context/root" "${programs[@]}"
  containerfile "${programs[0]}" >"$context/Containerfile"
  run_buildah=(buildah --root "$out/storage" --runroot "$out/run" --storage-driver vfs)
  if ! "${run_buildah[@]}" build --isolation chroot --format oci --timestamp 0 --quiet \
    --iidfile "$context/id" --tag "parplan-$image:$tag" --file "$context/Containerfile" \
    "$context" >"$context/log" 2>&1; then
    cat "$context/log" >&2
    fail "parplan-$image could not be built"
  fi
  if [[ -n "$archive" ]]; then
    rm -f "$out/parplan-$image.tar"
    "${run_buildah[@]}" push --quiet --digestfile "$context/digest" "parplan-$image:$tag" \
      "oci-archive:$out/parplan-$image.tar:parplan-$image:$tag" >"$context/log" 2>&1 ||
      { cat "$context/log" >&2 && exit 1; }
    echo "parplan-$image $(cat "$context/digest")" >>"$out/digests"
  fi
  bytes=$(find "$context/root" -type f -printf '%s\n' | awk '{sum += $1} END {print sum}')
  echo "parplan-$image:$tag $(cat "$context/id") $bytes"
done
