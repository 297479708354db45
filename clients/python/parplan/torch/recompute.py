"""Selective recomputation by operator: what a plan's `RecomputePolicy` with the option `op` keeps
of a layer, and computes again before the backward pass. torchtitan calls it so
(`selective_ac_option`)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import torch
from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

from parplan.errors import field_error
from parplan.strategy import RecomputePolicy

# torchtitan's, and processors' fused attention; as proto/wire/plan_wire.cc has it.
OPERATORS = RecomputePolicy(
    "op", ("aten.mm.default", "aten._scaled_dot_product_efficient_attention.default",
           "aten._scaled_dot_product_flash_attention.default",
           "aten._scaled_dot_product_cudnn_attention.default",
           "aten._scaled_dot_product_flash_attention_for_cpu.default", "aten.max.default",
           "_c10d_functional.reduce_scatter_tensor.default"), 2)
_KNOWN = ("attention", "op")

MakeContexts = Callable[[], Any]


def check_policy(policy: RecomputePolicy) -> None:
    """Raises SpecInvalid for a policy that this release cannot run."""
    if policy.selective_ac_option not in _KNOWN:
        raise field_error("SPEC_INVALID", "recompute_policy.selective_ac_option",
                          f"{policy.selective_ac_option} is not known to this release, which knows "
                          f"{' and '.join(_KNOWN)}; upgrade parplan")
    for name in policy.saved_operators:
        parts = name.split(".")
        if len(parts) != 3 or not all(parts):
            raise field_error("SPEC_INVALID", "recompute_policy.saved_operators",
                              f"{name} is no name of an operator, such as aten.mm.default")


def contexts_of(policy: RecomputePolicy) -> MakeContexts:
    """Returns the `context_fn` of torch.utils.checkpoint for a policy with the option `op`. Each
    call of it counts products anew, so it is called once for each pass over a layer."""
    kept = {operator for name in policy.saved_operators
            if (operator := _operator(name)) is not None}
    product, interval = torch.ops.aten.mm.default, policy.recomputed_product_interval
    create: Any = create_selective_checkpoint_contexts

    def make() -> Any:
        counts: dict[bool, int] = defaultdict(int)

        def choose(context: Any, operator: Any, *_: Any, **__: Any) -> CheckpointPolicy:
            if operator == product:
                counts[context.is_recompute] += 1
                if interval > 0 and counts[context.is_recompute] % interval == 0:
                    return CheckpointPolicy.PREFER_RECOMPUTE
            if operator in kept:
                return CheckpointPolicy.MUST_SAVE
            return CheckpointPolicy.PREFER_RECOMPUTE

        return create(choose)

    return make


def _operator(name: str) -> Any:
    """Returns an operator by its name, or None if this release of PyTorch has none."""
    found: Any = torch.ops
    for part in name.split("."):
        found = getattr(found, part, None)
        if found is None:
            return None
    return found
