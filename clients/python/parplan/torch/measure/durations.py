"""Durations as the contract's JSON has them."""

from __future__ import annotations

import math
from typing import Any

from parplan.torch.measure.steady import Spread

_NANOSECONDS = 10**9


def text_of(seconds: float) -> str:
    """Returns a duration in JSON, at least a nanosecond."""
    nanoseconds = max(1, math.ceil(seconds * _NANOSECONDS))
    return f"{nanoseconds // _NANOSECONDS}.{nanoseconds % _NANOSECONDS:09d}s"


def medians_of(spread: Spread) -> dict[str, Any]:
    """Returns the fields that timings of optimizers and collectives share."""
    return {"median_duration": text_of(spread.median), "p90_duration": text_of(spread.p90),
            "sample_count": spread.count, "origin": "ORIGIN_MEASURED"}
