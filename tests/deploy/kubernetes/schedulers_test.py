#!/usr/bin/python3
"""The worked examples for other schedulers: what they ask for is what ShapePlan says, and what
they start parplan-sidecar with is what it takes.

    schedulers_test.py --source FOLDER --bin FOLDER
"""
import argparse
import json
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import unittest

import yaml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "integration"))
import parplan_process as parplan
import rules

FLAGS = argparse.Namespace()
DEVICES_PER_NODE = 8


class Schedulers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = FLAGS.source / "deploy" / "examples" / "schedulers"
        examples = FLAGS.source / "deploy" / "examples"
        with tempfile.TemporaryDirectory() as name, \
                parplan.Server(FLAGS.bin / "parplan-server", name) as server:
            with parplan.Client(server.address) as client:
                client.upload("clusters/a100-40g-16/nodes/n0", "upload-1",
                              parplan.load(examples / "llama2-7b-a100-2-nodes.profile.json"), 300)
            done = subprocess.run(
                [FLAGS.bin / "planctl", "--format", "json", "shape", "--model",
                 examples / "llama2-7b.model.json", "--cluster",
                 examples / "a100-40g-16.cluster.json", "--batch", "64", "--min-devices", "16",
                 "--server", server.address, "--timeout", "300"],
                capture_output=True, text=True, check=True, timeout=600)
        cls.shape = json.loads(done.stdout)
        cls.option = cls.shape["options"][cls.shape["recommended_option_index"]]
        cls.nodes = cls.option["device_count"] // DEVICES_PER_NODE

    def load(self, name):
        with open(self.folder / name, encoding="utf-8") as file:
            return [document for document in yaml.safe_load_all(file) if document]

    def check_sidecar(self, arguments, index="1"):
        """The flags of an init container, as the program reads them."""
        self.assertEqual(arguments[0], "init")
        done = subprocess.run(
            [FLAGS.bin / "parplan-sidecar",
             *(re.sub(r"\$\(\w+\)", "1", argument) for argument in arguments), "--check-config"],
            capture_output=True, text=True, check=False, timeout=300,
            env={"JOB_COMPLETION_INDEX": index})
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_the_question_is_the_one_of_the_documents(self):
        # The figures that the comments of the examples name.
        self.assertEqual(self.option["device_count"], 16)
        self.assertEqual(self.option["same_node_device_count"], 1)
        self.assertEqual(self.option["same_switch_device_count"], 8)
        text = (FLAGS.source / "docs" / "schedulers.md").read_text()
        for field in ("device_count", "same_node_device_count", "same_switch_device_count",
                      "pipeline_parallel_degree"):
            self.assertIn(f"| `{field}` | {self.option[field]} |", text)

    def test_kueue(self):
        topology, job = self.load("kueue.yaml")
        spec = job["spec"]
        self.assertEqual((spec["completions"], spec["parallelism"]), (self.nodes, self.nodes))
        self.assertEqual(spec["completionMode"], "Indexed")
        pod = spec["template"]["spec"]
        gpus = int(pod["containers"][0]["resources"]["limits"]["nvidia.com/gpu"])
        self.assertEqual(gpus % self.option["same_node_device_count"], 0)
        switch, host = [level["nodeLabel"] for level in topology["spec"]["levels"]]
        pods_of_a_stage = max(1, self.option["same_switch_device_count"] // gpus)
        self.assertEqual(spec["template"]["metadata"]["annotations"], {
            "kueue.x-k8s.io/podset-preferred-topology": switch,
            "kueue.x-k8s.io/podset-slice-required-topology":
                host if pods_of_a_stage == 1 else switch,
            "kueue.x-k8s.io/podset-slice-size": str(pods_of_a_stage)})
        self.check_sidecar(pod["initContainers"][0]["args"])

    def test_volcano(self):
        (job,) = self.load("volcano.yaml")
        (task,) = job["spec"]["tasks"]
        self.assertEqual((job["spec"]["minAvailable"], task["replicas"]), (self.nodes, self.nodes))
        pod = task["template"]["spec"]
        gpus = int(pod["containers"][0]["resources"]["limits"]["nvidia.com/gpu"])
        self.assertEqual(gpus * self.nodes, self.option["device_count"])
        self.assertEqual(gpus % self.option["same_node_device_count"], 0)
        # A stage on several nodes must not be torn apart.
        mode = "hard" if self.option["same_switch_device_count"] > gpus else "soft"
        self.assertEqual(job["spec"]["networkTopology"], {"mode": mode, "highestTierAllowed": 1})
        arguments = pod["initContainers"][0]["args"]
        self.assertIn("--node-rank=$(VC_TASK_INDEX)", arguments)
        self.check_sidecar(arguments, index="0")

    def test_kubeflow_trainer(self):
        runtime, job = self.load("kubeflow-trainer.yaml")
        trainer = job["spec"]["trainer"]
        self.assertEqual(job["spec"]["runtimeRef"]["name"], runtime["metadata"]["name"])
        self.assertEqual(trainer["numNodes"], self.nodes)
        self.assertEqual(trainer["numNodes"] * trainer["numProcPerNode"],
                         self.option["device_count"])
        self.assertEqual(runtime["spec"]["mlPolicy"], {"numNodes": self.nodes, "torch": {}})
        (replicated,) = runtime["spec"]["template"]["spec"]["replicatedJobs"]
        pod = replicated["template"]["spec"]["template"]["spec"]
        self.check_sidecar(pod["initContainers"][0]["args"])

    def test_skypilot(self):
        (task,) = self.load("skypilot.yaml")
        kind, _, count = task["resources"]["accelerators"].partition(":")
        self.assertEqual((kind, int(count) * task["num_nodes"]),
                         ("A100", self.option["device_count"]))
        words = shlex.split(re.sub(r"\$(\w+|\([^)]*\))", "1", task["run"]).replace("\\\n", " "))
        begin = words.index("parplan-sidecar")
        end = words.index(".", begin)
        self.check_sidecar(words[begin + 1:end])
        told = (FLAGS.source / "docs" / "launch.md").read_text()
        for name in set(re.findall(r"\$(PARPLAN\w+|MASTER\w+)", task["run"])):
            self.assertIn(f"`{name}`", told)

    def test_job_set(self):
        (job_set,) = self.load("jobset.yaml")
        (replicated,) = job_set["spec"]["replicatedJobs"]
        self.assertEqual(replicated["replicas"], 1)
        spec = replicated["template"]["spec"]
        self.assertEqual((spec["completions"], spec["parallelism"]), (self.nodes, self.nodes))
        self.assertEqual(spec["completionMode"], "Indexed")
        pod = spec["template"]["spec"]
        gpus = int(pod["containers"][0]["resources"]["limits"]["nvidia.com/gpu"])
        self.assertEqual(gpus * self.nodes, self.option["device_count"])
        self.assertEqual(gpus % self.option["same_node_device_count"], 0)
        self.check_sidecar(pod["initContainers"][0]["args"])

    def test_ray_job(self):
        (job,) = self.load("rayjob.yaml")
        (group,) = job["spec"]["rayClusterSpec"]["workerGroupSpecs"]
        self.assertEqual({group[field] for field in ("replicas", "minReplicas", "maxReplicas")},
                         {self.nodes})
        pod = group["template"]["spec"]
        gpus = int(pod["containers"][0]["resources"]["limits"]["nvidia.com/gpu"])
        self.assertEqual(gpus * self.nodes, self.option["device_count"])
        self.assertEqual(gpus % self.option["same_node_device_count"], 0)
        self.check_sidecar(pod["initContainers"][0]["args"], index="0")

    def test_images_are_named_by_digests_and_pods_may_call_the_server(self):
        def pods(value):
            if isinstance(value, dict):
                if "initContainers" in value.get("spec", {}):
                    yield value
                value = list(value.values())
            for part in value if isinstance(value, list) else ():
                yield from pods(part)

        count = 0
        for path in self.folder.glob("*.yaml"):
            for image in re.findall(r"image: (\S+)", path.read_text()):
                self.assertTrue(rules.is_by_digest(image), f"{path.name}: {image}")
                count += 1
            for template in pods(self.load(path.name)):
                self.assertEqual(template["metadata"]["labels"]["parplan.io/client"], "true",
                                 path.name)
                count += 1
        self.assertGreater(count, 15)
        self.assertFalse(rules.is_by_digest("registry.example.org/parplan/parplan-sidecar:0.1.0"))

    def test_every_example_is_looked_at(self):
        self.assertEqual(sorted(path.name for path in self.folder.iterdir() if path.is_file()),
                         ["jobset.yaml", "kubeflow-trainer.yaml", "kueue.yaml", "ray_train.py",
                          "rayjob.yaml", "skypilot.yaml", "volcano.yaml"])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    _, rest = parser.parse_known_args(namespace=FLAGS)
    FLAGS.source, FLAGS.bin = FLAGS.source.resolve(), FLAGS.bin.resolve()
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()
