"""The public keys that a verifier trusts, each with the time in which it may issue plans.

A JSON Web Key Set (RFC 7517, keys of RFC 8037) that the owner of a cluster hands out; a verifier
never gets its keys from the server that it checks.
"""

from __future__ import annotations

import dataclasses
import hashlib
from typing import Any

from parplan.envelope import base64, rfc3339, strict_json
from parplan.errors import field_error

MAX_KEY_COUNT = 64
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
    since 1970, in which the issue time of its plans must lie."""
    raw: bytes
    not_before: int
    not_after: int
    is_retired: bool = False

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
class TrustBundle:
    """At most 64 different keys, ordered by the start of their windows, then by key id."""
    keys: tuple[TrustedKey, ...] = ()

    @classmethod
    def of(cls, keys: list[TrustedKey]) -> TrustBundle:
        """Returns the bundle of `keys`. Raises SpecInvalid, naming `keys[i]...`, for too many keys,
        two equal keys, and a window that is empty or outside the years 1 to 9999."""
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
        above 1 MiB. `use`, `alg` and `parplan_status` may be absent."""
        document = strict_json.parse(text, "trust bundle", max_bytes=_MAX_BYTES, reason=_REASON)
        strict_json.check_members(document, "trust bundle", {"keys"}, _REASON)
        entries = document.get("keys")
        if not isinstance(entries, list) or not entries:
            raise field_error(_REASON, "keys", "must be an array of at least one key; a verifier "
                              "without keys trusts no plan")
        return cls.of([_key_from_json(entry, f"keys[{index}]")
                       for index, entry in enumerate(entries)])

    def find(self, key_id: str) -> TrustedKey | None:
        """Returns the key with this id, or None."""
        return next((key for key in self.keys if key.key_id == key_id), None)


def _key_from_json(key: Any, field: str) -> TrustedKey:
    if isinstance(key, dict) and "d" in key:
        raise field_error(_REASON, f"{field}.d", "is a private key, which a trust bundle never "
                          "holds; stop handing out this file and replace the key")
    strict_json.check_members(key, field, {"kty", "crv", "use", "alg", "kid", "x",
                                           "parplan_not_before", "parplan_not_after",
                                           "parplan_status"}, _REASON)
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
    if status not in ("active", "retired"):
        raise field_error(_REASON, f"{field}.parplan_status", "must be `active` or `retired`")
    return TrustedKey(raw, not_before, not_after, status == "retired")


def _get_time(key: dict[str, Any], field: str, member: str) -> int:
    time = rfc3339.parse_time(strict_json.get_string(key, field, member, _REASON))
    if time is None:
        raise field_error(_REASON, f"{field}.{member}",
                          "must be an RFC 3339 time such as `2026-01-31T12:00:00Z`")
    return time
