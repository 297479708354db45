#!/usr/bin/python3
"""A Slurm job trains with torchrun by the files that the prolog left on its nodes.

usage: slurm_torch_test.py --planctl P --server-binary S --plugin SO --source FOLDER --python PYTHON

Slurm runs on this machine (tests/clients/slurm). PYTHON has torch; its processes run on processors
over gloo. Exit code 77 where there can be no Slurm.
"""
import json
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "clients" / "slurm"))
from slurm_case import WORLD, SlurmTest  # noqa: E402
from slurm_site import model  # noqa: E402
from slurm_test import path_parser, run_on_site  # noqa: E402

NODES, DEVICES_PER_NODE = 2, 2
LARGEST_DIFFERENCE = 1e-4
# What torch_pipelining_run.py has code for.
SPACE = "pipeline,uneven-stages,recompute-full,gpipe,interleaved"
# A launcher on each node, as docs/slurm.md has it.
SCRIPT = """srun --ntasks-per-node=1 sh -c 'exec "$0" -m torch.distributed.run \\
  --nnodes "$PARPLAN_NODE_COUNT" --node-rank "$PARPLAN_NODE_RANK" \\
  --nproc-per-node "$PARPLAN_NODE_DEVICE_COUNT" \\
  --master-addr "$MASTER_ADDR" --master-port "$MASTER_PORT" \\
  "$1" "$PARPLAN_EXPORT_TORCH_PIPELINING"' '{python}' '{program}'
cp -r "$PARPLAN_EXPORT_TORCH_PIPELINING" "$SLURM_JOB_ID.files"
"""


class Torchrun(SlurmTest):
    def test_the_gradients_of_a_planned_pipeline_are_those_of_one_process(self):
        # Four layers of 29 GB with their optimizer fit on a device and five do not, so the nine
        # layers need more than two stages.
        path = WORLD.site.folder / "large.json"
        path.write_text(json.dumps(model(decoders=9, hidden=12288, heads=96)))
        program = ROOT / "tests" / "frameworks" / "torch_pipelining_run.py"
        job = self.slurm.submit(
            SCRIPT.format(python=WORLD.flags.python, program=program), f"--nodes={NODES}",
            "--ntasks-per-node=1", f"--gpus-per-node=h200:{DEVICES_PER_NODE}",
            f"--plan-model={path}", "--plan-batch=16", f"--plan-space={SPACE}",
            "--plan-export=torch-pipelining", OMP_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo")
        self.expect_end(job, "COMPLETED")
        stages = json.loads((self.out / f"{job}.files" / "stages.json").read_text())
        ran = json.loads(next(line for line in self.slurm.output(job).splitlines()
                              if line.startswith("{")))
        self.assertEqual((ran["ranks"], ran["wrong"]), (NODES * DEVICES_PER_NODE, 0))
        self.assertEqual(ran["stages"], len(stages["stages"]))
        self.assertGreater(stages["pipeline"]["degree"], 2)
        # A parameter of the embedding, two each of norm and head, six of each block.
        self.assertEqual(ran["compared"], 5 + 9 * 6)
        self.assertLessEqual(ran["largest_difference"], LARGEST_DIFFERENCE)
        WORLD.figures.append(
            f"torchrun on {NODES} nodes by stages.json and schedule.csv of the prolog: "
            f"{ran['ranks']} ranks, {ran['stages']} stages, {ran['compared']} gradients, largest "
            f"difference from one process {ran['largest_difference']:.1e}")


def main():
    parser = path_parser("planctl", "server-binary", "plugin", "source")
    # A link in a virtual environment is not followed.
    parser.add_argument("--python", type=lambda path: pathlib.Path(path).absolute(), required=True)
    flags = parser.parse_args()
    run_on_site(flags, lambda: unittest.TestLoader().loadTestsFromTestCase(Torchrun))


if __name__ == "__main__":
    main()
