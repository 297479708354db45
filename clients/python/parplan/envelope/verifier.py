"""The decision whether a signed plan may be used here and now."""

from __future__ import annotations

import dataclasses
import time as clock
from typing import Any

from google.protobuf.message import DecodeError

from parplan.envelope import rfc3339
from parplan.envelope.envelope import PAYLOAD_TYPE, SignedPlan
from parplan.envelope.trust_bundle import TrustBundle, TrustedKey
from parplan.errors import Error, make_error
from parplan.wire import messages

ISSUE_TIME_TOLERANCE = 60 * rfc3339.NANOSECONDS
LONGEST_PLAN_LIFE = 366 * 86400 * rfc3339.NANOSECONDS
MAX_SIGNATURE_COUNT = 16
MAX_PAYLOAD_BYTES = 16 << 20


@dataclasses.dataclass(frozen=True)
class Audience:
    """The caller's own identity. Empty fields are not checked. A plan without a job, or without
    named nodes, is for its whole cluster."""
    cluster: str = ""
    job_id: str = ""
    node_name: str = ""
    topology_digest: str = ""


@dataclasses.dataclass(frozen=True)
class VerifiedPlan:
    """A plan that passed every check of `verify`: the signed bytes, the `PlanPayload` parsed from
    them, and the id of a trusted key that signed them and was allowed to at their issue time."""
    payload_bytes: bytes
    payload: Any
    key_id: str


def verify(signed_plan: SignedPlan, trust: TrustBundle, audience: Audience = Audience(),
           now: int | None = None) -> VerifiedPlan:
    """Makes these checks in this order and raises the error of the first that fails. Nothing of the
    payload is parsed before its signature is verified. `now` is in nanoseconds since 1970, by
    default the clock of this machine.

    0. Trust: the bundle has not expired. SignatureInvalid.
    1. Bytes: a trusted key that is not revoked made one of the signatures over exactly these bytes
       and this type. `Signature.key_id` only selects the key to try first. SignatureInvalid.
    2. Type and content: the type is that of a plan, and the bytes are a `PlanPayload` with name,
       devices, stages, micro-batches and both times. PayloadMalformed.
    3. Time: issue_time <= now + 60 s, now < expire_time, the plan lives no longer than a year, and
       a key of check 1 was in its window at issue_time. PlanExpired.
    4. Cluster, job and node. AudienceMismatch.
    5. Topology. TopologyMismatch.

    From check 2 on the metadata of the error has `keyId`, the id of a key that signed.
    """
    now = clock.time_ns() if now is None else now
    trust.check_life(now)
    signers = _find_signers(signed_plan, trust)
    if not signers:
        raise _not_signed(trust, signed_plan)
    first_key_id = signers[0].key_id
    if signed_plan.payload_type != PAYLOAD_TYPE:
        raise _malformed(signed_plan, first_key_id,
                         f"the bytes are signed as {_quote(signed_plan.payload_type)}, not as a "
                         f"plan (`{PAYLOAD_TYPE}`)")
    payload = _parse(signed_plan.payload)
    if payload is None:
        raise _malformed(signed_plan, first_key_id,
                         "the bytes are signed, but are no `PlanPayload`")
    issue_time, expire_time = _check_essentials(signed_plan, payload, first_key_id)
    _check_time(issue_time, expire_time, first_key_id, now)
    allowed = next((key for key in signers if key.may_issue_at(issue_time)), None)
    if allowed is None:
        raise _expired(expire_time, first_key_id,
                       f"the plan was issued at {rfc3339.format_time(issue_time)}, outside the "
                       f"window of the key {first_key_id} that signed it; renew the trust bundle, "
                       "then ask for a new plan")
    _check_audience(payload, audience, allowed.key_id)
    _check_topology(payload, audience, allowed.key_id)
    return VerifiedPlan(signed_plan.payload, payload, allowed.key_id)


def time_of(timestamp: Any) -> int | None:
    """Returns a `Timestamp` in nanoseconds, or None if it is no time."""
    if not 0 <= timestamp.nanos <= 999_999_999:
        return None
    time: int = timestamp.seconds * rfc3339.NANOSECONDS + timestamp.nanos
    return time if rfc3339.is_valid(time) else None


def _find_signers(signed_plan: SignedPlan, trust: TrustBundle) -> list[TrustedKey]:
    signers: list[TrustedKey] = []
    if len(signed_plan.signatures) > MAX_SIGNATURE_COUNT:
        return signers
    message = signed_plan.signed_bytes()
    for signature in signed_plan.signatures:
        # The key that the hint names comes first, then all others in order.
        hinted = trust.find(signature.key_id)
        keys = ([hinted] if hinted else []) + [key for key in trust.keys if key != hinted]
        signer = next((key for key in keys
                       if not key.is_revoked and key.verifies(message, signature.sig)), None)
        if signer is not None and signer not in signers:
            signers.append(signer)
    return signers


def _parse(data: bytes) -> Any:
    if len(data) > MAX_PAYLOAD_BYTES:
        return None
    try:
        return messages.PlanPayload.FromString(data)
    except DecodeError:
        return None


