"""The public keys that a verifier trusts, each with the time in which it may issue plans.

A JSON Web Key Set (RFC 7517, keys of RFC 8037) that the owner of a cluster hands out; a verifier
never gets its keys from the server that it checks. A bundle that a key store wrote has a version: a
number that grows, a time at which it expires, and signatures.
"""

from __future__ import annotations

import dataclasses
import fcntl
import hashlib
import os
import pathlib
from typing import Any

from parplan.envelope import base64, rfc3339, strict_json
from parplan.errors import Error, field_error, make_error

MAX_KEY_COUNT = 64
MAX_SIGNATURE_COUNT = 16
MAX_SEQUENCE = (1 << 53) - 1
_SIGNED_TYPE = b"application/vnd.parplan.trust-bundle.v1+text"
_VERSION_MEMBERS = {"parplan_sequence", "parplan_issue_time", "parplan_expire_time",
                    "parplan_signatures"}
_MAX_BYTES = 1 << 20
_REASON = "SPEC_INVALID"
# SubjectPublicKeyInfo of an Ed25519 key up to its 32 bytes (RFC 8410, section 4).
_PREFIX = bytes.fromhex("302a300506032b6570032100")


def key_id_of(raw_public_key: bytes) -> str:
    """Returns the id of a key: the SHA-256 of its SubjectPublicKeyInfo, in hexadecimal."""
    return hashlib.sha256(_PREFIX + raw_public_key).hexdigest()


@dataclasses.dataclass(frozen=True)
class TrustedKey:
    """A public key (32 bytes) and the half-open window [not_before, not_after), in nanoseconds
    since 1970, in which the issue time of its plans must lie. Nothing that a key with a
    `revoke_time` signed is trusted, whenever."""
    raw: bytes
    not_before: int
    not_after: int
    is_retired: bool = False
    revoke_time: int | None = None

    @property
    def is_revoked(self) -> bool:
        return self.revoke_time is not None

    @property
    def status(self) -> str:
        return "revoked" if self.is_revoked else "retired" if self.is_retired else "active"

    @property
    def key_id(self) -> str:
        return key_id_of(self.raw)

    def may_issue_at(self, time: int) -> bool:
        return self.not_before <= time < self.not_after

    def verifies(self, message: bytes, signature: bytes) -> bool:
        """Returns whether the holder of the private key signed exactly `message`."""
        # Here, so that processes that measure or verify nothing need not load it.
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        if len(signature) != 64:
            return False
        try:
            Ed25519PublicKey.from_public_bytes(self.raw).verify(signature, message)
        except InvalidSignature:
            return False
        return True


@dataclasses.dataclass(frozen=True)
class BundleVersion:
    """The place of a bundle among those of its key store, and the half-open time [issue_time,
    expire_time), in nanoseconds since 1970, of which verifiers look at the end."""
    sequence: int
    issue_time: int
    expire_time: int


