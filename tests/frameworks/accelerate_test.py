#!/usr/bin/env python3
"""Gives variables that planctl exported to Accelerate's own ParallelismConfig and FSDP plugin.

usage: accelerate_test.py --planctl PROGRAM --source FOLDER

Runs in a virtual environment with accelerate, its dependencies and PyTorch.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

from accelerate.parallelism_config import ParallelismConfig
from accelerate.utils import FullyShardedDataParallelPlugin

FLAGS = None
# Batch and further flags of each question about llama2-7b on eight devices.
QUESTIONS = [
    ("--batch", "64"),
    ("--batch", "2"),
    ("--batch", "1", "--space", "context,zero-3,recompute-full"),
    ("--batch", "4", "--space", "tensor,zero-3,recompute-full"),
    ("--batch", "4", "--space", "tensor,context,zero-3,recompute-full",
     "--max-tensor-parallel", "2"),
]
# The order of ranks, slowest first: the innermost is that of plans.
ORDER = ("dp_replicate", "dp_shard", "cp", "tp")


class AccelerateTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def planctl(self, *arguments):
        done = subprocess.run([FLAGS.planctl, *map(str, arguments)], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_reads_the_sizes_and_the_sharding_of_the_plan(self):
        examples = pathlib.Path(FLAGS.source) / "deploy" / "examples"
        model = examples / "llama2-7b.model.json"
        seen = set()
        for number, question in enumerate(QUESTIONS):
            plan, out = self.folder / f"{number}.json", self.folder / str(number)
            self.planctl("plan", "--offline", "--model", model, "--cluster",
                         examples / "a100-40g-8.cluster.json", "--target", "accelerate",
                         "--runtime", "fsdp", "--allow-estimates", *question, "--out", plan)
            self.planctl("export", plan, "--model", model, "--to", "accelerate", "--out", out)
            variables = dict(line.split("=")
                             for line in (out / "accelerate.env").read_text().split())
            strategy = json.loads(plan.read_text())["stages"][0]["layer_runs"][1]["strategy"]
            with self.subTest(variables=variables), mock.patch.dict(os.environ, variables):
                seen.add(self.compare(variables, strategy))
        self.assertGreaterEqual(len(seen), 3, seen)

    def compare(self, variables, strategy):
        """Compares what Accelerate reads with a layer's strategy; returns its axes."""
        config = ParallelismConfig()
        tensor = strategy.get("tensor_parallel_degree", 1)
        context = strategy.get("context_parallel_degree", 1)
        self.assertEqual(config.total_size, int(variables["PARPLAN_DEVICE_COUNT"]))
        self.assertEqual(config.tp_size, tensor)
        self.assertEqual(config.cp_size, context)
        self.assertEqual(config.data_parallel_size, strategy.get("data_parallel_degree", 1))
        mesh = config._get_mesh()
        if mesh:
            self.assertEqual(list(mesh[0]), [name for name in ORDER if name in mesh[0]])
        if context > 1:
            self.assertEqual(config.cp_handler.cp_comm_strategy, "alltoall")
        level = strategy.get("sharding_level", "SHARDING_LEVEL_NONE")
        has_fsdp = variables.get("ACCELERATE_USE_FSDP") == "true"
        self.assertEqual(has_fsdp, level == "SHARDING_LEVEL_PARAMETERS")
        if has_fsdp:
            plugin = FullyShardedDataParallelPlugin()
            self.assertEqual(plugin.fsdp_version, 2)
            self.assertIs(plugin.reshard_after_forward, True)
            self.assertEqual(plugin.activation_checkpointing,
                             strategy.get("recompute_level") == "RECOMPUTE_LEVEL_FULL")
            # Either makes the joint axis over which parameters are sharded.
            self.assertTrue(config.dp_shard_enabled or config.cp_enabled)
        return (level, tensor > 1, context > 1)

    def test_refuses_sizes_that_the_exporter_never_writes(self):
        sizes = {"PARALLELISM_CONFIG_DP_REPLICATE_SIZE": "4", "PARALLELISM_CONFIG_TP_SIZE": "2"}
        with mock.patch.dict(os.environ, sizes), self.assertRaises(ValueError):
            ParallelismConfig()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--planctl", required=True)
    parser.add_argument("--source", required=True)
    FLAGS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])
