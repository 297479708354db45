"""What the benchmark takes for a step that is too slow. No times are measured."""

import pathlib
import sys

import pytest

sys.path.append(str(pathlib.Path(__file__).parent))

import overhead_benchmark as benchmark


def times(elapsed, processor):
    """Returns what forty pairs give, whose steps by hand take a second; `elapsed` has the times of
    ours, which take turns."""
    return {"elapsed": benchmark.compared([(elapsed[one % len(elapsed)], 1.0)
                                           for one in range(40)]),
            "processor": benchmark.compared([(processor, 1.0)] * 40)}


@pytest.mark.parametrize(("elapsed", "processor", "slow"), [
    ((1.0,), 1.0, []),
    ((1.0,), 1.1, ["split processor"]),
    # Ranks wait, and burn no processor time.
    ((1.1,), 1.0, ["split elapsed"]),
    ((1.1,), 1.1, ["split processor", "split elapsed"]),
    # Other programs lengthen steps, not only ours.
    ((0.8, 1.4), 1.0, [])])
def test_waiting_counts_as_processor_time_does(elapsed, processor, slow):
    found = {"sharded": times((1.0,), 1.0), "split": times(elapsed, processor)}
    assert benchmark.too_slow(found, 1.03) == slow
