#!/bin/bash
# Verifies the signature of a plan with openssl and jq alone:
#
#   openssl_verify.sh ENVELOPE.json TRUST.jwks.json
#
# ENVELOPE.json is a DSSE envelope, TRUST.jwks.json a trust bundle. Prints the id
# of the first trusted key that signed and exits with 0; exits with 1 where no
# trusted key did, with 2 where a file or tool is missing. Looks at signatures
# only: whether the plan has expired and whom it is for is planctl's to say.
set -euo pipefail

if [[ $# -ne 2 || ! -r $1 || ! -r $2 ]]; then
  echo "usage: $0 ENVELOPE.json TRUST.jwks.json (two files that can be read)" >&2
  exit 2
fi
for tool in jq openssl; do
  command -v "$tool" >/dev/null || { echo "$0: $tool is not installed" >&2; exit 2; }
done
envelope=$1
bundle=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Reads either base64 alphabet, with or without padding.
decode() {
  local text
  text=$(tr -d '\n=' | tr '_-' '/+')
  while (( ${#text} % 4 )); do text+='='; done
  base64 -d <<<"$text"
}

# The signed bytes: "DSSEv1", then length and bytes of the type and of the payload.
jq -r .payload "$envelope" | decode > "$work/payload"
jq -j .payloadType "$envelope" > "$work/type"
{
  printf 'DSSEv1 %d ' "$(stat -c %s "$work/type")"
  cat "$work/type"
  printf ' %d ' "$(stat -c %s "$work/payload")"
  cat "$work/payload"
} > "$work/message"

while read -r x; do
  # SubjectPublicKeyInfo of Ed25519: twelve fixed bytes, then the key.
  {
    printf '\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00'
    decode <<<"$x"
  } > "$work/key.der"
  while read -r signature; do
    decode <<<"$signature" > "$work/signature"
    if openssl pkeyutl -verify -pubin -keyform DER -inkey "$work/key.der" -rawin \
        -in "$work/message" -sigfile "$work/signature" >/dev/null 2>&1; then
      echo "signed by $(openssl dgst -sha256 -r "$work/key.der" | cut -d' ' -f1)"
      exit 0
    fi
  done < <(jq -r '.signatures[].sig' "$envelope")
done < <(jq -r '.keys[] | select(.kty == "OKP" and .crv == "Ed25519") | .x' "$bundle")

echo "no trusted key made any of the signatures" >&2
exit 1
