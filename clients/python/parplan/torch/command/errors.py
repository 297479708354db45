"""Exit codes of the commands about plans, and errors as planctl prints them."""

from __future__ import annotations

import errno
import json
import sys

from parplan.errors import Error

# Those below 8 are planctl's (docs/planctl.md).
PASSED, BAD_INPUT, NOT_VERIFIED, CHECK_FAILED = 0, 2, 5, 8
_UNVERIFIED = ("SIGNATURE_INVALID", "PAYLOAD_MALFORMED", "PLAN_EXPIRED", "AUDIENCE_MISMATCH",
               "TOPOLOGY_MISMATCH")
# The codes of errors of files, as Abseil gives them to planctl.
_CODES = {
    errno.ENOENT: "NOT_FOUND", errno.EEXIST: "ALREADY_EXISTS",
    errno.EACCES: "PERMISSION_DENIED", errno.EPERM: "PERMISSION_DENIED",
    errno.EROFS: "PERMISSION_DENIED", errno.EISDIR: "FAILED_PRECONDITION",
    errno.ENOTDIR: "FAILED_PRECONDITION", errno.ENOSPC: "RESOURCE_EXHAUSTED",
    errno.EDQUOT: "RESOURCE_EXHAUSTED", errno.EMFILE: "RESOURCE_EXHAUSTED",
    errno.ENAMETOOLONG: "INVALID_ARGUMENT"}


def report_error(error: Error | OSError, as_json: bool) -> int:
    """Prints an error and returns its exit code."""
    print(f"parplan-torch: {error}", file=sys.stderr)
    if not isinstance(error, Error):
        # Errors that no system call made have no number.
        error = Error(str(error), code=_CODES.get(error.errno or 0, "UNKNOWN"))
    if as_json:
        print(json.dumps({"error": {"code": error.code, "reason": error.reason,
                                    "message": error.message, "metadata": error.metadata}},
                         indent=2))
    return NOT_VERIFIED if error.reason in _UNVERIFIED else BAD_INPUT
