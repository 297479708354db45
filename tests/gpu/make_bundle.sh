#!/usr/bin/env bash
# Packs what `./parplan-dev gpu` runs into one relocatable archive:
#
#   make_bundle.sh BUILD ARCHIVE.tar.xz
#
# programs, plugin and tests of the CUDA build, the Python package and its checks, and every library
# they load but those of the driver and of CUDA: cuBLASLt and NCCL alone take 760 MB, and a machine
# with a GPU has them with its toolkit or with PyTorch, where run.sh looks for them. The C library is
# packed too, for systems with an older one. No debugging information is left.
set -euo pipefail
if [[ $# -ne 2 ]]; then
  echo "usage: make_bundle.sh BUILD ARCHIVE.tar.xz" >&2
  exit 2
fi
build=$1
archive=$2
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
bundle="$folder/parplan-gpu"

mkdir -p "$bundle"/{bin,tests/gpu,lib,glibc,clients/python,prepared}
cp "$build"/bin/{libparplan_cuda.so,planctl} "$bundle/bin/"
cp "$build"/tests/{device_cuda_gpu_test,executor_gpu_test} "$bundle/tests/"
cp "$build"/gpu/{all_reduce_speed,device_report} "$bundle/bin/"
cp -rL "$source/clients/python/parplan" "$bundle/clients/python/"
find "$bundle/clients" -name __pycache__ -prune -exec rm -rf {} +
cp "$source"/tests/gpu/*.py "$bundle/tests/gpu/"
# The layers of plain PyTorch, which need no signed plans.
python3 - "$source/docs/measurements/h100/torch/prepared/cases.json" \
  "$bundle/prepared/cases.json" <<'PYTHON'
import json, sys
cases = json.load(open(sys.argv[1]))
json.dump({**cases, "profiles": [], "plans": [], "parity": []}, open(sys.argv[2], "w"))
PYTHON
cp "$source/tests/gpu/run_gpu_checks.sh" "$bundle/run.sh"
git -C "$source" describe --always --dirty >"$bundle/revision" 2>/dev/null || echo unknown >"$bundle/revision"
strip --strip-debug "$bundle"/bin/* "$bundle"/tests/*_test

# Prints the libraries that the programs load, as the loader finds them, one a line.
loaded() {
  local program
  for program in "$bundle"/bin/* "$bundle"/tests/*_test; do ldd "$program"; done |
    awk '/=> \//{print $3}' | sort -u
}
loaded | while read -r library; do
  case "$(basename "$library")" in
    libcublas*.so* | libcudart.so* | libnccl.so* | libcuda.so*) ;;
    libc.so.* | libm.so.* | libdl.so.* | libpthread.so.* | librt.so.* | libresolv.so.*)
      cp -L "$library" "$bundle/glibc/"
      ;;
    *) cp -L "$library" "$bundle/lib/" ;;
  esac
done
cp -L /lib64/ld-linux-x86-64.so.2 "$bundle/glibc/"

mkdir -p "$(dirname "$archive")"
tar -C "$folder" -c parplan-gpu | xz -T0 -6 >"$archive"
size=$(stat -c %s "$archive")
echo "$archive: $((size / 1000000)) MB"
if [[ "$size" -gt 64000000 ]]; then
  echo "the archive is larger than the 64 MB that it may have" >&2
  exit 1
fi
