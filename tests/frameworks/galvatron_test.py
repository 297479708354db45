#!/usr/bin/env python3
"""Gives strategy files that planctl exported to Galvatron's own reader.

usage: galvatron_test.py --planctl PROGRAM --source FOLDER --packages FOLDER --plans FOLDER

FOLDER of the plans is what exported_plans wrote, FOLDER of the packages holds the sources of Hetu-Galvatron 2.4.0, unpacked. Its reader needs PyTorch
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

from drawn_plans import drawn_plans, layer_of

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
KINDS = {0: "ddp", 2: "zero2", 3: "zero3"}


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
    """Returns the layers of a plan of the contract."""
    return [layer_of(stage, run) for stage, content in enumerate(plan["stages"])
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
            arguments, settings, whole = self.read(out / "galvatron_config.json",
                                                   len(layers) - 2, 8)
            with self.subTest(question=question):
                self.assertEqual(settings["pp_deg"], len(plan["stages"]))
                self.assertEqual(arguments.global_train_batch_size,
                                 int(plan["global_batch_size"]))
                self.assertEqual(arguments.chunks, int(plan["micro_batch_count"]))
                seen |= self.expect_layers(arguments, settings, whole, layers)
        self.assertGreaterEqual(len(seen), 5, seen)

    def test_understands_every_random_plan(self):
        seen, read, rings = set(), 0, 0
        for plan in drawn_plans(FLAGS.plans, "galvatron"):
            with self.subTest(plan=plan.folder.name):
                arguments, settings, whole = self.read(plan.folder / "galvatron_config.json",
                                                       len(plan.decoders()), plan.devices)
                self.assertEqual(settings["pp_deg"], plan.pipeline)
                self.assertEqual(arguments.global_train_batch_size, plan.batch)
                self.assertEqual(arguments.chunks, plan.micro_batches)
                self.assertEqual(arguments.pipeline_type,
                                 "gpipe" if plan.schedule == "GPIPE" else "pipedream_flush")
                seen |= self.expect_layers(arguments, settings, whole, plan.layers)
                has_ring = any(layer.context > 1 and layer.context_kind == "RING"
                               for layer in plan.layers)
                # This release has no rings, and its reader passes over their key in silence.
                self.assertEqual("2.4.0 has no ring attention" in plan.text("README.txt"),
                                 has_ring)
                rings += has_ring
                read += 1
        print(f"galvatron: {read} plans read, {rings} of them with rings, which the release "
              f"passes over; {len(seen)} kinds of layers", flush=True)
        self.assertGreaterEqual(len(seen), 20, seen)
        self.assertLessEqual(rings, read - 100)

    def expect_layers(self, arguments, settings, whole, layers):
        """Compares each layer; returns the kinds of strategies."""
        seen = set()
        self.assertEqual(settings["pp_ranks_enc"], [layer.stage for layer in layers[1:-1]])
        # Embedding, decoders, the last norm and the head, which are in two parts there.
        for place, layer in enumerate([*layers, layers[-1]]):
            self.expect_layer(arguments, whole, place, layer)
            seen.add((whole["tp_sizes_whole"][place] > 1, whole["sp_sizes_whole"][place] > 1,
                      whole["dp_types_whole"][place], settings["pp_deg"] > 1,
                      whole["checkpoint_flags_whole"][place]))
        return seen

    def expect_layer(self, arguments, whole, place, layer):
        ring, ulysses = ((layer.context, 1) if layer.context_kind == "RING" else
                         (1, layer.context))
        self.assertEqual(whole["pp_ranks_whole"][place], layer.stage)
        self.assertEqual(whole["tp_sizes_whole"][place], layer.tensor)
        self.assertEqual(whole["sp_sizes_whole"][place], ulysses)
        # The ranks of a ring are replicas to this release.
        self.assertEqual(whole["dp_sizes_whole"][place], layer.data * ring)
        self.assertEqual(whole["checkpoint_flags_whole"][place], int(layer.recompute == "FULL"))
        self.assertEqual(whole["tp_consec_whole"][place], int(not layer.data_innermost))
        if layer.data == 1:
            return
        # Type 1 shards parameters, type 0 is what the whole plan does.
        kind = "zero3" if whole["dp_types_whole"][place] == 1 else arguments.default_dp_type
        self.assertEqual(kind, KINDS[layer.zero])

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
    parser.add_argument("--plans", required=True)
    FLAGS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])
