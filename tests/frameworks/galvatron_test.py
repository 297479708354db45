#!/usr/bin/env python3
"""Gives strategy files that planctl exported to Galvatron's own reader.

usage: galvatron_test.py --planctl PROGRAM --source FOLDER --packages FOLDER

FOLDER of the packages holds the sources of Hetu-Galvatron 2.4.0, unpacked. Its reader needs PyTorch
only for the number of ranks, and NumPy and SciPy not at all, so these are replaced; the functions
that read and check a file, and make of it what each layer gets, are the package's.
"""

import argparse
import importlib
import json
import math
import pathlib
import subprocess
import sys
import tempfile
import types
import unittest
import warnings

FLAGS = None
# Batch and further flags of each question about llama2-7b on eight devices.
ONE_END = "all,-end-strategies,-per-layer"
QUESTIONS = [
    ("--batch", "64"),
    ("--batch", "64", "--max-tensor-parallel", "2"),
    ("--batch", "64", "--space", ONE_END),
    ("--batch", "64", "--space", "pipeline,uneven-stages,tensor,recompute-full"),
    ("--batch", "64", "--space", "pipeline,zero-3,recompute-full"),
    ("--batch", "8", "--space", "ulysses,zero-3,recompute-full"),
]
KINDS = {"SHARDING_LEVEL_NONE": "ddp", "SHARDING_LEVEL_GRADIENTS": "zero2",
         "SHARDING_LEVEL_PARAMETERS": "zero3"}


def module(name, **attributes):
    """Puts a module with these attributes in the place of one that is not installed."""
    made = types.ModuleType(name)
    made.__dict__.update(attributes)
    sys.modules[name] = made
    return made


def reader(devices):
    """Returns the package's module, without running the __init__ of any package."""
    root = pathlib.Path(FLAGS.packages) / "galvatron"
    for name in [name for name in sys.modules if name.split(".")[0] == "galvatron"]:
        del sys.modules[name]
    module("torch", distributed=types.SimpleNamespace(get_world_size=lambda: devices),
           float=None, float16=None, bfloat16=None)
    module("numpy", ceil=math.ceil, inf=math.inf)
    module("scipy")
    module("scipy.optimize", curve_fit=None)
    for name, folder in [("galvatron", root), ("galvatron.core", root / "core"),
                         ("galvatron.core.runtime", root / "core" / "runtime"),
                         ("galvatron.utils", root / "utils")]:
        module(name).__path__ = [str(folder)]
    # A rank that prints nothing.
    sys.modules["galvatron.core"].get_args = lambda: types.SimpleNamespace(local_rank=1)
    utils = importlib.import_module("galvatron.utils.config_utils")
    for name in ("config2strategy", "read_json_config", "str2array"):
        setattr(sys.modules["galvatron.utils"], name, getattr(utils, name))
    return importlib.import_module("galvatron.core.runtime.hybrid_parallel_config")


def layers_of(plan):
    """Returns the stage and the strategy of each layer."""
    return [(stage, run["strategy"]) for stage, content in enumerate(plan["stages"])
            for run in content["layer_runs"] for _ in range(run.get("layer_count", 0))]


class GalvatronTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def planctl(self, *arguments):
        done = subprocess.run([FLAGS.planctl, *map(str, arguments)], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def read(self, path, layer_count, devices):
        """Returns what the package makes of a file: settings, and the parts of each layer."""
        # Theirs: an assertion of a tuple, and a file that is left open.
        warnings.simplefilter("ignore")
        package = reader(devices)
        arguments = types.SimpleNamespace(
            local_rank=1, galvatron_config_path=str(path), chunks=-1, global_train_batch_size=-1,
            pipeline_type="gpipe", default_dp_type="ddp", embed_sdp=0, vocab_tp=1, vocab_sp=0,
            distributed_checkpoint=False)
        sizes = types.SimpleNamespace(layernums=lambda: [layer_count])
        settings = package.get_hybrid_parallel_configs_api(None, arguments, lambda *_: sizes)
        package.check_hp_config(settings, [layer_count])
        kinds = ["embed"] + ["gpt_dec"] * layer_count + ["prenorm", "cls"]
        whole = package.hp_config_whole_model(kinds, settings, embed_sdp=arguments.embed_sdp,
                                              vocab_tp=arguments.vocab_tp,
                                              vocab_sp=arguments.vocab_sp)
        return arguments, settings, whole

    def test_reads_the_stages_and_the_strategy_of_each_layer(self):
        examples = pathlib.Path(FLAGS.source) / "deploy" / "examples"
        model = examples / "llama2-7b.model.json"
        seen = set()
        for number, question in enumerate(QUESTIONS):
            made, out = self.folder / f"{number}.json", self.folder / str(number)
            self.planctl("plan", "--offline", "--model", model, "--cluster",
                         examples / "a100-40g-8.cluster.json", "--target", "galvatron",
                         "--allow-estimates", *question, "--out", made)
            self.planctl("export", made, "--model", model, "--to", "galvatron", "--out", f"{out}/")
            plan = json.loads(made.read_text())
            layers = layers_of(plan)
            decoders = layers[1:-1]
            arguments, settings, whole = self.read(out / "galvatron_config.json", len(decoders), 8)
            with self.subTest(question=question):
                self.assertEqual(settings["pp_deg"], len(plan["stages"]))
                self.assertEqual(arguments.global_train_batch_size,
                                 int(plan["global_batch_size"]))
                self.assertEqual(arguments.chunks, int(plan["micro_batch_count"]))
                self.assertEqual(settings["pp_ranks_enc"], [stage for stage, _ in decoders])
                # Embedding, decoders, the last norm and the head, which are in two parts there.
                for place, (stage, strategy) in enumerate([*layers, layers[-1]]):
                    self.expect_layer(arguments, whole, place, stage, strategy)
                    seen.add((whole["tp_sizes_whole"][place] > 1,
                              whole["sp_sizes_whole"][place] > 1,
                              whole["dp_types_whole"][place], len(plan["stages"]) > 1,
                              whole["checkpoint_flags_whole"][place]))
        self.assertGreaterEqual(len(seen), 5, seen)

    def expect_layer(self, arguments, whole, place, stage, strategy):
        tensor = strategy.get("tensor_parallel_degree", 1)
        context = strategy.get("context_parallel_degree", 1)
        data = strategy.get("data_parallel_degree", 1)
        self.assertEqual(whole["pp_ranks_whole"][place], stage)
        self.assertEqual(whole["tp_sizes_whole"][place], tensor)
        self.assertEqual(whole["sp_sizes_whole"][place], context)
        self.assertEqual(whole["dp_sizes_whole"][place], data)
        recomputes = strategy.get("recompute_level") == "RECOMPUTE_LEVEL_FULL"
        self.assertEqual(whole["checkpoint_flags_whole"][place], int(recomputes))
        if data == 1:
            return
        # Type 1 shards parameters, type 0 is what the whole plan does.
        kind = "zero3" if whole["dp_types_whole"][place] == 1 else arguments.default_dp_type
        self.assertEqual(kind, KINDS[strategy.get("sharding_level", "SHARDING_LEVEL_NONE")])

    def test_refuses_what_was_not_exported(self):
        """The reader compares the file with the layers of the model and with its ranks."""
        examples = pathlib.Path(FLAGS.source) / "deploy" / "examples"
        model = examples / "llama2-7b.model.json"
        made, out = self.folder / "plan.json", self.folder / "out"
        self.planctl("plan", "--offline", "--model", model, "--cluster",
                     examples / "a100-40g-8.cluster.json", "--target", "galvatron",
                     "--allow-estimates", "--batch", "64", "--out", made)
        self.planctl("export", made, "--model", model, "--to", "galvatron", "--out", f"{out}/")
        with self.assertRaises(AssertionError):
            self.read(out / "galvatron_config.json", 31, 8)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--planctl", required=True)
    parser.add_argument("--source", required=True)
    parser.add_argument("--packages", required=True)
    FLAGS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])
