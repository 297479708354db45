"""Overlap of products and all-reduces on a device whose times are made up."""

import pytest
import torch

from parplan.torch.measure import overlap
from parplan.torch.measure.devices import Processor
from parplan.torch.measure.overlap import OverlapTimes, measure_overlap
from parplan.torch.measure.steady import Bench, Effort


class Machine(Processor):
    """Products take a second each, an all-reduce three; beside each other each runs at `speed`."""

    product_side, reduced_bytes = 4, 256

    def __init__(self, speed):
        super().__init__()
        self.speed, self.now, self.sent = speed, 0.0, 0.0

    def time(self, work):
        begin = self.now
        work()
        return self.now - begin

    def multiply(self, count):
        left = float(count)
        beside = min(left / self.speed, self.sent / self.speed) if self.sent else 0.0
        self.sent -= beside * self.speed
        self.now += beside + left - beside * self.speed

    def reduce(self, buffer):
        assert buffer.numel() * buffer.element_size() == self.reduced_bytes
        self.sent += 3.0
        machine = self

        class Pending:
            def wait(self):
                machine.now += machine.sent
                machine.sent = 0.0

        return Pending()


@pytest.mark.parametrize("speed, together, slowdown", [
    (1.0, 3.0, 1.0),  # Neither notices the other.
    (0.5, 6.0, 2.0),  # One after the other.
    (0.75, 4.0, 4.0 / 3.0)])
def test_slowdown_of_a_machine(monkeypatch, speed, together, slowdown):
    machine = Machine(speed)
    monkeypatch.setattr(overlap._Run, "_multiply", lambda _, count: machine.multiply(count))
    times = measure_overlap(Bench(machine, Effort(seconds=1e-4)), torch.float32, machine.reduce)
    # As many products as take as long as an all-reduce.
    assert (times.compute, times.communication) == (3.0, 3.0)
    assert times.together == pytest.approx(together)
    assert times.slowdown == pytest.approx(slowdown)
    assert times.compute_beside == pytest.approx(3.0 / speed)


def test_slowdown_by_hand():
    # max(2, 1) + (k - 1) min(2, 1) = 2.25
    assert OverlapTimes(2.0, 1.0, 2.25, 2.2).slowdown == 1.25
    # Faster together than alone is noise.
    assert OverlapTimes(2.0, 1.0, 1.9, 2.0).slowdown == 1.0
