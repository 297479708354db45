"""The loop trains, reports, and goes on under another plan where it was stopped."""

import json
import os
import re
import runpy
import sys
import tempfile
import time

import pytest
import signed_plans as plans
import torch
import torch.distributed as dist
import torch_jobs as jobs
from executions import Executions

from parplan.strategy import Recompute, Sharding, Strategy
from parplan.torch.processes import start_ranks

EXAMPLE = "clients/python/examples/train_loop.py"
RANKS = 4
FIRST = [[Strategy(1, 2, sharding=Sharding.OPTIMIZER), Strategy(2, 1, sequence_parallel=True)],
         [Strategy(1, 2, sharding=Sharding.PARAMETERS, recompute=Recompute.FULL), Strategy(2, 1)]]
SECOND = [[Strategy(1, 4, sharding=Sharding.PARAMETERS), Strategy(1, 2, context_parallel_degree=2),
           Strategy(2, 2, recompute=Recompute.SELECTIVE), Strategy(1, 4)]]


def write(folder, stages, model):
    topology, now = plans.topology_of(4), int(time.time())
    payload = plans.payload_of(model, topology, jobs.stages_here(stages), batch=8,
                               micro_batch_count=2, issued=now)
    files = {"plan": plans.sign(payload.SerializeToString(), plans.FIRST).to_json().encode(),
             "trust": plans.trust(plans.FIRST, at=now), "model": plans.json_text(model),
             "topology": plans.json_text(topology)}
    folder.mkdir()
    flags = []
    for name, text in files.items():
        (folder / name).write_bytes(text)
        flags += [f"--{name}", str(folder / name)]
    return flags


def run_example(rank, port, arguments):
    """Is what torchrun starts, in a process that need not import PyTorch once more;
    train_llama_test.py has torchrun itself."""
    torch.set_num_threads(1)
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(RANKS),
                      MASTER_ADDR="localhost", MASTER_PORT=str(port),
                      TORCHELASTIC_USE_AGENT_STORE="True", TORCHELASTIC_RESTART_COUNT="0")
    sys.argv = list(arguments)
    runpy.run_path(arguments[0], run_name="__main__")


def losses(capfd, source, flags, *more):
    # torchrun serves such a store too; the port is one that is free.
    store = dist.TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
    capfd.readouterr()
    start_ranks(run_example, (store.port, tuple(map(str, (
        source / EXAMPLE, *flags, "--steps", 8, "--warm-up", 2, "--checkpoint-every", 4,
        "--precision", "fp32", *more)))), RANKS)
    return [float(loss) for loss in re.findall(r"step \d+ loss ([\d.]+)", capfd.readouterr().out)]


def test_a_loop_goes_on_under_another_plan_and_reports(tmp_path, source, capfd):
    # Rotation turns pairs of numbers of a head.
    model = plans.model_of(4, feed_forward_size=96, feed_forward_kind="FEED_FORWARD_KIND_SWIGLU")
    first, second = (write(tmp_path / name, stages, model)
                     for name, stages in (("first", FIRST), ("second", SECOND)))
    folder = tmp_path / "checkpoints"
    with tempfile.TemporaryDirectory(dir="/tmp") as place, Executions(f"unix:{place}/s") as server:
        whole = losses(capfd, source, first, "--folder", folder, "--report-to", f"unix:{place}/s")
    assert len(whole) == 8 and whole[-1] < whole[0], whole
    assert (len(server.windows), server.ended) == (4, [""])
    assert json.loads((tmp_path / "first" / "plan").read_text())["payloadType"]
    # The second half once more, from the checkpoint in the middle.
    for one in (folder / "step-8").iterdir():
        one.unlink()
    again = losses(capfd, source, second, "--folder", folder)
    assert again == pytest.approx(whole[4:], abs=2e-4)
