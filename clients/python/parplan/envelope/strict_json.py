"""JSON that has one reading, for keys, signatures and files."""

from __future__ import annotations

import json
from typing import Any

from parplan.errors import Error, field_error, make_error

_MAX_VALUES = 2_000_000


class _Refused(ValueError):
    """A rule of ours that a text breaks, in words for the error."""


def parse(text: bytes | str, document: str, *, max_bytes: int, reason: str,
          max_depth: int = 8) -> Any:
    """Returns the value of `text`. Raises the error of `reason`, naming `document`, for text that
    is longer than `max_bytes`, is not JSON in UTF-8, repeats a member of an object, nests deeper
    than `max_depth`, or has more than two million values."""
    data = text.encode() if isinstance(text, str) else text
    try:
        if len(data) > max_bytes:
            raise _Refused(f"longer than {max_bytes} bytes")
        value = json.loads(data.decode("utf-8-sig"), object_pairs_hook=_without_repeats,
                           parse_constant=_no_constant)
        _check_size(value, max_depth)
    except _Refused as refused:
        raise _error(document, reason, str(refused)) from None
    except (ValueError, RecursionError):
        # The text may be a secret, so the error quotes none of it.
        raise _error(document, reason, "not JSON") from None
    return value


def check_members(value: Any, field: str, known: set[str], reason: str) -> None:
    """Raises the error of `reason` if `value` is no object or has a member not in `known`."""
    if not isinstance(value, dict):
        raise field_error(reason, field, "must be a JSON object")
    for member in value:
        if member not in known:
            raise field_error(reason, f"{field}.{member}",
                              "is not known here; remove it or correct its name")


def get_string(value: dict[str, Any], field: str, member: str, reason: str) -> str:
    """Returns the string `value[member]`, or raises the error that it is required."""
    found = value.get(member)
    if not isinstance(found, str):
        raise field_error(reason, f"{field}.{member}", "is required, as a string")
    return found


def _without_repeats(members: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(members)
    if len(value) != len(members):
        names = [name for name, _ in members]
        repeated = next(name for index, name in enumerate(names) if name in names[:index])
        raise _Refused(f"has the member `{repeated}` twice in one object; keep one")
    return value


def _no_constant(name: str) -> None:
    raise _Refused(f"not JSON: {name} is no number of JSON")


def _check_size(root: Any, max_depth: int) -> None:
    level, depth, count = [root], 0, 0
    while level:
        if depth > max_depth:
            raise _Refused(f"nested deeper than {max_depth} levels")
        count += len(level)
        if count > _MAX_VALUES:
            raise _Refused(f"has more than {_MAX_VALUES} values")
        inner: list[Any] = []
        has_container = False
        for value in level:
            if isinstance(value, str):
                _check_characters(value)
            elif isinstance(value, dict):
                has_container = True
                for name in value:
                    _check_characters(name)
                inner.extend(value.values())
            elif isinstance(value, list):
                has_container = True
                inner.extend(value)
        if has_container and depth == max_depth:
            raise _Refused(f"nested deeper than {max_depth} levels")
        level = inner
        depth += 1


def _check_characters(text: str) -> None:
    # An escape such as `\\ud800` alone is no character; Python accepts it.
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise _Refused("not JSON: a surrogate without its other half")


def _error(document: str, reason: str, rule: str) -> Error:
    return make_error("INVALID_ARGUMENT", reason, f"{document}: {rule}",
                      {"field": document, "rule": rule})
