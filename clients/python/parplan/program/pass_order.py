"""The order of the forward and backward passes of one device in a step."""

from __future__ import annotations

import dataclasses
import enum

from parplan.strategy import Schedule


class PassKind(enum.Enum):
    """The work of a pass, by the letter that torch.distributed.pipelining has for it."""
    FORWARD = "F"
    BACKWARD = "B"
    # The two parts of a backward pass: gradients of inputs, and those of weights.
    BACKWARD_INPUTS = "I"
    BACKWARD_WEIGHTS = "W"


@dataclasses.dataclass(frozen=True)
class Pass:
    """One pass of a micro-batch over the layers of a stage."""
    stage_index: int
    micro_batch: int
    kind: PassKind

    @property
    def is_backward(self) -> bool:
        """Whether it is a backward pass or a part of one."""
        return self.kind != PassKind.FORWARD


def pass_order(schedule: Schedule, pipeline_parallel_degree: int, virtual_stage_count: int,
               micro_batch_count: int, device: int) -> list[Pass]:
    """Returns the passes of the device at place `device` of the pipeline, from 0, in order.

    Interleaved, micro-batches come in groups of as many as the pipeline has devices. Under ZB-H1
    gradients of weights follow those of inputs as many backward passes later as there are devices
    in front, and the last of them end the step."""
    devices, chunks, count = pipeline_parallel_degree, virtual_stage_count, micro_batch_count
    splits = schedule == Schedule.ZERO_BUBBLE
    parts = ([PassKind.BACKWARD_INPUTS, PassKind.BACKWARD_WEIGHTS] if splits
             else [PassKind.BACKWARD])
    if devices == 1:
        # A single device takes each micro-batch through all stages and back.
        forward = [(stage, PassKind.FORWARD) for stage in range(chunks)]
        backward = [(stage, kind) for stage in reversed(range(chunks)) for kind in parts]
        return [Pass(stage, micro_batch, kind) for micro_batch in range(count)
                for stage, kind in forward + backward]
    # Micro-batches that go through one virtual stage before the next takes its turn.
    group = devices if schedule == Schedule.INTERLEAVED and chunks > 1 else 1
    round_size = group * chunks
    positions = -(-count // group) * group * chunks
    behind = devices - 1 - device
    if schedule == Schedule.GPIPE:
        warm_up = positions
    elif group == 1:
        warm_up = min(behind, positions)
    else:
        warm_up = min(2 * behind + (chunks - 1) * devices, positions)

    def at(position: int, is_backward: bool) -> list[Pass]:
        micro_batch = position // round_size * group + position % group
        chunk = position % round_size // group
        if is_backward:
            chunk = chunks - 1 - chunk
        # The last group may be incomplete.
        kind = parts[0] if is_backward else PassKind.FORWARD
        return [Pass(chunk * devices + device, micro_batch, kind)] if micro_batch < count else []

    passes = []
    for position in range(positions + warm_up):
        if position < positions:
            passes += at(position, False)
        if position >= warm_up:
            passes += at(position - warm_up, True)
            if splits:
                done = position - warm_up + 1
                due = range(max(done - 1 - device, 0), count if done == count else done - device)
                passes += [Pass(device, one, PassKind.BACKWARD_WEIGHTS) for one in due]
    return passes
