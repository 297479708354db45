"""Medians that are known well enough."""

import itertools

import pytest

from parplan.torch.measure.devices import Processor
from parplan.torch.measure.steady import Bench, Effort, Spread, measure, slowest, spread_of


def test_median_interval_is_between_order_statistics():
    assert spread_of(range(1, 8)).uncertainty == float("inf")
    known = spread_of(range(1, 101))
    # Ranks 50 -+ 9.8 of 100: the interval from 41 to 60 about 50.5.
    assert (known.median, known.p90) == (50.5, 90)
    assert known.uncertainty == pytest.approx(19 / 2 / 50.5)


def test_repeats_until_the_effort_is_spent():
    clock = itertools.count()
    values = itertools.cycle([1.0, 5.0])
    spread = measure(lambda: [next(values)], Effort(seconds=20), lambda: next(clock))[0]
    assert spread.count == 20 + 1 and spread.uncertainty > 0.02


def test_ends_when_all_medians_are_known():
    clock = itertools.count()
    spreads = measure(lambda: [2.0, 3.0], Effort(seconds=100), lambda: next(clock))
    assert [(one.median, one.count) for one in spreads] == [(2.0, 9), (3.0, 9)]


def test_a_load_comes_first_and_is_not_counted():
    clock = itertools.count()
    values = itertools.count()
    spread = measure(lambda: [float(next(values))], Effort(seconds=8, warm_up_seconds=10),
                     lambda: next(clock))[0]
    # Two repetitions, then nine within the load, whose first second had passed.
    assert spread.median - (spread.count - 1) / 2 == 2 + 9


def test_all_ranks_end_together():
    """A rank goes on while another one is not done."""
    clock = itertools.count()
    asked = itertools.count()
    spread = measure(lambda: [1.0], Effort(seconds=1), lambda: next(clock),
                     lambda is_done: is_done and next(asked) == 5)[0]
    # Known at the ninth, and five more for the other rank.
    assert spread.count == 9 + 5


def test_the_slowest_rank_counts():
    fast, slow = Spread(1.0, 9.0, 10, 0.1), Spread(2.0, 3.0, 20, 0.2)
    assert slowest([fast, slow]) == slow


def test_a_bench_alone_has_its_own_times():
    bench = Bench(Processor(), Effort(seconds=0.01))
    assert bench.measure(lambda: [0.5, 0.25]) == [Spread(0.5, 0.5, 9, 0.0),
                                                   Spread(0.25, 0.25, 9, 0.0)]
