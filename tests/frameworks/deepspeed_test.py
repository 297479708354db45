#!/usr/bin/env python3
"""Gives configurations that planctl exported to DeepSpeed's own DeepSpeedConfig.

usage: deepspeed_test.py --planctl PROGRAM --source FOLDER

Runs in a virtual environment with deepspeed, its dependencies and PyTorch. No process group is
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

    def read(self, exported, devices):
        """Returns the configuration as DeepSpeed reads it on so many ranks."""
        config_module.dist = World(devices)
        stages = exported.get("pipeline", {}).get("stages", 1)
        mpu = Stages(devices // stages) if stages > 1 else None
        return DeepSpeedConfig(json.loads(json.dumps(exported)), mpu)

    def test_reads_the_batch_and_the_degrees_of_the_plan(self):
        seen = set()
        for exported, strategy, variables in self.exports:
            with self.subTest(exported=exported):
                devices = variables["PARPLAN_DEVICE_COUNT"]
                config = self.read(exported, devices)
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
            fields = type(self.read(exported, variables["PARPLAN_DEVICE_COUNT"])
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
                self.read(exported, 2 * variables["PARPLAN_DEVICE_COUNT"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--planctl", required=True)
    parser.add_argument("--source", required=True)
    FLAGS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])
