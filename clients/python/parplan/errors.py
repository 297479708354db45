"""Errors, each with a canonical code, a reason and facts.

Reasons are those of `ErrorReason` in the contract (proto/parplan/v1/error_info.proto). A reason has
a class of its own, so that callers can write `except NoFeasiblePlan`. The errors of a server and
those of this package are the same classes.
"""

from __future__ import annotations

from collections.abc import Mapping


class Error(Exception):
    """An error. `code` is a canonical gRPC code such as "INVALID_ARGUMENT", `reason` the name of an
    `ErrorReason` or empty, `metadata` the facts that the reason names, `message` one sentence.
    `retry_seconds` is the time after which the same call may succeed, from the `RetryInfo` of the
    server, or None if the server named none."""

    def __init__(self, message: str, *, code: str = "UNKNOWN", reason: str = "",
                 metadata: Mapping[str, str] | None = None,
                 retry_seconds: float | None = None) -> None:
        super().__init__(f"{reason}: {message}" if reason else message)
        self.message = message
        self.code = code
        self.reason = reason
        self.metadata = dict(metadata or {})
        self.retry_seconds = retry_seconds


class SpecInvalid(Error):
    """A field of a request or a file breaks a rule."""


class ProfileInvalid(Error):
    """A profile breaks a rule."""


class ProfileMissing(Error):
    """Measurements are missing that the problem needs."""


class TopologyMismatch(Error):
    """The devices are not those of the topology that the plan or profile names."""


class NoFeasiblePlan(Error):
    """No plan of the declared space fits in memory."""


class PlanExpired(Error):
    """The plan is not valid any more, or not yet."""


class SignatureInvalid(Error):
    """No trusted key made any of the signatures."""


class PayloadMalformed(Error):
    """The bytes are signed but are not a plan of a known type."""


class AudienceMismatch(Error):
    """The plan is for another cluster, job or node."""


class QueueFull(Error):
    """Too many searches are waiting."""


class UploadTooLarge(Error):
    """The upload or request exceeds a limit."""


class SearchTimedOut(Error):
    """The deadline passed before any plan was found."""


class CheckFailed(Error):
    """The answer of the planner failed its check and was not signed."""


class ResourceNotFound(Error):
    """There is no such profile, plan or execution."""


class ExecutionState(Error):
    """The execution is not in the state that the call needs."""


class StoreUnavailable(Error):
    """The store of the server cannot serve now."""


class RequestIdReused(Error):
    """A request id came again with different content."""


class Draining(Error):
    """The server is shutting down."""


class AgentConnected(Error):
    """An agent is connected as this node."""


class RoleRequired(Error):
    """No role of the caller allows the call on this resource."""


class AuditUnavailable(Error):
    """The server cannot write to its audit log, without which it may change nothing."""


class QuotaExceeded(Error):
    """The call would exceed a quota of the caller or of a cluster."""


class SearchOutOfMemory(Error):
    """A search used up the memory that the server gives one before it found a plan."""


CLASS_OF_REASON: dict[str, type[Error]] = {
    "SPEC_INVALID": SpecInvalid,
    "PROFILE_INVALID": ProfileInvalid,
    "PROFILE_MISSING": ProfileMissing,
    "TOPOLOGY_MISMATCH": TopologyMismatch,
    "NO_FEASIBLE_PLAN": NoFeasiblePlan,
    "PLAN_EXPIRED": PlanExpired,
    "SIGNATURE_INVALID": SignatureInvalid,
    "PAYLOAD_MALFORMED": PayloadMalformed,
    "AUDIENCE_MISMATCH": AudienceMismatch,
    "QUEUE_FULL": QueueFull,
    "UPLOAD_TOO_LARGE": UploadTooLarge,
    "SEARCH_TIMED_OUT": SearchTimedOut,
    "CHECK_FAILED": CheckFailed,
    "RESOURCE_NOT_FOUND": ResourceNotFound,
    "EXECUTION_STATE": ExecutionState,
    "STORE_UNAVAILABLE": StoreUnavailable,
    "REQUEST_ID_REUSED": RequestIdReused,
    "DRAINING": Draining,
    "AGENT_CONNECTED": AgentConnected,
    "ROLE_REQUIRED": RoleRequired,
    "AUDIT_UNAVAILABLE": AuditUnavailable,
    "QUOTA_EXCEEDED": QuotaExceeded,
    "SEARCH_OUT_OF_MEMORY": SearchOutOfMemory,
}


def make_error(code: str, reason: str, message: str,
               metadata: Mapping[str, str] | None = None,
               retry_seconds: float | None = None) -> Error:
    """Returns an error of the class of `reason`, or an `Error` for a reason of a later release."""
    kind = CLASS_OF_REASON.get(reason, Error)
    return kind(message, code=code, reason=reason, metadata=metadata, retry_seconds=retry_seconds)


def field_error(reason: str, field: str, rule: str) -> Error:
    """Returns the INVALID_ARGUMENT for a field that breaks a rule."""
    return make_error("INVALID_ARGUMENT", reason, f"{field}: {rule}",
                      {"field": field, "rule": rule})
