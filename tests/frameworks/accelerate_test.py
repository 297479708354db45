#!/usr/bin/env python3
"""Gives variables that planctl exported to Accelerate's own ParallelismConfig and FSDP plugin.

usage: accelerate_test.py --planctl PROGRAM --source FOLDER --plans FOLDER

The second folder is what exported_plans wrote. Runs in a virtual environment with accelerate, its dependencies and PyTorch.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import types
import unittest
from unittest import mock

import torch

from accelerate.parallelism_config import ParallelismConfig
from accelerate.utils import DistributedType, FullyShardedDataParallelPlugin

from drawn_plans import drawn_plans, layer_of

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
# Types of passes by the names of precisions.
TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
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
                         "--allow-estimates", *question, "--out", plan)
            self.planctl("export", plan, "--model", model, "--to", "accelerate", "--out", out)
            variables = dict(line.split("=")
                             for line in (out / "accelerate.env").read_text().split())
            layer = layer_of(0, json.loads(plan.read_text())["stages"][0]["layer_runs"][1])
            with self.subTest(variables=variables), mock.patch.dict(os.environ, variables):
                seen.add(self.compare(variables, layer))
        self.assertGreaterEqual(len(seen), 3, seen)

    def test_understands_every_random_plan(self):
        seen, read = set(), 0
        for plan in drawn_plans(FLAGS.plans, "accelerate"):
            variables = plan.variables("accelerate.env")
            with self.subTest(plan=plan.folder.name), mock.patch.dict(os.environ, variables):
                # One strategy for all layers, which recompute alike.
                kinds = {(layer.tensor, layer.data, layer.context, layer.zero)
                         for layer in plan.layers}
                self.assertEqual(len(kinds), 1)
                self.assertEqual(len({layer.recompute for layer in plan.decoders()}), 1)
                seen.add(self.compare(variables, plan.decoders()[0], plan.precision))
                self.assertEqual(int(variables["ACCELERATE_GRADIENT_ACCUMULATION_STEPS"]),
                                 plan.micro_batches)
                # Its data loader makes a batch for each replica.
                self.assertEqual(int(variables["PARPLAN_MICRO_BATCH_SIZE_PER_RANK"]) *
                                 ParallelismConfig().data_parallel_size * plan.micro_batches,
                                 plan.batch)
                read += 1
        print(f"accelerate: {read} plans read, {len(seen)} kinds", flush=True)
        self.assertGreaterEqual(len(seen), 8, seen)

    def compare(self, variables, layer, precision="bf16"):
        """Compares what Accelerate reads with a layer's strategy; returns its axes."""
        config = ParallelismConfig()
        self.assertEqual(config.total_size, int(variables["PARPLAN_DEVICE_COUNT"]))
        self.assertEqual(config.tp_size, layer.tensor)
        self.assertEqual(config.cp_size, layer.context)
        self.assertEqual(config.data_parallel_size, layer.data)
        mesh = config._get_mesh()
        if mesh:
            self.assertEqual(list(mesh[0]), [name for name in ORDER if name in mesh[0]])
        if layer.context > 1:
            self.assertEqual(config.cp_handler.cp_comm_strategy, "alltoall")
        has_fsdp = variables.get("ACCELERATE_USE_FSDP") == "true"
        self.assertEqual(has_fsdp, layer.zero > 0)
        # What the class compares with the processes that were started.
        config._validate_accelerator(types.SimpleNamespace(
            multi_device=config.total_size > 1 and not has_fsdp, is_fsdp2=has_fsdp,
            num_processes=int(variables["PARPLAN_DEVICE_COUNT"]), is_main_process=False,
            distributed_type=DistributedType.FSDP if has_fsdp else DistributedType.MULTI_CPU))
        if has_fsdp:
            plugin = FullyShardedDataParallelPlugin()
            self.assertEqual(plugin.fsdp_version, 2)
            self.assertIs(plugin.reshard_after_forward, layer.zero == 3)
            self.assertEqual(plugin.activation_checkpointing, layer.recompute == "FULL")
            # As the Accelerator does with this variable.
            if variables["ACCELERATE_MIXED_PRECISION"] != "no":
                plugin.set_mixed_precision(variables["ACCELERATE_MIXED_PRECISION"])
            policy = plugin.mixed_precision_policy
            self.assertEqual(policy.param_dtype if policy else None, TYPES.get(precision))
            # Either makes the joint axis over which parameters are sharded.
            self.assertTrue(config.dp_shard_enabled or config.cp_enabled)
        else:
            self.assertEqual(variables["PARPLAN_RECOMPUTE"],
                             "full" if layer.recompute == "FULL" else "none")
        return (layer.zero, layer.tensor > 1, layer.context > 1)

    def test_refuses_sizes_that_the_exporter_never_writes(self):
        sizes = {"PARALLELISM_CONFIG_DP_REPLICATE_SIZE": "4", "PARALLELISM_CONFIG_TP_SIZE": "2"}
        with mock.patch.dict(os.environ, sizes), self.assertRaises(ValueError):
            ParallelismConfig()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--planctl", required=True)
    parser.add_argument("--source", required=True)
    parser.add_argument("--plans", required=True)
    FLAGS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])
