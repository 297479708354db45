"""Memory that a step frees and the next one takes again, on processors.

The C library gives the end of its heap, and tensors beyond a size that changes while a program runs,
back to the system. Each step then has pages made anew, filled with zeros, as often as its tensors
happen to lie at the end: between none and ten thousand times a step of a small model, most often for
parameters that FSDP gathers and frees. So jobs and their measurements keep what they free, as the
caching allocator of PyTorch does on GPUs.
"""

from __future__ import annotations

import ctypes
import os
from typing import Any

# Numbers of mallopt(3).
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
# The largest that every release of glibc takes; larger tensors are few.
_LARGEST_IN_HEAP = 32 << 20
# By these a user has decided.
_VARIABLES = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_MMAP_MAX_",
              "MALLOC_TOP_PAD_")


def keep_freed_memory() -> bool:
    """Lets this process keep memory that it frees, for as long as it runs; `return_freed_memory`
    gives back what is free at that moment. Returns whether glibc's allocator has these settings now:
    not with another C library, nor where the environment has settings of its own, which stay."""
    if any(name in os.environ for name in _VARIABLES) or \
            "glibc.malloc" in os.environ.get("GLIBC_TUNABLES", ""):
        return False
    mallopt = _function("mallopt")
    if mallopt is None:
        return False
    # A threshold of -1 is none.
    return bool(mallopt(_TRIM_THRESHOLD, -1)) and bool(mallopt(_MMAP_THRESHOLD, _LARGEST_IN_HEAP))


def return_freed_memory() -> None:
    """Gives memory that is free now back to the system, so that what is left is in use."""
    trim = _function("malloc_trim")
    if trim is not None:
        trim(ctypes.c_size_t(0))


def _function(name: str) -> Any:
    """Returns a function of the C library, None if it has no such."""
    try:
        return getattr(ctypes.CDLL(None), name, None)
    except (OSError, TypeError):
        return None
