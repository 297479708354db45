"""Exit codes of the commands about plans, and errors as planctl prints them."""

from __future__ import annotations

import json
import sys

from parplan.errors import Error

# Those below 8 are planctl's (docs/planctl.md).
PASSED, BAD_INPUT, NOT_VERIFIED, CHECK_FAILED = 0, 2, 5, 8
_UNVERIFIED = ("SIGNATURE_INVALID", "PAYLOAD_MALFORMED", "PLAN_EXPIRED", "AUDIENCE_MISMATCH",
               "TOPOLOGY_MISMATCH")


def report_error(error: Error | OSError, as_json: bool) -> int:
    """Prints an error and returns its exit code."""
    print(f"parplan-torch: {error}", file=sys.stderr)
    if not isinstance(error, Error):
        error = Error(str(error), code="NOT_FOUND")
    if as_json:
        print(json.dumps({"error": {"code": error.code, "reason": error.reason,
                                    "message": error.message, "metadata": error.metadata}},
                         indent=2))
    return NOT_VERIFIED if error.reason in _UNVERIFIED else BAD_INPUT
