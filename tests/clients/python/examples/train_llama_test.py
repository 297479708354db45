"""The example trains under the files of a plan, as a user starts it."""

import json
import re
import subprocess
import sys
import time

import signed_plans as plans
import torch_jobs as jobs

from parplan.strategy import Recompute, Sharding, Strategy

EXAMPLE = "clients/python/examples/train_llama.py"


def test_a_llama_is_trained_under_a_signed_plan(tmp_path, source):
    # Each rank that torchrun starts imports PyTorch once more; train_loop_test.py has four.
    stages = [[Strategy(1, 2), Strategy(2, 1, sequence_parallel=True),
               Strategy(1, 2, sharding=Sharding.PARAMETERS, recompute=Recompute.FULL),
               Strategy(1, 2)]]
    stages = jobs.stages_here(stages)
    model, topology = jobs.spec_of("llama", 4), plans.topology_of(2)
    now = int(time.time())
    payload = plans.payload_of(model, topology, stages, batch=8, micro_batch_count=2, issued=now)
    files = {"plan": plans.sign(payload.SerializeToString(), plans.FIRST).to_json().encode(),
             "trust": plans.trust(plans.FIRST, at=now), "model": plans.json_text(model),
             "topology": plans.json_text(topology),
             "config": jobs.model_of("llama", 4).config.to_json_string().encode()}
    flags = []
    for name, text in files.items():
        folder = tmp_path / name
        folder.mkdir()
        # transformers reads a configuration by its folder and name.
        (folder / "config.json").write_bytes(text)
        flags += [f"--{name}", str(folder if name == "config" else folder / "config.json")]
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
         source / EXAMPLE, *flags, "--steps", "4", "--checkpoint", tmp_path / "checkpoint"],
        capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    losses = [float(loss) for loss in re.findall(r"step \d loss ([\d.]+)", done.stdout)]
    assert len(losses) == 4 and losses[-1] < losses[0], losses
    assert (tmp_path / "checkpoint" / ".metadata").exists()
    assert json.loads(files["config"])["model_type"] == "llama"
