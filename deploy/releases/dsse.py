"""Envelopes of DSSE (https://github.com/secure-systems-lab/dsse) with a statement of in-toto, signed
with Ed25519 by openssl. Reading is strict: a file that is not exactly what `seal` writes is refused,
so no bit of it can be changed."""
import base64
import hashlib
import json
import pathlib
import re
import subprocess
import tempfile

PAYLOAD_TYPE = "application/vnd.in-toto+json"
# The algorithm of an Ed25519 public key in SubjectPublicKeyInfo (RFC 8410), before its 32 bytes.
ED25519_PREFIX = bytes.fromhex("302a300506032b6570032100")
LARGEST_BYTES = 16 << 20


class Refused(Exception):
    """A sentence that says why something cannot be trusted."""


def _openssl(*arguments):
    try:
        return subprocess.run(["openssl", *map(str, arguments)], capture_output=True, check=False,
                              stdin=subprocess.DEVNULL, timeout=60)
    except FileNotFoundError as error:
        raise Refused("openssl is not installed") from error


def public_key(path, is_private=False):
    """The public key of a file in PEM, in DER."""
    done = _openssl("pkey", *([] if is_private else ["-pubin"]), "-in", path, "-pubout", "-outform",
                    "DER")
    if done.returncode != 0:
        kind = "private" if is_private else "public"
        raise Refused(f"{path} is no {kind} key in PEM: {done.stderr.decode().strip()}")
    if len(done.stdout) != len(ED25519_PREFIX) + 32 or \
            not done.stdout.startswith(ED25519_PREFIX):
        raise Refused(f"{path} is no Ed25519 key")
    return done.stdout


def key_id(der):
    return hashlib.sha256(der).hexdigest()


def pae(payload):
    """The bytes that are signed: DSSE's pre-authentication encoding."""
    kind = PAYLOAD_TYPE.encode()
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)


def canonical(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def _text(payload, identity, signature):
    return json.dumps({
        "payload": base64.b64encode(payload).decode(), "payloadType": PAYLOAD_TYPE,
        "signatures": [{"keyid": identity, "sig": base64.b64encode(signature).decode()}]},
        indent=1) + "\n"


def seal(statement, key):
    """The text of an envelope of a statement, signed with the private key of a file."""
    identity = key_id(public_key(key, is_private=True))
    payload = canonical(statement).encode()
    with tempfile.TemporaryDirectory() as place:
        message, signature = pathlib.Path(place, "message"), pathlib.Path(place, "signature")
        message.write_bytes(pae(payload))
        done = _openssl("pkeyutl", "-sign", "-rawin", "-inkey", key, "-in", message, "-out",
                        signature)
        if done.returncode != 0:
            raise Refused(f"openssl does not sign with {key}: {done.stderr.decode().strip()}")
        return _text(payload, identity, signature.read_bytes())


def _unique(pairs):
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a member is there twice")
    return members


def open_sealed(text, key):
    """The statement of an envelope that the owner of a public key signed; refuses all others."""
    if len(text) > LARGEST_BYTES:
        raise Refused("the envelope is too large")
    try:
        envelope = json.loads(text, object_pairs_hook=_unique)
        (signed,) = envelope["signatures"]
        payload = base64.b64decode(envelope["payload"], validate=True)
        signature = base64.b64decode(signed["sig"], validate=True)
        identity = signed["keyid"]
        is_exact = _text(payload, identity, signature) == text
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Refused(f"no envelope of one signature: {error}") from error
    if not is_exact or not re.fullmatch(r"[0-9a-f]{64}", identity) or len(signature) != 64:
        raise Refused("the envelope is not as it was written")
    der = public_key(key)
    if identity != key_id(der):
        raise Refused(f"signed by the key {identity}, and {key} is {key_id(der)}")
    with tempfile.TemporaryDirectory() as place:
        paths = {name: pathlib.Path(place, name) for name in ("message", "signature", "key")}
        paths["message"].write_bytes(pae(payload))
        paths["signature"].write_bytes(signature)
        paths["key"].write_bytes(der)
        done = _openssl("pkeyutl", "-verify", "-rawin", "-pubin", "-keyform", "DER", "-inkey",
                        paths["key"], "-in", paths["message"], "-sigfile", paths["signature"])
    if done.returncode != 0:
        raise Refused("the signature is not good")
    # Nothing was read of the payload before this line.
    try:
        return json.loads(payload, object_pairs_hook=_unique)
    except ValueError as error:
        raise Refused(f"the statement is no JSON: {error}") from error
