"""The loop that the demo closes, with a smaller model: measure, plan, train under the plan and its
rivals, and set measured beside predicted."""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from parplan_process import Server

FLAGS = argparse.Namespace()
STEPS = 8
# Longer than any run takes; a limit on what hangs.
PATIENCE_SECONDS = 900
SHAPE = {"hidden_size": 64, "sequence_length": 32, "vocabulary_size": 256}
MODEL = {
    "model_id": "demo-loop",
    "layer_definitions": [
        {"layer_definition_id": "embedding", "kind": "LAYER_KIND_EMBEDDING", **SHAPE},
        {"layer_definition_id": "decoder", "kind": "LAYER_KIND_DECODER", "hidden_size": 64,
         "attention_head_count": 4, "feed_forward_size": 256,
         "feed_forward_kind": "FEED_FORWARD_KIND_GELU", "sequence_length": 32},
        {"layer_definition_id": "head", "kind": "LAYER_KIND_HEAD", **SHAPE}],
    "layer_runs": [{"layer_definition_id": "embedding", "layer_count": 1},
                   {"layer_definition_id": "decoder", "layer_count": 4},
                   {"layer_definition_id": "head", "layer_count": 1}],
    "precision": "PRECISION_FP32",
    "optimizer": "OPTIMIZER_ADAM",
}


class DemoLoopTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.model = cls.folder / "model.json"
        cls.model.write_text(json.dumps(MODEL))
        cls.trust = cls.folder / "data/trust-bundle.jwks.json"
        environment = os.environ | {
            "PARPLAN_DEMO_STEPS": str(STEPS), "PARPLAN_DEMO_MODEL": str(cls.model),
            "PARPLAN_DEMO_MEASURE": "--micro-batches 1 2 4 8 --max-message-bytes 65536 --no-pin"}
        with Server(FLAGS.server_binary, cls.folder) as server:
            cls.done = subprocess.run(
                [FLAGS.script, FLAGS.programs, cls.folder, server.address, cls.trust],
                capture_output=True, text=True, timeout=PATIENCE_SECONDS, env=environment)

    def results(self):
        return {path.name.split(".")[0]: json.loads(path.read_text())
                for path in self.folder.glob("*.results.json")}

    def test_the_plan_and_three_rivals_are_trained_and_all_learn_the_same(self):
        self.assertEqual(self.done.returncode, 0, self.done.stdout + self.done.stderr)
        results = self.results()
        self.assertEqual(len(results), 4, list(results))
        self.assertIn("best", results)
        for name, result in results.items():
            losses = result["losses"]
            self.assertEqual(len(losses), STEPS, name)
            self.assertLess(losses[-1], losses[0], name)
            for loss, best in zip(losses, results["best"]["losses"]):
                self.assertAlmostEqual(loss, best, delta=1e-3 * best, msg=name)

    def test_measured_stands_beside_predicted(self):
        for name, result in self.results().items():
            for plan in result["plans"]:
                self.assertGreater(plan["predicted_step_seconds"], 0, name)
                self.assertGreater(plan["measured_step_seconds"], 0, name)
                for stage in plan["stages"]:
                    predicted = stage["predicted_memory_bytes"]
                    measured = stage["measured_memory_bytes"]
                    for item in ("parameters", "gradients", "optimizer_states"):
                        self.assertEqual(measured[item], predicted[item], f"{name}: {item}")
        table = self.done.stdout.rsplit("==", 1)[1]
        for name in self.results():
            self.assertRegex(table, rf"(?m)^ *{name} ")
        self.assertIn("predicted best: best", table)
        self.assertIn("rank correlation", table)
        # Whether others used the processors meanwhile, or that so short a run cannot say.
        self.assertRegex(table, r"(?m)^machine: ")

    def test_the_ranks_of_a_real_mpirun_train_the_same_plan(self):
        mpirun = shutil.which("mpirun")
        if mpirun is None:
            self.skipTest("there is no mpirun")
        plan = self.folder / "tp.plan.json"
        results = self.folder / "by-mpirun.json"
        done = subprocess.run(
            [mpirun, "-np", "2", "--oversubscribe", "--bind-to", "none",
             pathlib.Path(FLAGS.programs) / "parplan-exec", "--plan", plan, "--trust", self.trust,
             "--model", self.model, "--topology", self.folder / "here.cluster.json", "--node",
             "this-machine-0", "--job", "here", "--steps", str(STEPS), "--no-pin", "--text",
             FLAGS.text, "--results", results],
            capture_output=True, text=True, timeout=PATIENCE_SECONDS,
            env=os.environ | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(json.loads(results.read_text())["losses"],
                         self.results()["tp"]["losses"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for flag in ("programs", "server-binary", "script", "text"):
        parser.add_argument(f"--{flag}", required=True)
    FLAGS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])
