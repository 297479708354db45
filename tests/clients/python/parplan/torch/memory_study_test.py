"""Predicted memory of some plans beside what MemTracker counts. The study has all of them, for three
models (./parplan-dev torch-test --study memory); memory depends on no machine."""

import argparse
import pathlib
import sys

import pytest
import torch_jobs as jobs

sys.path.append(str(pathlib.Path(__file__).parent))

import memory_study as study

PLANS = ("dp2 optimizer x1", "dp2 parameters recompute x2", "pp2 interleaved x4",
         "dp2 parameters, then tp2 x2")


@pytest.mark.skipif(not jobs.SHARDS_HERE, reason="plans of the study have sharded layers")
def test_steps_take_the_memory_that_is_predicted(bin_folder, tmp_path):
    if not (bin_folder / "planctl").exists():
        pytest.skip("needs planctl in --bin")
    rows = study.study_model("plain", argparse.Namespace(
        planctl=bin_folder / "planctl", plan=PLANS, seconds=0.05, profiles=None), tmp_path)
    assert [row["plan"] for row in rows] == list(PLANS)
    for row in rows:
        assert row["parameters"]["error"] == 0, row
        assert abs(row["kept"]["error"]) <= 0.01, row
        assert abs(row["peak"]["error"]) <= 0.05, row