def _check_essentials(signed_plan: SignedPlan, payload: Any, key_id: str) -> tuple[int, int]:
    def missing(field: str) -> Error:
        return _malformed(signed_plan, key_id,
                          f"the plan is signed, but its `{field}` is missing or wrong")

    if not payload.plan:
        raise missing("plan")
    if payload.device_count < 1:
        raise missing("device_count")
    if payload.micro_batch_count < 1:
        raise missing("micro_batch_count")
    if not payload.stages:
        raise missing("stages")
    issue_time = time_of(payload.issue_time) if payload.HasField("issue_time") else None
    if issue_time is None:
        raise missing("issue_time")
    expire_time = time_of(payload.expire_time) if payload.HasField("expire_time") else None
    if expire_time is None or expire_time <= issue_time:
        raise missing("expire_time")
    return issue_time, expire_time


def _check_time(issue_time: int, expire_time: int, key_id: str, now: int) -> None:
    if now >= expire_time:
        raise _expired(expire_time, key_id,
                       f"the plan expired at {rfc3339.format_time(expire_time)}; ask the server "
                       "for a new one")
    if issue_time > now + ISSUE_TIME_TOLERANCE:
        raise _expired(expire_time, key_id,
                       f"the plan is valid from {rfc3339.format_time(issue_time)} on, which is in "
                       "the future; correct the clock of this machine or of the server")
    if expire_time - issue_time > LONGEST_PLAN_LIFE:
        raise _expired(expire_time, key_id,
                       f"the plan would be valid until {rfc3339.format_time(expire_time)}, over a "
                       "year after its issue, which no server signs; revoke the key "
                       f"{key_id}, and ask the server for a new plan")


def _check_audience(payload: Any, audience: Audience, key_id: str) -> None:
    if audience.cluster and payload.cluster != audience.cluster:
        raise _wrong_audience("cluster", audience.cluster, payload.cluster, key_id)
    if audience.job_id and payload.job_id and payload.job_id != audience.job_id:
        raise _wrong_audience("job", audience.job_id, payload.job_id, key_id)
    nodes = payload.node_names
    if audience.node_name and nodes and audience.node_name not in nodes:
        raise _wrong_audience("nodes", audience.node_name, ",".join(nodes), key_id)


def _check_topology(payload: Any, audience: Audience, key_id: str) -> None:
    expected, actual = audience.topology_digest, payload.topology_digest
    if not expected or actual == expected:
        return
    raise make_error("FAILED_PRECONDITION", "TOPOLOGY_MISMATCH",
                     f"the plan was made for the topology {_quote(actual)}, but the devices here "
                     f"are {_quote(expected)}; ask the server for a plan for these devices",
                     {"expected": _printable(expected), "actual": _printable(actual),
                      "keyId": key_id})


def _not_signed(trust: TrustBundle, signed_plan: SignedPlan) -> Error:
    count = len(signed_plan.signatures)
    named = [trust.find(one.key_id) for one in signed_plan.signatures]
    revoked = next((key for key in named if key and key.revoke_time is not None), None)
    message = ("no trusted key made any of the signatures: the plan was altered, or its key is not "
               "in the trust bundle; get the plan again, and the bundle from the owner of the "
               "cluster")
    if count > MAX_SIGNATURE_COUNT:
        message = (f"the envelope has {count} signatures; at most {MAX_SIGNATURE_COUNT} are looked "
                   "at, so get the plan again")
    elif revoked and revoked.revoke_time is not None:
        message = (f"the key {revoked.key_id} of the plan was revoked at "
                   f"{rfc3339.format_time(revoked.revoke_time)}, and no other trusted key signed "
                   "it; ask the server for a new plan")
    hints = [_printable(one.key_id) for one in signed_plan.signatures[:MAX_SIGNATURE_COUNT]]
    return make_error("PERMISSION_DENIED", "SIGNATURE_INVALID", message,
                      {"keyIds": ",".join(hints)})


def _malformed(signed_plan: SignedPlan, key_id: str, fault: str) -> Error:
    return make_error("INVALID_ARGUMENT", "PAYLOAD_MALFORMED",
                      f"{fault}; ask the server for a new plan, or upgrade this program to the "
                      "release of the server",
                      {"payloadType": _printable(signed_plan.payload_type), "keyId": key_id})


def _expired(expire_time: int, key_id: str, message: str) -> Error:
    return make_error("FAILED_PRECONDITION", "PLAN_EXPIRED", message,
                      {"expireTime": rfc3339.format_time(expire_time), "keyId": key_id})


def _wrong_audience(whose: str, expected: str, actual: str, key_id: str) -> Error:
    return make_error("PERMISSION_DENIED", "AUDIENCE_MISMATCH",
                      f"the plan is for the {whose} {_quote(actual)}, not for "
                      f"{_quote(expected)}; ask the server for a plan of your own",
                      {"expected": _printable(expected), "actual": _printable(actual),
                       "keyId": key_id})


def _printable(text: str) -> str:
    """Returns text of an envelope for an error: at most 128 bytes, without control characters."""
    data = text.encode()
    shown = data[:128].decode(errors="ignore")
    shown = "".join("?" if character < " " or character == "\x7f" else character
                    for character in shown)
    return shown + "..." if len(data) > 128 else shown


def _quote(text: str) -> str:
    return f"`{_printable(text)}`"