@dataclasses.dataclass(frozen=True)
class TrustBundle:
    """At most 64 different keys, ordered by the start of their windows, then by key id; and a
    version with signatures of all this, unless it is unsigned."""
    keys: tuple[TrustedKey, ...] = ()
    version: BundleVersion | None = None
    signatures: tuple[bytes, ...] = ()

    @classmethod
    def of(cls, keys: list[TrustedKey]) -> TrustBundle:
        """Returns the bundle of `keys`. Raises SpecInvalid, naming `keys[i]...`, for too many keys,
        two equal keys, a window that is empty or outside the years 1 to 9999, and a time of
        revocation outside them."""
        if len(keys) > MAX_KEY_COUNT:
            raise field_error(_REASON, "keys",
                              f"has {len(keys)} keys; at most {MAX_KEY_COUNT} are read, so remove "
                              "those whose plans have expired")
        for index, key in enumerate(keys):
            if (not rfc3339.is_valid(key.not_before) or not rfc3339.is_valid(key.not_after)
                    or key.not_before >= key.not_after):
                raise field_error(_REASON, f"keys[{index}].parplan_not_after",
                                  "must come after `parplan_not_before`, both within the years 1 "
                                  "to 9999")
            if key.revoke_time is not None and not rfc3339.is_valid(key.revoke_time):
                raise field_error(_REASON, f"keys[{index}].parplan_revoke_time",
                                  "is required for a revoked key, and for no other")
            for before in range(index):
                if keys[before].raw == key.raw:
                    raise field_error(_REASON, f"keys[{index}].kid",
                                      f"is that of keys[{before}] too; keep one of them")
        return cls(tuple(sorted(keys, key=lambda key: (key.not_before, key.key_id))))

    @classmethod
    def from_json(cls, text: bytes | str) -> TrustBundle:
        """Reads a key set of at least one key. Raises SpecInvalid naming the field for another
        `kty`, `crv`, `use` or `alg`, a `kid` that is not the key id of `x`, the private member `d`,
        an unknown or repeated member, everything that `of` refuses, and text that is not JSON or
        above 1 MiB. `use`, `alg` and `parplan_status` may be absent, and all members of the version
        together; a version without a signature by one of the bundle's own keys that is not revoked
        is refused, since the file was edited."""
        document = strict_json.parse(text, "trust bundle", max_bytes=_MAX_BYTES, reason=_REASON)
        strict_json.check_members(document, "trust bundle", {"keys", *_VERSION_MEMBERS}, _REASON)
        entries = document.get("keys")
        if not isinstance(entries, list) or not entries:
            raise field_error(_REASON, "keys", "must be an array of at least one key; a verifier "
                              "without keys trusts no plan")
        bundle = cls.of([_key_from_json(entry, f"keys[{index}]")
                         for index, entry in enumerate(entries)])
        if not _VERSION_MEMBERS & document.keys():
            return bundle
        bundle = dataclasses.replace(bundle, version=_version_from_json(document),
                                     signatures=_signatures_from_json(document))
        if not bundle._is_signed_by_key_of(bundle):
            raise field_error(_REASON, "trust bundle.parplan_signatures",
                              "none is by a key of the bundle that is not revoked, so the file was "
                              "changed by hand; get it again from the owner of the cluster, who "
                              "takes a key back with `parplan-server keys revoke`")
        return bundle

    def find(self, key_id: str) -> TrustedKey | None:
        """Returns the key with this id, or None."""
        return next((key for key in self.keys if key.key_id == key_id), None)

    def signed_bytes(self) -> bytes:
        """Returns the bytes that the signatures of the bundle cover: DSSE's pre-authentication
        encoding of a text that has the version and every key. The bundle must have a version."""
        assert self.version is not None
        form = rfc3339.format_time
        lines = ["parplan trust bundle 1", f"sequence {self.version.sequence}",
                 f"issue_time {form(self.version.issue_time)}",
                 f"expire_time {form(self.version.expire_time)}"]
        for key in self.keys:
            words = ["key", key.key_id, form(key.not_before), form(key.not_after), key.status]
            if key.revoke_time is not None:
                words.append(form(key.revoke_time))
            lines.append(" ".join(words))
        text = ("\n".join(lines) + "\n").encode()
        return b"DSSEv1 %d %b %d %b" % (len(_SIGNED_TYPE), _SIGNED_TYPE, len(text), text)

    def check_life(self, now: int) -> None:
        """Raises SignatureInvalid if the bundle has expired at `now`, in nanoseconds since 1970:
        it trusts no key any more."""
        if self.version is None or now < self.version.expire_time:
            return
        end = rfc3339.format_time(self.version.expire_time)
        raise self._stale(f"the trust bundle expired at {end}; get the present one from the owner "
                          "of the cluster", {"expireTime": end})

    def check_successor(self, following: TrustBundle) -> None:
        """Raises SignatureInvalid unless a verifier that accepted this bundle may go on to
        `following`: a higher number and a signature by a key of this bundle that is not revoked
        here, or the same bundle. A bundle without a version accepts any, and follows no other."""
        if self.version is None:
            return
        accepted, version = self.version.sequence, following.version
        if version is not None and version.sequence > accepted:
            if not following._is_signed_by_key_of(self):
                raise make_error("PERMISSION_DENIED", "SIGNATURE_INVALID",
                                 "no key of the trust bundle accepted here before (number "
                                 f"{accepted}) signed this one (number {version.sequence}); ask "
                                 "the owner of the cluster whether it is theirs, and only then "
                                 "remove the file that remembers the accepted one", {"keyIds": ""})
            return
        if version == self.version and following.keys == self.keys:
            return
        which = ("the trust bundle has no version, and number" if version is None else
                 f"the trust bundle has number {version.sequence}, and number"
                 if version.sequence < accepted else "another trust bundle with number")
        raise following._stale(f"{which} {accepted} was accepted here before; get the present one "
                               "from the owner of the cluster",
                               {"acceptedSequence": str(accepted)})

    def _is_signed_by_key_of(self, trust: TrustBundle) -> bool:
        message = self.signed_bytes()
        return any(key.verifies(message, signature) for signature in self.signatures
                   for key in trust.keys if not key.is_revoked)

    def _stale(self, message: str, metadata: dict[str, str]) -> Error:
        sequence = "" if self.version is None else str(self.version.sequence)
        return make_error("PERMISSION_DENIED", "SIGNATURE_INVALID", message,
                          {"sequence": sequence, **metadata})


def accept(text: bytes | str, memory: str | os.PathLike[str] = "") -> TrustBundle:
    """Parses a trust bundle and compares it with the one that was accepted last, a copy of which is
    in the file `memory`; then it is the one accepted last. No file, or an empty path: nothing was
    accepted before. Each bundle needs a memory of its own, in a folder that whoever replaces the
    bundle cannot write. Threads and processes may call it at once: a new bundle is compared and
    written under a lock on the file `memory`.lock, by which `planctl` does so too. Raises the errors of `TrustBundle.from_json` and `check_successor`, and
    SpecInvalid naming `memory` if that cannot be read or written."""
    bundle = TrustBundle.from_json(text)
    if not os.fspath(memory):
        return bundle
    data = text.encode() if isinstance(text, str) else text
    path = pathlib.Path(memory)
    try:
        # Mostly nothing is new, and then the folder need not be writable.
        if _is_remembered(path, data, bundle):
            return bundle
        with open(f"{path}.lock", "a", opener=_open_private) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            # Another process or thread may have accepted a newer bundle since.
            if _is_remembered(path, data, bundle):
                return bundle
            staged = path.with_name(f"{path.name}.new")
            with staged.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            staged.replace(path)
    except OSError as error:
        raise field_error(_REASON, str(path), "cannot remember the trust bundle accepted last "
                          f"({error.strerror}); give a file in a folder that this program can "
                          "write") from None
    return bundle


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


