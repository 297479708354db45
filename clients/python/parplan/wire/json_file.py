"""Messages as files that people read and write: proto JSON, parsed strictly."""

from __future__ import annotations

from typing import Any

from google.protobuf import json_format

from parplan.envelope import strict_json
from parplan.errors import field_error, make_error
from parplan.wire import messages

MAX_BYTES = 64 << 20
_MAX_DEPTH = 64


def parse(text: bytes | str, message_name: str, file_name: str) -> Any:
    """Returns the message of `text`, the content of `file_name`. Raises SpecInvalid for text that
    is not JSON, unknown and repeated fields, null, and values of another type or range."""
    document = strict_json.parse(text, file_name, max_bytes=MAX_BYTES, reason="SPEC_INVALID",
                                 max_depth=_MAX_DEPTH)
    return from_dict(document, message_name, file_name)


def from_dict(document: Any, message_name: str, file_name: str) -> Any:
    """Returns the message of a dictionary in the JSON form of the message."""
    if not isinstance(document, dict):
        raise field_error("SPEC_INVALID", file_name, "must be a JSON object")
    _refuse_null(document, file_name)
    message = getattr(messages, message_name)()
    try:
        json_format.ParseDict(document, message, descriptor_pool=messages.pool())
    except (json_format.ParseError, TypeError, AttributeError, ValueError) as error:
        rule = str(error)
        raise make_error("INVALID_ARGUMENT", "SPEC_INVALID", f"{file_name}: {rule}",
                         {"field": file_name, "rule": rule}) from None
    return message


def to_dict(message: Any) -> dict[str, Any]:
    """Returns a message as a dictionary, with names as in the contract."""
    made: dict[str, Any] = json_format.MessageToDict(
        message, preserving_proto_field_name=True, descriptor_pool=messages.pool())
    return made


def _refuse_null(root: Any, path: str) -> None:
    places = [(root, path)]
    while places:
        value, place = places.pop()
        if value is None:
            raise make_error("INVALID_ARGUMENT", "SPEC_INVALID",
                             f"{place}: must not be null; leave the field out",
                             {"field": place, "rule": "must not be null"})
        if isinstance(value, dict):
            places.extend((inner, f"{place}.{name}") for name, inner in value.items())
        elif isinstance(value, list):
            places.extend((inner, f"{place}[{index}]") for index, inner in enumerate(value))
