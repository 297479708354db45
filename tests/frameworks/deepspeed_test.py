#!/usr/bin/env python3
"""Gives configurations that planctl exported to DeepSpeed's own DeepSpeedConfig.

usage: deepspeed_test.py --planctl PROGRAM --source FOLDER --plans FOLDER

The second folder is what exported_plans wrote. Runs in a virtual environment with deepspeed, its dependencies and PyTorch. No process group is
made: the class asks for the size of the world, which is that of the plan.
"""

import argparse
import json
import logging
import pathlib
import subprocess
import sys
import tempfile
import unittest

import deepspeed.runtime.config as config_module
import torch
from deepspeed.runtime.config import DeepSpeedConfig
from deepspeed.utils import logger

from drawn_plans import drawn_plans

FLAGS = None
SPACE = "--space"
# Batch and further flags of each question about llama2-7b on eight devices.
QUESTIONS = [
    ("--batch", "64"),
    ("--batch", "64", SPACE, "all,-zero-3,-pipeline,-ulysses,-tensor"),
    ("--batch", "64", SPACE, "pipeline,uneven-stages,zero-1,recompute-full",
     "--max-pipeline-parallel", "2"),
    ("--batch", "64", SPACE, "zero-2,recompute-full"),
    ("--batch", "4"),
    ("--batch", "2", SPACE, "ulysses,zero-3,recompute-full"),
    ("--batch", "2", SPACE, "tensor,zero-3,recompute-full"),
]


class World:
    """The processes of a job, in place of deepspeed.comm."""

    def __init__(self, size):
        self.size = size

    def get_rank(self):
        return 0

    def get_world_size(self):
        return self.size


class Stages:
    """What PipelineModule.mpu() gives: replicas of a pipeline."""

    def __init__(self, replicas):
        self.replicas = replicas

    def get_data_parallel_world_size(self):
        return self.replicas