def _is_remembered(path: pathlib.Path, data: bytes, bundle: TrustBundle) -> bool:
    """Whether the memory at `path` holds `data`; raises if `bundle` may not follow what it holds."""
    try:
        remembered = path.read_bytes()
    except FileNotFoundError:
        return False
    TrustBundle.from_json(remembered).check_successor(bundle)
    return remembered == data


def _key_from_json(key: Any, field: str) -> TrustedKey:
    if isinstance(key, dict) and "d" in key:
        raise field_error(_REASON, f"{field}.d", "is a private key, which a trust bundle never "
                          "holds; stop handing out this file and replace the key")
    strict_json.check_members(key, field, {"kty", "crv", "use", "alg", "kid", "x",
                                           "parplan_not_before", "parplan_not_after",
                                           "parplan_status", "parplan_revoke_time"}, _REASON)
    for member, only, is_required in (("kty", "OKP", True), ("crv", "Ed25519", True),
                                      ("use", "sig", False), ("alg", "EdDSA", False)):
        if (is_required or member in key) and key.get(member) != only:
            raise field_error(_REASON, f"{field}.{member}",
                              f"must be `{only}`; other kinds of keys sign no plans")
    raw = base64.decode(strict_json.get_string(key, field, "x", _REASON))
    if raw is None or len(raw) != 32:
        raise field_error(_REASON, f"{field}.x", "must be 32 bytes in base64url")
    if strict_json.get_string(key, field, "kid", _REASON) != key_id_of(raw):
        raise field_error(_REASON, f"{field}.kid",
                          f"must be the key id of `x`, which is {key_id_of(raw)}")
    not_before = _get_time(key, field, "parplan_not_before")
    not_after = _get_time(key, field, "parplan_not_after")
    status = "active"
    if "parplan_status" in key:
        status = strict_json.get_string(key, field, "parplan_status", _REASON)
    if status not in ("active", "retired", "revoked"):
        raise field_error(_REASON, f"{field}.parplan_status",
                          "must be `active`, `retired` or `revoked`")
    revoke_time = None
    if "parplan_revoke_time" in key:
        revoke_time = _get_time(key, field, "parplan_revoke_time")
    if (revoke_time is not None) != (status == "revoked"):
        raise field_error(_REASON, f"{field}.parplan_revoke_time",
                          "is required for a revoked key, and for no other")
    return TrustedKey(raw, not_before, not_after, status == "retired", revoke_time)


def _version_from_json(document: dict[str, Any]) -> BundleVersion:
    field = "trust bundle"
    sequence = document.get("parplan_sequence")
    if not isinstance(sequence, int) or isinstance(sequence, bool):
        raise field_error(_REASON, f"{field}.parplan_sequence", "is required, as a whole number")
    if not 1 <= sequence <= MAX_SEQUENCE:
        raise field_error(_REASON, f"{field}.parplan_sequence",
                          f"must be between 1 and {MAX_SEQUENCE}")
    issue_time = _get_time(document, field, "parplan_issue_time")
    expire_time = _get_time(document, field, "parplan_expire_time")
    if issue_time >= expire_time:
        raise field_error(_REASON, f"{field}.parplan_expire_time",
                          "must come after `parplan_issue_time`, both within the years 1 to 9999")
    return BundleVersion(sequence, issue_time, expire_time)


def _signatures_from_json(document: dict[str, Any]) -> tuple[bytes, ...]:
    entries = document.get("parplan_signatures")
    if not isinstance(entries, list) or not 1 <= len(entries) <= MAX_SIGNATURE_COUNT:
        raise field_error(_REASON, "trust bundle.parplan_signatures",
                          f"must be an array of 1 to {MAX_SIGNATURE_COUNT} signatures")
    signatures = []
    for index, entry in enumerate(entries):
        field = f"parplan_signatures[{index}]"
        strict_json.check_members(entry, field, {"keyid", "sig"}, _REASON)
        strict_json.get_string(entry, field, "keyid", _REASON)
        signature = base64.decode(strict_json.get_string(entry, field, "sig", _REASON))
        if signature is None:
            raise field_error(_REASON, f"{field}.sig", "must be base64")
        signatures.append(signature)
    return tuple(signatures)


def _get_time(key: dict[str, Any], field: str, member: str) -> int:
    time = rfc3339.parse_time(strict_json.get_string(key, field, member, _REASON))
    if time is None:
        raise field_error(_REASON, f"{field}.{member}",
                          "must be an RFC 3339 time such as `2026-01-31T12:00:00Z`")
    return time
