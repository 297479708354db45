#!/usr/bin/env bash
# The packages as an operator meets them: the same whenever they are packed, without errors of
# lintian, and on a fresh Debian installed, booted, run, upgraded, removed and purged.
#
#   package_test.sh FOLDER FOLDER-PACKED-AGAIN FOLDER-OF-THE-NEXT-REVISION
#
# Run it as root, with Debian's archive in reach (`./parplan-dev package-test`).
set -euo pipefail
[[ $# -eq 3 ]] || { echo "usage: package_test.sh FOLDER AGAIN NEXT" >&2; exit 2; }
first=$(realpath "$1") again=$(realpath "$2") next=$(realpath "$3")
[[ "$(id -u)" -eq 0 ]] || { echo "package_test: making a Debian root needs root" >&2; exit 2; }

tests=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
root="$work/root"
trap 'rm -rf --one-file-system "$work"' EXIT
failures=0
step() { printf '\n== %s\n' "$*"; }
fail() { printf 'FAILED: %s\n' "$*" >&2; failures=$((failures + 1)); }
expect() { local what=$1; shift; "$@" || fail "$what"; }

# Runs a script in the fresh Debian, with its own processes: what it leaves running ends with it.
inside() {
  unshare --mount --pid --fork --kill-child --mount-proc="$root/proc" \
    chroot "$root" env -i PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive \
    bash -euo pipefail -c "$1"
}

step "the same programs give the same packages"
for package in "$first"/*.deb; do
  expect "$(basename "$package") differs when it is packed again" cmp "$package" "$again/$(basename "$package")"
  document="$(basename "$package" .deb).spdx.json"
  expect "$document differs when it is written again" cmp "$first/$document" "$again/$document"
  expect "$document does not say what is in the package" /usr/bin/python3 -B \
    "$tests/../../../deploy/releases/make_sbom.py" check "$first/$document" --deb "$package"
done
(cd "$first" && sha256sum -- *.deb)

step "lintian"
for package in "$first"/*.deb; do
  # The archive's own rules: there is no bug to close with the first upload, and no source package.
  lintian --fail-on error --suppress-tags initial-upload-closes-no-bugs "$package" ||
    fail "lintian refuses $(basename "$package")"
done

step "a fresh Debian"
sources=(/etc/apt/sources.list.d/debian.sources)
[[ -f "${sources[0]}" ]] || sources=(/etc/apt/sources.list)
mmdebstrap --quiet --variant=apt --include=ca-certificates bookworm "$root" "${sources[@]}"
mkdir -p "$root/packages" "$root/packages-next"
cp "$first"/*.deb "$root/packages/"
chmod 1777 "$root/packages"
cp "$next"/*.deb "$root/packages-next/"
before=$(du -sm "$root" | cut -f1)

step "install"
inside 'cd /packages
  apt-get update -q
  apt-get install -q -y --no-install-recommends ./*.deb >/packages/install.log 2>&1 || { cat /packages/install.log; exit 1; }
  dpkg --audit'
echo "it takes $(($(du -sm "$root" | cut -f1) - before)) MB with all that it needs"
inside 'getent passwd parplan parplan-agent
  [[ "$(stat -c %U:%a /var/spool/parplan-agent)" == parplan-agent:1777 ]]
  [[ ! -e /var/lib/parplan/keys ]]
  for program in parplan-server planctl parplan-agent parplan-agent-probe parplan-exec parplan-sidecar; do
    "$program" --version
    "$program" --help >/dev/null
  done
  parplan-server --check-config --config /etc/parplan/parplan-server.json
  python3 -c "import parplan_executor.library as library; library.load_library()"
  ! ls /etc/systemd/system/*/parplan-* 2>/dev/null' || fail "what is installed is not as it should be"

step "boot"
# A copy: the fresh Debian is to remain without systemd.
cp -a "$root" "$work/booted"
root="$work/booted" inside 'apt-get install -q -y --no-install-recommends systemd systemd-sysv \
  >/packages/systemd.log 2>&1 || { cat /packages/systemd.log; exit 1; }'
status=0
/usr/bin/python3 -B "$tests/boot_test.py" --root "$work/booted" --next /packages-next || status=$?
# 77: nothing can be booted here, and it has said why.
[[ "$status" -eq 0 || "$status" -eq 77 ]] || fail "what was booted is not as it should be"
rm -rf --one-file-system "$work/booted"

step "run as its user, plan, end"
cat >"$root/usr/local/bin/try-server" <<'SH'
#!/bin/bash
# Starts like the unit: the folder, the user, the configuration. The rest runs beside it.
set -euo pipefail
install -d -o parplan -g parplan -m 750 /var/lib/parplan
setpriv --reuid=parplan --regid=parplan --clear-groups --no-new-privs env -i PATH="$PATH" \
  parplan-server --config /etc/parplan/parplan-server.json --port-file /var/lib/parplan/port \
  2>/packages/server.log &
server=$!
until [[ -s /var/lib/parplan/port ]]; do
  kill -0 "$server" || { cat /packages/server.log; exit 1; }
  sleep 0.1
done
examples=/usr/share/parplan/examples
"$@"
kill "$server"
wait "$server"
rm /var/lib/parplan/port
SH
cat >"$root/usr/local/bin/ask" <<'SH'
#!/bin/bash
set -euo pipefail
examples=/usr/share/parplan/examples
planctl profile upload "$examples/llama2-7b-a100.profile.json" --cluster a100-40g-8 --node node-0
planctl plan --model "$examples/llama2-7b.model.json" --cluster "$examples/a100-40g-8.cluster.json" \
  --batch 64 --job 4711 --out /packages/plan.dsse.json >/packages/plan.txt
head -n 3 /packages/plan.txt
planctl verify /packages/plan.dsse.json --trust /var/lib/parplan/trust-bundle.jwks.json --job 4711
SH
chmod +x "$root"/usr/local/bin/*
# Its network is the machine's: another server may have the usual ports.
# A port below those that the system gives to whoever connects.
free() { /usr/bin/python3 - <<'PYTHON'; }
import random, socket
first = int(open("/proc/sys/net/ipv4/ip_local_port_range").read().split()[0])
while True:
    port = random.randrange(min(10000, first // 2), first)
    with socket.socket() as one:
        try:
            one.bind(("127.0.0.1", port))
        except OSError:
            continue
    print(port)
    break
PYTHON
sed -i "s/:9477/:$(free)/; s/:9478/:$(free)/" "$root/etc/parplan/parplan-server.json"
port=$(sed -n 's/.*"listen": "127.0.0.1:\([0-9]*\)".*/\1/p' "$root/etc/parplan/parplan-server.json")
inside "PARPLAN_SERVER=127.0.0.1:$port try-server ask" || fail "the server does not plan"
inside 'stat -c "%U %a %n" /var/lib/parplan/keys /var/lib/parplan/keys/*.pem' || fail "there are no keys"

step "upgrade"
old=$(sha256sum <"$root/packages/plan.dsse.json")
inside 'cd /packages-next && apt-get install -q -y --no-install-recommends ./*.deb >/packages/upgrade.log 2>&1 || { cat /packages/upgrade.log; exit 1; }
  dpkg-query -W "*parplan-*"
  ! dpkg-query -W -f "\${Version}\n" "*parplan-*" | grep -v -- -2'
expect "the upgrade took the operator's configuration" grep -q "$port" "$root/etc/parplan/parplan-server.json"
inside "PARPLAN_SERVER=127.0.0.1:$port try-server ask" || fail "the upgraded server does not plan"
[[ "$(sha256sum <"$root/packages/plan.dsse.json")" == "$old" ]] || fail "the upgraded server has lost the plan"

step "remove keeps what is the operator's"
# Does the same as `systemctl enable`.
inside 'mkdir -p /etc/systemd/system/multi-user.target.wants
  ln -s /lib/systemd/system/parplan-server.service /etc/systemd/system/multi-user.target.wants/'
inside 'apt-get remove -q -y "parplan-*" "libparplan-*" "python3-parplan-*" >/packages/remove.log 2>&1 || { cat /packages/remove.log; exit 1; }
  [[ ! -e /usr/bin/parplan-server && ! -e /usr/bin/planctl && -e /var/lib/parplan/parplan.db ]]
  [[ -e /etc/parplan/parplan-server.json ]]' || fail "remove"

step "purge leaves nothing"
inside 'apt-get purge -q -y "parplan-*" >/packages/purge.log 2>&1 || { cat /packages/purge.log; exit 1; }
  left=$(find / -xdev -name "*parplan*" -not -path "/packages*" -not -path "/proc/*" \
    -not -path "/var/cache/*" -not -path "/var/log/*" -not -path "/usr/local/*")
  [[ -z "$left" ]] || { echo "$left"; exit 1; }' || fail "purge left files"

if [[ "$failures" -gt 0 ]]; then
  echo "FAILED: $failures"
  exit 1
fi
echo "PASSED: $(ls "$first"/*.deb | wc -l) packages"
