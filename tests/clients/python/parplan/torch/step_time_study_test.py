"""What the studies say of their rows, and of the machine. No times are measured."""

import pathlib
import sys

import machine_use
import pytest

sys.path.append(str(pathlib.Path(__file__).parent))

import step_time_study as study

BEFORE = machine_use.Reading(clock=10.0, process=3.0, busy=20.0, total=40.0)


def after(seconds, process, busy, total=None):
    return machine_use.Reading(BEFORE.clock + seconds, BEFORE.process + process,
                               BEFORE.busy + busy,
                               BEFORE.total + (2 * seconds if total is None else total))


def test_others_have_what_no_rank_used():
    # Two ranks on two processors: 4 s of processors, of which 3.4 were busy.
    uses = [(BEFORE, after(2.0, 1.5, 3.4)), (BEFORE, after(2.0, 1.7, 3.4))]
    assert machine_use.share_of_others(uses) == pytest.approx(0.2 / 4.0)
    assert machine_use.mark(0.2) == "others 20 % BUSY"
    assert not machine_use.is_busy(machine_use.BUSY_RATIO)


def test_no_share_is_told_without_counters_or_time():
    whole = (BEFORE, after(2.0, 1.5, 1.5))
    assert machine_use.share_of_others([whole]) == 0.0
    for broken in ((BEFORE, None), (BEFORE, after(0.5, 0.1, 0.1)),
                   (BEFORE, after(2.0, 1.0, 1.0, total=0.1))):
        assert machine_use.share_of_others([whole, broken]) is None
    assert machine_use.share_of_others([]) is None
    assert not machine_use.is_busy(None)


def test_counters_are_those_of_the_processors():
    stat = ("cpu  1 1 1 1 1 1 1 1 0 0\ncpu0 100 200 300 5000 600 10 20 30 9 9\n"
            "cpu1 1000 0 0 0 0 0 0 0 0 0\n")
    found = machine_use.read([0], stat)
    tick = found.busy / (100 + 200 + 300 + 10 + 20 + 30)
    assert found.total == pytest.approx(tick * (660 + 5600))
    assert machine_use.read([0, 7], stat) is None


def test_plans_of_a_busy_machine_are_measured_again():
    shares = {"quiet": [0.01], "once": [0.3, 0.02], "always": [0.3, 0.2, 0.4], "unknown": [None]}
    calls = []

    def measure(items):
        calls.append(list(items))
        return [{"others": shares[one].pop(0), "item": one} for one in items]

    found = study.least_busy(measure, list(shares), 3)
    assert calls == [["quiet", "once", "always", "unknown"], ["once", "always"], ["always"]]
    assert [one["others"] for one in found] == [0.01, 0.02, 0.2, None]
    assert [one["item"] for one in found] == ["quiet", "once", "always", "unknown"]


def test_figures_of_rows():
    rows = [{"predicted": 1.0, "measured": 1.1}, {"predicted": 2.0, "measured": 1.0},
            {"predicted": 3.0, "measured": 3.0}]
    found = study.summary(rows)
    assert found["median"] == pytest.approx(1 - 1 / 1.1)
    assert found["worst"] == pytest.approx(1.0)
    # The first is chosen, the second was best.
    assert found["best_behind"] == pytest.approx(0.1)
    assert found["rank_correlation"] == pytest.approx(0.5)
    assert study.ranks_of([5, 1, 5]) == [1.5, 0, 1.5]
    whole = study.joined(rows, [found, {**found, "best_behind": 0.3, "rank_correlation": 0.9}])
    assert (whole["best_behind"], whole["rank_correlation"]) == (0.3, pytest.approx(0.5))


def test_turns_are_joined_by_their_medians():
    def turn(predicted, seconds, others):
        return {"prediction": {"step_seconds": predicted, "stages": [predicted]},
                "steps": [(one, 0.1 * one) for one in seconds], "others": others}

    row = study.joined_turns([turn(1.0, [1.0, 1.1, 1.2], 0.02), turn(3.0, [2.0, 2.0, 2.4], None),
                              turn(1.4, [1.5, 1.6, 1.6], 0.04)])
    # Each turn counts by the median of its steps.
    assert (row["predicted"], row["measured"]) == (1.4, 1.6)
    assert row["spread"] == pytest.approx(0.2)
    assert row["turns_spread"] == pytest.approx(2.0 / 1.1 - 1)
    assert row["waited"] == pytest.approx(0.1)
    assert (row["others"], row["stages"]) == (0.04, [1.4])
    assert [one["measured"] for one in row["turns"]] == [1.1, 2.0, 1.6]


def test_steps_count_in_which_threads_had_their_processors():
    disturbed, quiet = (0.9, 0.3), (0.5, 0.001)
    assert study.undisturbed([disturbed, quiet, (0.6, 0.03)], 2) == [quiet, (0.6, 0.03)]
    assert not study.is_enough([quiet] * 2, 2, 5.0)
    assert study.is_enough([quiet] * 4, 2, 5.0)
    assert not study.is_enough([disturbed] * 4, 2, 5.0)
    assert study.is_enough([*[disturbed] * 4, quiet, quiet], 2, 5.0)
    assert study.is_enough([disturbed] * 6, 2, 5.0)
    assert not study.is_enough([(6.0, 3.0)], 2, 5.0)


def test_waiting_is_counted(monkeypatch, tmp_path):
    for thread, text in (("1", "5 2000000000 1"), ("2", "5 500000000 1"), ("3", "")):
        (tmp_path / thread).mkdir()
        (tmp_path / thread / "schedstat").write_text(text)
    monkeypatch.setattr(machine_use, "_THREADS", tmp_path)
    assert machine_use.waited() == pytest.approx(2.5)
    monkeypatch.setattr(machine_use, "_THREADS", tmp_path / "none")
    assert machine_use.waited() == 0.0
