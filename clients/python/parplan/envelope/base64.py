"""Base64 (RFC 4648) in one form only, since a signed document must have one."""

from __future__ import annotations

import base64
import re

_STANDARD = re.compile(r"[A-Za-z0-9+/]*={0,2}")
_URL_SAFE = re.compile(r"[A-Za-z0-9_-]*={0,2}")


def decode(text: str) -> bytes | None:
    """Decodes either alphabet (`+/` or `-_`, not both in one text), with correct padding or none.
    Returns None for any other character, wrong padding, and unused bits that are not zero."""
    if not (_STANDARD.fullmatch(text) or _URL_SAFE.fullmatch(text)):
        return None
    digits = text.rstrip("=")
    if (len(digits) != len(text) and len(text) % 4 != 0) or len(digits) % 4 == 1:
        return None
    standard = digits.translate({ord("-"): "+", ord("_"): "/"})
    decoded = base64.b64decode(standard + "=" * (-len(standard) % 4))
    # Python ignores unused bits; only the text that the bytes encode to has none.
    return decoded if base64.b64encode(decoded).decode().rstrip("=") == standard else None


def encode(data: bytes) -> str:
    """Encodes with the standard alphabet and padding, as in a DSSE envelope."""
    return base64.b64encode(data).decode()