def read(exported, devices):
    """Returns the configuration as DeepSpeed reads it on so many ranks."""
    config_module.dist = World(devices)
    stages = exported.get("pipeline", {}).get("stages", 1)
    mpu = Stages(devices // stages) if stages > 1 else None
    return DeepSpeedConfig(json.loads(json.dumps(exported)), mpu)


class DeepSpeedTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        logger.setLevel(logging.ERROR)
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.exports = []
        examples = pathlib.Path(FLAGS.source) / "deploy" / "examples"
        model = examples / "llama2-7b.model.json"
        for number, question in enumerate(QUESTIONS):
            plan = pathlib.Path(folder.name) / f"{number}.json"
            out = plan.with_suffix("")
            cls.planctl("plan", "--offline", "--model", model, "--cluster",
                        examples / "a100-40g-8.cluster.json", "--target", "deepspeed",
                        "--runtime", "deepspeed", "--allow-estimates", *question, "--out", plan)
            cls.planctl("export", plan, "--model", model, "--to", "deepspeed", "--out", out)
            variables = dict(line.split("=") for line in (out / "deepspeed.env").read_text().split())
            strategy = json.loads(plan.read_text())["stages"][0]["layer_runs"][1]["strategy"]
            cls.exports.append((json.loads((out / "ds_config.json").read_text()), strategy,
                                {name: int(value) for name, value in variables.items()}))

    @classmethod
    def planctl(cls, *arguments):
        done = subprocess.run([FLAGS.planctl, *map(str, arguments)], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            raise AssertionError(f"{arguments}: {done.stderr}")

    def test_reads_the_batch_and_the_degrees_of_the_plan(self):
        seen = set()
        for exported, strategy, variables in self.exports:
            with self.subTest(exported=exported):
                devices = variables["PARPLAN_DEVICE_COUNT"]
                config = read(exported, devices)
                self.assertEqual(config.train_micro_batch_size_per_gpu,
                                 variables["PARPLAN_MICRO_BATCH_SIZE_PER_RANK"])
                self.assertEqual(config.gradient_accumulation_steps,
                                 variables["PARPLAN_GRADIENT_ACCUMULATION_STEPS"])
                tensor = strategy.get("tensor_parallel_degree", 1)
                # AutoTP's ranks that share samples are counted as well.
                self.assertEqual(config.train_batch_size,
                                 variables["PARPLAN_GLOBAL_BATCH_SIZE"] * tensor)
                self.assertEqual(max(1, config.tensor_parallel_config.autotp_size), tensor)
                level = strategy.get("sharding_level", "SHARDING_LEVEL_NONE")
                levels = ["NONE", "OPTIMIZER", "GRADIENTS", "PARAMETERS"]
                self.assertEqual(config.zero_config.stage,
                                 levels.index(level.removeprefix("SHARDING_LEVEL_")))
                self.assertTrue(config.bfloat16_config.enabled)
                self.assertEqual(config.communication_data_type, torch.bfloat16)
                self.assertEqual(config.expert_parallel_config.enabled if
                                 config.expert_parallel_config else False, False)
                if "pipeline" in exported:
                    self.assertLess(config.zero_config.stage, 2)
                    self.assertIn(config.pipeline["activation_checkpoint_interval"], (0, 1))
                    self.assertFalse(config.zero_config.overlap_comm)
                elif config.zero_config.stage > 0:
                    self.assertTrue(config.zero_config.overlap_comm)
                seen.add((config.zero_config.stage, "pipeline" in exported, tensor > 1,
                          "sequence_parallel_size" in exported))
        self.assertGreaterEqual(len(seen), 4, seen)

    def test_knows_every_key(self):
        """An unknown key of ZeRO's section is refused; of the others their defaults are the keys."""
        for exported, _, variables in self.exports:
            zero = exported["zero_optimization"]
            model = config_module.get_zero_config({"zero_optimization": zero})
            names = {field.alias or name for name, field in type(model).model_fields.items()}
            self.assertLessEqual(set(zero), names)
            tensor = exported.get("tensor_parallel", {})
            fields = type(read(exported, variables["PARPLAN_DEVICE_COUNT"])
                          .tensor_parallel_config).model_fields
            self.assertLessEqual(set(tensor), set(fields))
            defaults = config_module.get_pipeline_config({})
            self.assertLessEqual(set(exported.get("pipeline", {})), set(defaults))

    def test_refuses_what_was_not_exported(self):
        """The class compares the batch with its world, so a wrong world is noticed."""
        for exported, _, variables in self.exports:
            if "train_batch_size" not in exported:
                continue
            with self.assertRaises(AssertionError):
                read(exported, 2 * variables["PARPLAN_DEVICE_COUNT"])


class RandomPlansTest(unittest.TestCase):
    def test_understands_every_random_plan(self):
        logger.setLevel(logging.ERROR)
        seen, count = set(), 0
        for plan in drawn_plans(FLAGS.plans, "deepspeed"):
            with self.subTest(plan=plan.folder.name):
                exported = json.loads(plan.text("ds_config.json"))
                seen.add(self.compare(exported, read(exported, plan.devices), plan))
                count += 1
        print(f"deepspeed: {count} plans read, {len(seen)} kinds", flush=True)
        self.assertGreaterEqual(len(seen), 12, seen)

    def compare(self, exported, config, plan):
        """Compares what DeepSpeed reads with the plan; returns its axes."""
        layer = plan.decoders()[0]
        # One strategy for all layers, which recompute alike.
        kinds = {(each.tensor, each.data, each.context, each.zero) for each in plan.layers}
        self.assertEqual(len(kinds), 1)
        self.assertEqual(len({each.recompute for each in plan.decoders()}), 1)
        self.assertEqual(config.gradient_accumulation_steps, plan.micro_batches)
        self.assertEqual(config.train_micro_batch_size_per_gpu, plan.micro_batch_per_rank())
        # AutoTP's ranks that share samples are counted as well.
        self.assertEqual(config.train_batch_size, plan.batch * layer.tensor)
        self.assertEqual(config.zero_config.stage, layer.zero)
        self.assertEqual(max(1, config.tensor_parallel_config.autotp_size), layer.tensor)
        # deepspeed.initialize reads these two (deepspeed/__init__.py).
        self.assertEqual(exported.get("sequence_parallel_size", 1), layer.context)
        if layer.context > 1:
            self.assertEqual(exported["data_parallel_size"], layer.data)
            self.assertEqual(layer.context_kind, "ULYSSES")
        experts = config.expert_parallel_config
        spread = experts.autoep_size if experts and experts.enabled else 1
        self.assertEqual(spread, max(each.experts for each in plan.layers))
        self.assertEqual(config.bfloat16_config.enabled, plan.precision == "bf16")
        self.assertEqual(config.float16_config.enabled, plan.precision == "fp16")
        types = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
        self.assertEqual(config.communication_data_type, types[plan.precision])
        recomputes = layer.recompute == "FULL"
        stages = exported.get("pipeline", {}).get("stages", 1)
        self.assertEqual(stages, plan.pipeline)
        if stages > 1:
            self.assertEqual(config.pipeline["stages"], plan.pipeline)
            self.assertEqual(config.pipeline["activation_checkpoint_interval"], int(recomputes))
            # `partition_method="type:..."` of the script gives stages equal numbers of layers.
            counts = plan.stage_layer_counts()
            self.assertEqual(set(counts[1:-1] + [counts[0] - 1, counts[-1] - 1]),
                             {len(plan.decoders()) // stages})
        else:
            checkpoints = config.activation_checkpointing_config.number_checkpoints
            self.assertEqual(checkpoints, len(plan.decoders()) if recomputes else None)
        return (layer.zero, stages > 1, layer.tensor > 1, layer.context > 1, spread > 1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--planctl", required=True)
    parser.add_argument("--source", required=True)
    parser.add_argument("--plans", required=True)
    FLAGS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])
