"""Evidence of a check: an in-toto statement about the plan's digest in a DSSE envelope, which
`planctl verify --evidence` checks and shows (proto/envelope/evidence.h)."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
import math
import platform
import time
from typing import Any

import torch
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (Encoding, PublicFormat,
                                                          load_pem_private_key)

import parplan
from parplan.envelope import Signature, SignedPlan
from parplan.envelope.trust_bundle import key_id_of
from parplan.errors import field_error
from parplan.plan import Plan
from parplan.torch.check.numerics import STEPS, Comparison
from parplan.torch.check.shrink import Small
from parplan.torch.check.steps import Counted

PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "https://parplan.io/evidence/torch-check/v1"


class SigningKey:
    """An Ed25519 key that signs evidence."""

    def __init__(self, pem: bytes) -> None:
        """Reads a private key in PEM (PKCS 8, not encrypted). Raises SpecInvalid for all else."""
        try:
            key = load_pem_private_key(pem, password=None)
        except (ValueError, TypeError):
            key = None
        if not isinstance(key, Ed25519PrivateKey):
            # The text may be a secret, so the error quotes none of it.
            raise field_error("SPEC_INVALID", "--key",
                              "must be an Ed25519 private key in PEM that is not encrypted")
        self._key = key
        self.key_id = key_id_of(key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw))

    def sign(self, message: bytes) -> bytes:
        return self._key.sign(message)


def predicate_of(plan: Plan, small: Small, compared: Comparison, counted: Counted,
                 tolerance: float, finish_time: float) -> dict[str, Any]:
    """Returns what was found. `finish_time` is in seconds since 1970."""
    passed = compared.is_equal(tolerance) and counted.is_equal
    return {
        "passed": passed,
        "finish_time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(finish_time)),
        "summary": summary_of(compared, counted, tolerance),
        "versions": versions(),
        "recompute_policy": _policy(plan),
        "small_copy": {
            "device_count": small.plan.device_count, "layers": list(small.kept),
            "micro_batch_count": small.plan.micro_batch_count, "notes": list(small.notes)},
        "numbers": {
            "equal": compared.is_equal(tolerance), "steps": STEPS, "tolerance": tolerance,
            "gradient_count": compared.parameter_count,
            "worst_loss_difference": _number(compared.loss),
            "worst_gradient_difference": _number(compared.gradient),
            "worst_gradient": compared.parameter, "worst_rank": compared.rank,
            "fault": compared.fault},
        "collectives": {
            "equal": counted.is_equal, "device_count": plan.device_count,
            "counted_ranks": list(counted.ranks), "priced_for_runtime": "torch",
            "predicted_for_runtime": plan.payload.runtime_id,
            "rows": [{"rank": row.rank, "collective": row.kind, "ranks": row.ranks,
                      "purposes": list(row.purposes), "priced": row.priced,
                      "counted": row.counted, "not_priced": row.not_priced,
                      "equal": row.is_equal} for row in counted.rows],
            "not_priced": list(counted.notes), "fault": counted.fault,
            "left_out": counted.left_out},
    }


def summary_of(compared: Comparison, counted: Counted, tolerance: float) -> str:
    """Returns one sentence for people, without control characters."""
    if compared.fault:
        first = f"the small copy did not run: {compared.fault}"
    else:
        word = "equal" if compared.is_equal(tolerance) else "NOT equal"
        first = (f"loss and {compared.parameter_count} gradients of {STEPS} steps on "
                 f"{compared.rank_count} ranks {word} to those of one process, the worst by "
                 f"{max(compared.loss, compared.gradient):.1e}")
    if counted.left_out:
        second = f"the collectives of the whole step were not counted: {counted.left_out}"
    elif counted.fault:
        second = f"the whole step could not be counted: {counted.fault}"
    else:
        wrong = [row for row in counted.rows if not row.is_equal]
        second = f"{counted.calls} collectives of a step of {counted.rank_count} ranks as priced"
        if wrong:
            second = (f"{len(wrong)} of {len(counted.rows)} counts of collectives NOT as priced, "
                      f"first {wrong[0].kind} of ranks {wrong[0].ranks}: {wrong[0].counted} for "
                      f"{wrong[0].priced}")
    text = f"{first}; {second}"
    return "".join(one if one.isprintable() else " " for one in text)[:500]


def versions() -> dict[str, str]:
    """Returns the releases that the check ran with."""
    made = {"python": platform.python_version(), "torch": torch.__version__,
            "parplan": parplan.__version__}
    try:
        made["transformers"] = importlib.metadata.version("transformers")
    except importlib.metadata.PackageNotFoundError:
        # Models of plain modules need none.
        pass
    return made


def envelope_of(plan: Plan, predicate: dict[str, Any], key: SigningKey | None) -> SignedPlan:
    """Returns the statement in an envelope, with no signature if there is no key."""
    statement = {"_type": STATEMENT_TYPE,
                 "subject": [{"name": plan.name, "digest": {"sha256": plan.digest}}],
                 "predicateType": PREDICATE_TYPE, "predicate": predicate}
    unsigned = SignedPlan(json.dumps(statement, allow_nan=False).encode(), PAYLOAD_TYPE, ())
    if key is None:
        return unsigned
    return SignedPlan(unsigned.payload, PAYLOAD_TYPE,
                      (Signature(key.sign(unsigned.signed_bytes()), key.key_id),))


def _policy(plan: Plan) -> dict[str, Any] | None:
    """Returns what selective recomputation computes again, with the contract's names."""
    policy = plan.recompute_policy
    return None if policy is None else dataclasses.asdict(policy)


def _number(value: float) -> float | str:
    """Returns a number of JSON, or the word for one that JSON lacks."""
    return value if math.isfinite(value) else str(value)
