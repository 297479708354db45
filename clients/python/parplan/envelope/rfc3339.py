"""Times as nanoseconds since 1970 in UTC, and as people write them (RFC 3339)."""

from __future__ import annotations

import datetime
import re

NANOSECONDS = 1_000_000_000
_FIRST_SECOND = -62_135_596_800  # 0001-01-01T00:00:00Z
_END_SECOND = 253_402_300_800  # 10000-01-01T00:00:00Z
_FORM = re.compile(r"(\d{4})-(\d{2})-(\d{2})[Tt](\d{2}):(\d{2}):(\d{2})(?:\.(\d+))?"
                   r"(?:[Zz]|([+-])(\d{2}):(\d{2}))", re.ASCII)


def is_valid(time: int) -> bool:
    """Returns whether the time is within the years 1 to 9999."""
    return _FIRST_SECOND * NANOSECONDS <= time < _END_SECOND * NANOSECONDS


def format_time(time: int) -> str:
    """Formats a time, for example `2026-01-31T12:00:00Z`, with a fraction of a second if there is
    one."""
    seconds, rest = divmod(time, NANOSECONDS)
    moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=seconds)
    fraction = f".{rest:09d}".rstrip("0") if rest else ""
    return f"{moment.isoformat()}{fraction}Z"


def parse_time(text: str) -> int | None:
    """Parses a time with any offset. Returns None for all else, and outside the years 1 to 9999."""
    found = _FORM.fullmatch(text)
    if not found:
        return None
    year, month, day, hour, minute, second = (int(found[index]) for index in range(1, 7))
    try:
        # A leap second is the first second of the next minute.
        start = datetime.datetime(year, month, day, hour, minute, min(second, 59))
    except ValueError:
        return None
    if second > 60:
        return None
    offset = 0
    if found[8]:
        if int(found[9]) > 23 or int(found[10]) > 59:
            return None
        offset = (int(found[9]) * 60 + int(found[10])) * (60 if found[8] == "+" else -60)
    past = start - datetime.datetime(1970, 1, 1)
    seconds = past.days * 86_400 + past.seconds + (second == 60) - offset
    time = seconds * NANOSECONDS + int((found[7] or "0")[:9].ljust(9, "0"))
    return time if is_valid(time) else None
