#!/usr/bin/env python3
"""Gives layouts that planctl exported to megatron-core's own reader.

usage: megatron_core_test.py --planctl PROGRAM --source FOLDER --packages FOLDER

PACKAGES is where megatron-core is installed, without its dependencies. Its class
PipelineParallelLayerLayout needs PyTorch only to log and to ask for the rank, so these two modules
are replaced; the class and its layer types are the package's. Of schedules.py, which needs all of
PyTorch, the two functions that say the order of passes are run by themselves.
"""

import argparse
import ast
import enum
import importlib
import json
import pathlib
import subprocess
import sys
import tempfile
import types
import typing
import unittest

FLAGS = None
SPACE = "all,-per-layer,-end-strategies,-rank-order,-zero-2,-zero-3,-gpipe"
# Batch, nodes and further flags of each question about llama2-7b.
QUESTIONS = [
    ("--batch", "64"),
    ("--batch", "64", "--micro-batches", "16"),
    ("--batch", "64", "--no-recompute"),
    ("--batch", "64", "--max-tensor-parallel", "1", "--no-sharding"),
    ("--batch", "96", "--schedule", "interleaved"),
    ("--batch", "64", "--planner", "pp"),
]
# Batch and micro-batches of interleaved plans for the target, most of which no pipeline degree
# divides.
GROUPS = [(60, 15), (66, 11), (64, 64), (64, 16), (100, 25), (54, 27)]
# Texts that this project's reader takes or refuses by a rule worked out from the same class
# (tests/exports/megatron_layout_test.cc), and the lengths of their stages.
LAYOUTS = {
    "Et*3|(tt|)*29,m|L": [4] + [2] * 29 + [1, 1],
    "Et*2|(t*2|)*34,t*3|(t*2|)*3,tL": [3] + [2] * 34 + [3, 2, 2, 2, 2],
    "Et(tt|m|t)*2,tL": [4, 1, 3, 1, 3],
    "(|tt)*2,tL": [0, 2, 4],
    "E||t|L": [1, 0, 1, 1],
    "Et*4(|)*3t*4L": [5, 0, 0, 5],
    "Et,(tt|)*2": [4, 2, 0],
    "t|*2L": [1, 0, 1],
    "t*1,2": [12],
    "Et*0L": [2],
}
BROKEN = ["((t|)*2)*3", "(t|t", "()*2", "(t)", "t**2", "t*", "x", "e", "T"]
# Layouts of four layers and two for further tokens over two devices: whether the class takes them,
# as our reader does (ImportMegatronPlan.PlacesLayersForFurtherTokens).
FURTHER_TOKENS = {
    "Et*2|t*2|m*2|L": True,
    "Et*2|t*2m*2L": True,
    "Et*4|m*2L": True,
    "Et*4||m*2|L": True,
    "Et*2||t*2m*2|L": True,
    "Et*4|m*2|L|": False,
    "Et*2|t*2m|m|L": False,
    "Et*2m*2|t*2|L|": False,
    "Et*2|t*2mL": False,
    "Et*2|mt*2mL": False,
}


def layout_class():
    """Returns the package's class, without running the __init__ of any package."""
    root = pathlib.Path(FLAGS.packages) / "megatron"
    for name, folder in [("megatron", root), ("megatron.core", root / "core"),
                         ("megatron.core.transformer", root / "core" / "transformer")]:
        package = types.ModuleType(name)
        package.__path__ = [str(folder)]
        sys.modules[name] = package
    for name, attributes in [("parallel_state", {}),
                             ("utils", {"log_single_rank": lambda *arguments: None})]:
        module = types.ModuleType(f"megatron.core.{name}")
        module.__dict__.update(attributes)
        sys.modules[module.__name__] = module
        setattr(sys.modules["megatron.core"], name, module)
    module = importlib.import_module("megatron.core.transformer.pipeline_parallel_layer_layout")
    return module.PipelineParallelLayerLayout


def schedule_functions():
    """Returns the functions of schedules.py that list the passes of a step and count those of the
    warm-up."""
    path = pathlib.Path(FLAGS.packages) / "megatron" / "core" / "pipeline_parallel" / "schedules.py"
    names = ("get_schedule_table", "get_pp_rank_microbatches")
    tree = ast.parse(path.read_text())
    tree.body = [node for node in tree.body
                 if isinstance(node, ast.FunctionDef) and node.name in names]
    found = {"Optional": typing.Optional, "P2PCommunicator": object}
    exec(compile(tree, str(path), "exec"), found)  # pylint: disable=exec-used
    return [found[name] for name in names]


def megatron_passes(pipeline, chunks, count, group, device):
    """Returns the passes of a device in order, as (is_backward, stage, micro-batch): the loops of
    forward_backward_pipelining_with_interleaving over the package's own table."""
    schedule_table, rank_microbatches = schedule_functions()
    ranks = types.SimpleNamespace(size=lambda: pipeline, rank=lambda: device)
    total, _, warm_up, steady = rank_microbatches(
        count, chunks, group, p2p_communicator=types.SimpleNamespace(
            pp_group=ranks, virtual_pipeline_model_parallel_size=chunks))
    table = schedule_table(count, chunks, group)

    def forward(k):
        micro_batch, chunk = table[k]
        return False, chunk * pipeline + device, micro_batch

    def backward(k):
        micro_batch, chunk = table[k]
        return True, (chunks - 1 - chunk) * pipeline + device, micro_batch

    passes = [forward(k) for k in range(warm_up)]
    for k in range(steady):
        passes += [forward(k + warm_up), backward(k)]
    return passes + [backward(k) for k in range(steady, total)]


