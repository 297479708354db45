"""The order of the forward and backward passes of one device in a step."""

from __future__ import annotations

import dataclasses

from parplan.strategy import Schedule


@dataclasses.dataclass(frozen=True)
class Pass:
    """One pass of a micro-batch over the layers of a stage."""
    stage_index: int
    micro_batch: int
    is_backward: bool


def pass_order(schedule: Schedule, pipeline_parallel_degree: int, virtual_stage_count: int,
               micro_batch_count: int, device: int) -> list[Pass]:
    """Returns the passes of the device at place `device` of the pipeline, from 0, in order.

    Interleaved, micro-batches come in groups of as many as the pipeline has devices."""
    devices, chunks, count = pipeline_parallel_degree, virtual_stage_count, micro_batch_count
    if devices == 1:
        # A single device takes each micro-batch through all stages and back.
        forward = [(stage, False) for stage in range(chunks)]
        backward = [(stage, True) for stage in reversed(range(chunks))]
        return [Pass(stage, micro_batch, is_backward) for micro_batch in range(count)
                for stage, is_backward in forward + backward]
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
        return ([Pass(chunk * devices + device, micro_batch, is_backward)]
                if micro_batch < count else [])

    passes = []
    for position in range(positions + warm_up):
        if position < positions:
            passes += at(position, False)
        if position >= warm_up:
            passes += at(position - warm_up, True)
    return passes
