"""The first steps of a PyTorch user, from a configuration to a trace, as they stand."""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

PROGRAMS = ("planctl", "parplan-server", "parplan-agent", "parplan-agent-probe")


def test_a_configuration_becomes_trained_steps(bin_folder, source, tmp_path):
    missing = [name for name in PROGRAMS if not (bin_folder / name).exists()]
    if missing:
        pytest.skip(f"needs {', '.join(missing)} in --bin")
    environment = {**os.environ, "BUDGET": "5s", "TOKENS": "32", "PATH": os.pathsep.join(
        [str(pathlib.Path(sys.executable).parent), str(bin_folder), os.environ["PATH"]])}
    done = subprocess.run([source / "clients/python/examples/first_steps.sh", tmp_path / "try"],
                          capture_output=True, text=True, timeout=900, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    losses = [float(loss) for loss in re.findall(r"step \d+ loss ([\d.]+)", done.stdout)]
    assert len(losses) == 10 and losses[-1] < losses[0], losses
    assert "passed: loss and" in done.stdout and "valid: clusters/local" in done.stdout
    made = tmp_path / "try"
    assert json.loads((made / "profile.json").read_text())["runtime_id"] == "torch"
    names = {one["name"] for one in json.loads((made / "step.trace.json").read_text())[
        "traceEvents"]}
    assert {"0F0", "0B0", "optimizer", "step"} <= names
    assert (made / "checkpoint" / ".metadata").exists()
