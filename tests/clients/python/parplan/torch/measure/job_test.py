"""Ranks that measure together."""

import measured_models
import pytest

from parplan.errors import SpecInvalid
from parplan.torch.measure.job import Job, run_job


def test_ranks_tell_each_other_what_they_measured():
    gathered, largest, some, all_of_them, threads, count = run_job(
        2, measured_models.gather_ranks, None, threads=1)
    assert gathered == [[0, 0], [1, 10]]
    assert largest == [1, 0]
    assert (some, all_of_them, threads, count) == (False, True, 1, 2)


def test_a_rank_alone_sends_nothing():
    job = Job()
    assert job.gather([3.0]) == [[3.0]] and job.largest([3.0]) == [3.0]
    assert job.agree(True) and not job.agree(False)


def test_the_error_of_a_rank_is_that_of_the_job():
    with pytest.raises(SpecInvalid, match="layer 3: is wrong") as caught:
        run_job(2, measured_models.fail_on_second, None)
    assert caught.value.metadata == {"field": "layer 3"}
