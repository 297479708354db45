"""The DSSE envelope of a plan.

    {"payload": "<base64>", "payloadType": "application/...",
     "signatures": [{"keyid": "<key id>", "sig": "<base64>"}]}
"""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from parplan.envelope import base64, strict_json
from parplan.errors import field_error

PAYLOAD_TYPE = "application/vnd.parplan.plan.v1+protobuf"
MAX_JSON_BYTES = 16 << 20
_REASON = "PAYLOAD_MALFORMED"


@dataclasses.dataclass(frozen=True)
class Signature:
    """One signature. `key_id` is a hint and never trusted."""
    sig: bytes
    key_id: str = ""


@dataclasses.dataclass(frozen=True)
class SignedPlan:
    """An envelope, not verified yet: the signed bytes, their type, and the signatures."""
    payload: bytes
    payload_type: str
    signatures: tuple[Signature, ...]

    @classmethod
    def from_json(cls, text: bytes | str) -> SignedPlan:
        """Parses the JSON of an envelope: either base64 alphabet, with padding or without; `keyid`
        may be absent. Verifies nothing. Raises PayloadMalformed naming the field for text that is
        not JSON or above 16 MiB, a missing, repeated or unknown member, a text that is not base64,
        and an envelope without a signature."""
        document = strict_json.parse(text, "envelope", max_bytes=MAX_JSON_BYTES, reason=_REASON)
        strict_json.check_members(document, "envelope", {"payload", "payloadType", "signatures"},
                                  _REASON)
        payload = _get_bytes(document, "envelope", "payload")
        payload_type = strict_json.get_string(document, "envelope", "payloadType", _REASON)
        entries = document.get("signatures")
        if not isinstance(entries, list) or not entries:
            raise field_error(_REASON, "envelope.signatures",
                              "must be an array of at least one signature")
        signatures = []
        for index, entry in enumerate(entries):
            field = f"signatures[{index}]"
            strict_json.check_members(entry, field, {"keyid", "sig"}, _REASON)
            sig = _get_bytes(entry, field, "sig")
            key_id = (strict_json.get_string(entry, field, "keyid", _REASON)
                      if "keyid" in entry else "")
            signatures.append(Signature(sig, key_id))
        return cls(payload, payload_type, tuple(signatures))

    @classmethod
    def from_message(cls, message: Any) -> SignedPlan:
        """Returns the envelope of a `SignedPlan` of the contract, as servers send it."""
        return cls(message.payload, message.payload_type,
                   tuple(Signature(one.sig, one.key_id) for one in message.signatures))

    def to_json(self) -> str:
        """Returns indented JSON with a line feed at the end, as `planctl` writes it."""
        document = {
            "payload": base64.encode(self.payload),
            "payloadType": self.payload_type,
            "signatures": [({"keyid": one.key_id} if one.key_id else {})
                           | {"sig": base64.encode(one.sig)} for one in self.signatures],
        }
        return json.dumps(document, indent=2, ensure_ascii=False) + "\n"

    def signed_bytes(self) -> bytes:
        """Returns the bytes that each signature covers: DSSE's pre-authentication encoding (DSSE
        v1.0.2) of type and payload."""
        kind = self.payload_type.encode()
        return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(self.payload), self.payload)


def _get_bytes(value: dict[str, Any], field: str, member: str) -> bytes:
    decoded = base64.decode(strict_json.get_string(value, field, member, _REASON))
    if decoded is None:
        raise field_error(_REASON, f"{field}.{member}",
                          "must be base64, without spaces or line breaks")
    return decoded
