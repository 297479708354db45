"""`parplan-agent --runtime torch` with PyTorch itself; tests/integration/agent_test.py has a program
in its place."""

import json
import os
import pathlib
import subprocess
import sys

import pytest
from measured_models import SPEC, TOKENS

PROGRAM = pathlib.Path(sys.executable).with_name("parplan-torch")


@pytest.fixture
def agent(bin_folder, tmp_path):
    """Returns a function that measures once with the agent."""
    if not (bin_folder / "parplan-agent").exists():
        pytest.skip("needs parplan-agent in --bin")
    (tmp_path / "model.json").write_text(json.dumps(SPEC))

    def run(*flags, **environment):
        tests = pathlib.Path(__file__).resolve().parents[2]
        return subprocess.run(
            [bin_folder / "parplan-agent", "--once", "--ranks", "2", "--even-if-busy", "--budget",
             "5s", "--micro-batches", "1", "--max-message-bytes", "4096", "--out",
             tmp_path / "profile.json", "--model", tmp_path / "model.json", "--runtime", "torch",
             "--torch-model", "measured_models:toy", "--torch-program", PROGRAM, *flags],
            capture_output=True, text=True, timeout=600,
            env={**os.environ, "PYTHONPATH": str(tests), **environment})

    return run


def test_measures_modules_of_pytorch(agent, tmp_path):
    import torch
    done = agent()
    assert done.returncode == 0, done.stderr
    profile = json.loads((tmp_path / "profile.json").read_text())
    assert (profile["runtime_id"], profile["devices_per_node"]) == ("torch", 2)
    assert profile["provenance"]["agent"].startswith("parplan-agent ")
    assert {"library": "torch", "version": torch.__version__} in profile["provenance"][
        "library_versions"]
    assert {one["layer_definition_id"] for one in profile["layer_timings"]} == {
        "embedding", "block", "head"}
    assert {one["message_size_bytes"] for one in profile["collective_timings"]} == {"4096"}
    assert profile["layer_definitions"][0]["sequence_length"] == TOKENS


def test_what_cannot_be_measured_is_said_by_name(agent):
    done = agent("--torch-argument=--layers=nothing.*")
    assert done.returncode == 1
    assert "no module has a name like nothing.*" in done.stderr
    assert "Traceback" not in done.stderr
