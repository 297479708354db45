#!/usr/bin/env python3
"""Runs exported schedules with PyTorch, and gives exported modules to torchtitan's dataclasses.

usage: torch_test.py --planctl PROGRAM --source FOLDER

Python must have torch; the tests of torchtitan are skipped without its packages. Four processes
train by `torch_pipelining_run.py`, which also runs alone in a job.
"""

import argparse
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

FLAGS = None
RANKS = 4
MODEL = {"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 9,
         "num_attention_heads": 4, "num_key_value_heads": 4, "intermediate_size": 128,
         "vocab_size": 128, "max_position_embeddings": 64, "tie_word_embeddings": False,
         "hidden_act": "silu"}
CLUSTER = {"cluster": "four", "node_groups": [
    {"node_group_id": "nodes", "device_kind": "NVIDIA A100-SXM4-40GB", "node_count": 1,
     "devices_per_node": RANKS, "device_memory_bytes": str(40 << 30)}],
    "link_tiers": [{"tier_id": "node", "reach_device_count": RANKS}]}
ONE_STAGE = "SCHEDULE_ONE_FORWARD_ONE_BACKWARD"
SPACE = "all,-recompute-selective,-context,-ulysses"


def has(module):
    return importlib.util.find_spec(module) is not None


class Exports(unittest.TestCase):
    MODEL, LAYERS = MODEL, MODEL["num_hidden_layers"]

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.model = self.folder / "tiny.model.json"
        self.cluster = self.folder / "four.cluster.json"
        (self.folder / "config.json").write_text(json.dumps(self.MODEL))
        self.cluster.write_text(json.dumps(CLUSTER))
        self.planctl("import", "hf", self.folder / "config.json", "--sequence-length", "64",
                     "--out", self.model)

    def planctl(self, *arguments):
        done = subprocess.run([FLAGS.planctl, *map(str, arguments)], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def plan(self, *question):
        """Returns the path of an unsigned plan."""
        path = self.folder / "plan.json"
        self.planctl("plan", "--offline", "--model", self.model, "--cluster", self.cluster,
                     "--runtime", "fsdp", "--batch", "16", "--allow-estimates",
                     "--max-tensor-parallel", "1", *question, "--out", path)
        return path

    def export(self, plan, target):
        out = self.folder / target
        self.planctl("export", plan, "--model", self.model, "--to", target, "--out", out)
        return out


    def divided(self, layer_counts, degree, schedule, recompute="RECOMPUTE_LEVEL_NONE",
                level="SHARDING_LEVEL_NONE"):
        """Returns the path of a plan with so many layers in each stage, of one strategy."""
        path = self.plan("--space", SPACE)
        content = json.loads(path.read_text())
        content.update(schedule=schedule, virtual_stage_count=len(layer_counts) // degree,
                       micro_batch_count="4", stages=[])
        # It is of the plan before; only its length must fit.
        content["prediction"]["stages"] = content["prediction"]["stages"][:1] * degree
        width, layer, last = RANKS // degree, 0, self.LAYERS + 1
        for index, count in enumerate(layer_counts):
            runs = []
            for k in range(layer, layer + count):
                kind = "embedding" if k == 0 else "head" if k == last else "decoder"
                if kind == "decoder" and runs and runs[-1]["layer_definition_id"] == kind:
                    runs[-1]["layer_count"] += 1
                    continue
                runs.append({"first_layer_index": k, "layer_count": 1, "layer_definition_id": kind,
                             "strategy": {
                                 "tensor_parallel_degree": 1, "data_parallel_degree": width,
                                 "sharding_level": level,
                                 "rank_order": ["PARALLEL_AXIS_TENSOR", "PARALLEL_AXIS_DATA"],
                                 "recompute_level": (recompute if kind == "decoder" else
                                                     "RECOMPUTE_LEVEL_NONE")}})
            layer += count
            content["stages"].append({"first_rank": index % degree * width, "rank_count": width,
                                      "layer_runs": runs})
        path.write_text(json.dumps(content))
        return path


class PipeliningTest(Exports):
    def train(self, plan):
        """Trains one step by the exported files, and returns what the program prints."""
        out = self.export(plan, "torch-pipelining")
        program = pathlib.Path(FLAGS.source) / "tests" / "frameworks" / "torch_pipelining_run.py"
        done = subprocess.run(
            [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node",
             str(RANKS), str(program), str(out)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, check=False, env=dict(os.environ, OMP_NUM_THREADS="1"))
        self.assertEqual(done.returncode, 0, done.stderr[-4000:])
        return json.loads(done.stdout.splitlines()[-1])

    def test_a_sharded_interleaved_plan_trains_as_one_process(self):
        plan = self.plan("--schedule", "interleaved", "--space", SPACE)
        ran = self.train(plan)
        self.assertEqual(ran["stages"], len(json.loads(plan.read_text())["stages"]))
        self.assertEqual(ran["wrong"], 0)
        self.assertGreater(ran["compared"], 50)

    def test_an_uneven_interleaved_plan_trains_as_one_process(self):
        # 11 layers with the ends in 8 stages on 4 devices.
        ran = self.train(self.divided([2, 1, 1, 1, 3, 1, 1, 1], RANKS, "SCHEDULE_INTERLEAVED"))
        self.assertEqual((ran["stages"], ran["wrong"]), (8, 0))
        # One parameter of the embedding, two of norm and head each, six of each block.
        self.assertEqual(ran["compared"], 5 + 9 * 6)

    def test_gpipe_with_replicas_and_recomputation_trains_as_one_process(self):
        ran = self.train(self.divided([7, 4], 2, "SCHEDULE_GPIPE", "RECOMPUTE_LEVEL_FULL"))
        self.assertEqual((ran["stages"], ran["wrong"]), (2, 0))
        self.assertEqual(ran["compared"], 2 * (5 + 9 * 6))


@unittest.skipUnless(has("torchtitan"), "torchtitan is not installed")
class TorchtitanTest(Exports):
    # Those of the debug model of Llama 3 in torchtitan's own registry.
    LAYERS = 6
    MODEL = dict(MODEL, hidden_size=256, num_hidden_layers=LAYERS, num_attention_heads=16,
                 num_key_value_heads=16, intermediate_size=768, vocab_size=2048)
    BASE = "torchtitan.models.llama3.config_registry:llama3_debugmodel"

    def load(self, folder, base=BASE):
        """Returns the configuration that torchtitan makes of the exported module."""
        from torchtitan.config.manager import ConfigManager
        sys.modules.pop("parplan_config", None)
        sys.path.insert(0, str(folder))
        self.addCleanup(sys.path.remove, str(folder))
        os.environ["PARPLAN_TORCHTITAN_BASE"] = base
        self.addCleanup(os.environ.pop, "PARPLAN_TORCHTITAN_BASE")
        return ConfigManager().parse_args(["--module", "parplan_config", "--config", "plan"])

    def test_its_dataclasses_take_a_plan_of_stages(self):
        from torchtitan.distributed import ParallelDims
        from torchtitan.distributed.pipeline_parallel import _split_module
        counts = [2, 2, 3, 1]
        plan = self.divided(counts, 2, "SCHEDULE_INTERLEAVED", "RECOMPUTE_LEVEL_FULL",
                            "SHARDING_LEVEL_OPTIMIZER")
        out = self.export(plan, "torchtitan")
        config = self.load(out)
        dims = ParallelDims.from_config(config.parallelism, RANKS)
        self.assertEqual((dims.pp, dims.dp_shard, dims.dp_replicate, dims.tp), (2, 2, 1, 1))
        self.assertEqual(type(config.activation_checkpoint).__qualname__, "FullAC.Config")
        self.assertEqual((config.training.local_batch_size, config.training.global_batch_size,
                          config.parallelism.pipeline_parallel_microbatch_size), (8, 16, 2))
        table = pathlib.Path(config.parallelism.pipeline_parallel_schedule_csv)
        self.assertEqual(table.read_text(), (out / "schedule.csv").read_text())
        # Its own function cuts the model into these parts.
        import torch
        with torch.device("meta"):
            model = config.model_spec.model.build()
        parts = [_split_module(model, names)
                 for names in config.parallelism.module_fqns_per_model_part]
        self.assertEqual([len(part.layers) + (part.tok_embeddings is not None) +
                          (part.lm_head is not None) for part in parts], counts)

    def test_its_dataclasses_take_a_plan_without_a_pipeline(self):
        plan = self.divided([8], 1, ONE_STAGE, level="SHARDING_LEVEL_PARAMETERS")
        config = self.load(self.export(plan, "torchtitan"))
        self.assertEqual(config.parallelism.fsdp_reshard_after_forward, "always")
        self.assertEqual(config.parallelism.data_parallel_shard_degree, RANKS)
        self.assertEqual((config.training.local_batch_size, config.training.global_batch_size),
                         (1, 16))
        self.assertIsNone(config.activation_checkpoint)

    def test_refuses_another_model(self):
        plan = self.divided([8], 1, ONE_STAGE, level="SHARDING_LEVEL_PARAMETERS")
        out = self.export(plan, "torchtitan")
        with self.assertRaisesRegex(ValueError, "the plan is for a model of"):
            self.load(out, "torchtitan.models.llama3.config_registry:llama3_8b")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--planctl", required=True)
    parser.add_argument("--source", required=True)
    FLAGS, rest = parser.parse_known_args()
    FLAGS.planctl = str(pathlib.Path(FLAGS.planctl).resolve())
    unittest.main(argv=[sys.argv[0], *rest])