class MegatronCoreTest(unittest.TestCase):
    def setUp(self):
        self.layout = layout_class()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def planctl(self, *arguments):
        done = subprocess.run([FLAGS.planctl, *map(str, arguments)], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_reads_exported_layouts_as_the_stages_of_the_plan(self):
        examples = pathlib.Path(FLAGS.source) / "deploy" / "examples"
        model = examples / "llama2-7b.model.json"
        with_layout = 0
        for number, question in enumerate(QUESTIONS):
            plan, out = self.folder / f"{number}.json", self.folder / str(number)
            self.planctl("plan", "--offline", "--model", model, "--cluster",
                         examples / "a100-40g-8.cluster.json", "--runtime", "megatron-core",
                         "--space", SPACE, "--allow-estimates", *question, "--out", plan)
            self.planctl("export", plan, "--model", model, "--to", "megatron", "--out", out)
            arguments = dict(line.partition("=")[::2]
                             for line in (out / "megatron.args").read_text().splitlines())
            text = arguments.get("--pipeline-model-parallel-layout")
            if text is None:
                continue
            with_layout += 1
            pipeline = int(arguments["--pipeline-model-parallel-size"])
            layout = self.layout.from_str(text, pipeline)
            layout.validate_layer_layout(int(arguments["--num-layers"]), None)
            stages = json.loads(plan.read_text())["stages"]
            for index, stage in enumerate(stages):
                ours = sum(run.get("layer_count", 0) for run in stage["layer_runs"])
                theirs = layout.layout[index % pipeline][index // pipeline]
                self.assertEqual(len(theirs), ours, (text, index))
        self.assertGreaterEqual(with_layout, 2)

    def test_takes_the_passes_of_exported_groups_in_the_predicted_order(self):
        examples = pathlib.Path(FLAGS.source) / "deploy" / "examples"
        model = examples / "llama2-7b.model.json"
        larger = 0
        for number, (batch, count) in enumerate(GROUPS):
            plan, out = self.folder / f"g{number}.json", self.folder / f"g{number}"
            trace = self.folder / f"g{number}.trace.json"
            self.planctl("plan", "--offline", "--model", model, "--cluster",
                         examples / "a100-40g-8.cluster.json", "--allow-estimates", "--target",
                         "megatron", "--schedule", "interleaved", "--batch", batch,
                         "--micro-batches", count, "--out", plan)
            self.planctl("export", plan, "--model", model, "--to", "megatron", "--out", out)
            self.planctl("trace", plan, "--out", trace)
            arguments = dict(line.partition("=")[::2]
                             for line in (out / "megatron.args").read_text().splitlines())
            pipeline = int(arguments["--pipeline-model-parallel-size"])
            group = int(arguments.get("--microbatch-group-size-per-virtual-pipeline-stage",
                                      pipeline))
            larger += group > pipeline
            # The program's two checks.
            self.assertTrue(pipeline <= group <= count, (pipeline, group, count))
            self.assertTrue(count % group == 0 or count % group >= pipeline,
                            (pipeline, group, count))
            chunks = len(json.loads(plan.read_text())["stages"]) // pipeline
            ours = [[] for _ in range(pipeline)]
            for event in json.loads(trace.read_text())["traceEvents"]:
                if event.get("cat") not in ("forward", "backward"):
                    continue
                place = event["args"]
                ours[place["stage"] % pipeline].append(
                    (event["cat"] == "backward", place["stage"], place["micro_batch"]))
            for device in range(pipeline):
                self.assertEqual(ours[device],
                                 megatron_passes(pipeline, chunks, count, group, device))
        self.assertGreaterEqual(larger, 3)

    def test_reads_texts_as_our_reader_does(self):
        for text, lengths in LAYOUTS.items():
            self.assertEqual([len(stage) for stage in self.layout.parse_str_to_list(text)],
                             lengths, text)
        for text in BROKEN:
            with self.assertRaises(AssertionError, msg=text):
                self.layout.parse_str_to_list(text)

    def test_takes_layers_for_further_tokens_where_our_reader_does(self):
        for text, is_taken in FURTHER_TOKENS.items():
            layout = self.layout.from_str(text, 2)
            if is_taken:
                layout.validate_layer_layout(4, 2)
                continue
            with self.assertRaises(AssertionError, msg=text):
                layout.validate_layer_layout(4, 2)

    def test_layer_types_are_those_of_the_letters(self):
        types_of = self.layout.parse_str_to_list("Etm|L")
        self.assertTrue(all(isinstance(layer, enum.Enum) for stage in types_of for layer in stage))
        self.assertEqual([[layer.name for layer in stage] for stage in types_of],
                         [["embedding", "decoder", "mtp"], ["loss"]])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--planctl", required=True)
    parser.add_argument("--source", required=True)
    parser.add_argument("--packages", required=True)
    FLAGS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])
