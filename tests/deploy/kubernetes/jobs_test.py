#!/usr/bin/python3
"""The examples of jobs start training: their objects are what the schemas of each kind allow, their
init containers get a plan of a real server and export it, and their trainers start torchrun, here a
stand-in, with its arguments.

    jobs_test.py --source FOLDER --bin FOLDER
"""
import argparse
import importlib.util
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import yaml

import fake_ray
import schema

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "integration"))
import parplan_process as parplan

FLAGS = argparse.Namespace()
PATIENCE_SECONDS = 600
SCHEMAS = schema.Schemas()
# Examples, and where their pods are. Kueue and SkyPilot have no schema here.
JOBS = ("jobset.yaml", "kubeflow-trainer.yaml", "rayjob.yaml", "volcano.yaml")
# Variables that each scheduler sets in the containers of pod `index`, beside what the object names.
SCHEDULER = {
    "jobset.yaml": lambda index: {"JOB_COMPLETION_INDEX": str(index)},
    "kubeflow-trainer.yaml": lambda index: {"JOB_COMPLETION_INDEX": str(index)},
    "rayjob.yaml": lambda index: {},
    "volcano.yaml": lambda index: {"VC_TASK_INDEX": str(index)},
}
# Values of the labels that containers read as variables.
LABELS = {
    "batch.kubernetes.io/controller-uid": "6d2f0a0c-1111-4000-8000-000000000001",
    "jobset.sigs.k8s.io/jobset-name": "llama2-7b",
    "ray.io/cluster": "llama2-7b-x7k2p",
}
# Writes its arguments and the environment below $STARTS, in a file named by the node's rank.
TORCHRUN = """#!/bin/bash
set -eu
rank=
for ((i = 1; i < $#; ++i)); do
  if [[ "${!i}" = --node-rank ]]; then next=$((i + 1)); rank=${!next}; fi
done
printf '%s\\0' "$@" >"$STARTS/$rank.arguments"
env --null >"$STARTS/$rank.environment"
"""


def documents(name):
    with open(FLAGS.source / "deploy/examples/schedulers" / name, encoding="utf-8") as file:
        return [document for document in yaml.safe_load_all(file) if document]


def pods_in(node):
    """All pods that an object describes."""
    if isinstance(node, dict):
        if "containers" in node:
            yield node
            return
        for value in node.values():
            yield from pods_in(value)
    elif isinstance(node, list):
        for value in node:
            yield from pods_in(value)


def pods(name):
    return [pod for document in documents(name) for pod in pods_in(document)]


def null_separated(path):
    return path.read_text().split("\0")[:-1]


class Objects(unittest.TestCase):
    def test_every_object_is_what_its_kind_allows(self):
        for name in JOBS:
            for document in documents(name):
                with self.subTest(file=name, kind=document["kind"]):
                    self.assertEqual(SCHEMAS.errors(document), [])

    def test_recorded_train_jobs_are_what_the_kind_allows(self):
        folder = FLAGS.source / "tests" / "clients" / "kubeflow" / "data"
        for path in sorted(folder.glob("*.json")):
            with self.subTest(path.name):
                self.assertEqual(SCHEMAS.errors(parplan.load(path)), [])

    def test_a_wrong_object_is_found(self):
        def planted(name, change):
            document = documents(name)[-1]
            change(document)
            return SCHEMAS.errors(document)

        self.assertTrue(planted("volcano.yaml",
                                lambda job: job["spec"].update(minAvailable="2")))
        self.assertTrue(planted("jobset.yaml",
                                lambda job: job["spec"]["replicatedJobs"][0].update(replica=1)))
        self.assertTrue(planted("kubeflow-trainer.yaml",
                                lambda job: job["spec"]["trainer"].update(nodes=2)))
        self.assertTrue(planted("rayjob.yaml",
                                lambda job: job["spec"]["rayClusterSpec"].pop("headGroupSpec")))
        self.assertTrue(planted("rayjob.yaml", lambda job: next(pods_in(job))["containers"][0]
                                .update(volumeMount=[])))

    def test_containers_mount_volumes_that_there_are(self):
        text = (FLAGS.source / "docs" / "schedulers.md").read_text()
        for name in JOBS:
            for pod in pods(name):
                known = {volume["name"] for volume in pod["volumes"]}
                for container in pod["initContainers"] + pod["containers"]:
                    self.assertLessEqual({mount["name"] for mount in container["volumeMounts"]},
                                         known, name)
                for volume in pod["volumes"]:
                    # Users make these by hand, and the documents say how.
                    if "configMap" in volume:
                        self.assertIn(volume["configMap"]["name"], text, name)


class Starts(unittest.TestCase):
    """Each example, pod by pod."""

    @classmethod
    def setUpClass(cls):
        # Paths of sockets are short.
        folder = tempfile.TemporaryDirectory(dir="/tmp")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.server = parplan.Server(FLAGS.bin / "parplan-server", cls.folder)
        cls.server.start()
        cls.addClassCleanup(cls.server.__exit__)
        examples = FLAGS.source / "deploy" / "examples"
        with parplan.Client(cls.server.address) as client:
            client.upload("clusters/a100-40g-16/nodes/n0", "upload-1",
                          parplan.load(examples / "llama2-7b-a100-2-nodes.profile.json"),
                          PATIENCE_SECONDS)
        # The question of docs/schedulers.md.
        question = parplan.load(FLAGS.source / "deploy/kubernetes/job/question.json")
        question["spec"]["options"].update(target="megatron", runtime_id="megatron-core")
        (cls.folder / "question.json").write_text(json.dumps(question))
        programs = cls.folder / "programs"
        programs.mkdir()
        (programs / "torchrun").write_text(TORCHRUN)
        (programs / "torchrun").chmod(0o755)
        cls.path = f"{programs}:/usr/bin:/bin"

    def fetch(self, name, pod, index, annotations=None, question="question.json"):
        """Runs the init container of a pod; the volume it wrote."""
        volume = self.folder / f"{name}-{index}"
        (container,) = pod["initContainers"]
        variables = SCHEDULER[name](index)
        for variable in container.get("env", ()):
            kind, key = re.fullmatch(r"metadata\.(labels|annotations)\['(.*)'\]",
                                     variable["valueFrom"]["fieldRef"]["fieldPath"]).groups()
            # An absent annotation makes an empty variable.
            variables[variable["name"]] = (LABELS[key] if kind == "labels"
                                           else (annotations or {}).get(key, ""))
        here = {"--server": self.server.address, "--volume": volume,
                "--question": self.folder / question,
                "--trust": self.server.folder / "data" / "trust-bundle.jwks.json"}
        arguments = []
        for argument in container["args"]:
            flag, equals, value = argument.partition("=")
            value = re.sub(r"\$\((\w+)\)", lambda match: variables[match.group(1)], value)
            arguments.append(f"{flag}{equals}{here.get(flag, value)}")
        done = subprocess.run([FLAGS.bin / "parplan-sidecar", *arguments], capture_output=True,
                              text=True, check=False, timeout=PATIENCE_SECONDS,
                              env={"PATH": "/usr/bin:/bin", **variables})
        self.assertEqual(done.returncode, 0, done.stderr)
        return volume

    def starts(self, name):
        folder = self.folder / f"{name}-starts"
        folder.mkdir()
        return folder

    def check_start(self, starts, volume, rank, master, program):
        """Compares what torchrun got on a node with the plan that is on its volume."""
        words = null_separated(starts / f"{rank}.arguments")
        begin = words.index(program)
        self.assertEqual(dict(zip(words[:begin:2], words[1:begin:2])), {
            "--nnodes": "2", "--node-rank": str(rank), "--nproc-per-node": "8",
            "--master-addr": master, "--master-port": "29500"})
        exported = (volume / "megatron" / "megatron.args").read_text().splitlines()
        self.assertEqual(words[begin + 1:begin + 1 + len(exported)], exported)
        self.assertIn("--data-path", words[begin + 1 + len(exported):])
        given = dict(word[2:].split("=", 1) for word in exported if "=" in word)
        ranks = 2 * 8
        split = (int(given["tensor-model-parallel-size"]) *
                 int(given["pipeline-model-parallel-size"]) * int(given["context-parallel-size"]))
        self.assertEqual(ranks % split, 0)
        # Micro-batches are whole, by Megatron-LM's rule.
        self.assertEqual(int(given["global-batch-size"]) %
                         (int(given["micro-batch-size"]) * (ranks // split)), 0)
        environment = dict(line.split("=", 1) for line in
                           null_separated(starts / f"{rank}.environment"))
        self.assertEqual(environment["PARPLAN_NODE_RANK"], str(rank))
        for line in (volume / "megatron" / "megatron.env").read_text().splitlines():
            variable, _, value = line.partition("=")
            self.assertEqual(environment[variable], value)

    def check_variables(self, script, volume):
        """Every variable of a script is one that the files of the plan set."""
        files = [volume / "plan.env", volume / "megatron" / "megatron.env"]
        known = {name for file in files
                 for name in re.findall(r"^(?:export )?(\w+)=", file.read_text(), re.MULTILINE)}
        used = set(re.findall(r"\$\{?([A-Z]\w*)", script)) | set(
            re.findall(r"variables\[\"(\w+)\"\]", script))
        self.assertTrue(used)
        self.assertLessEqual(used - {"PATH"}, known)

    def check_shell_example(self, name, master):
        (pod,) = pods(name)
        (trainer,) = pod["containers"]
        self.assertEqual(trainer["command"], ["/bin/bash", "-euc"])
        starts = self.starts(name)
        for index in range(2):
            volume = self.fetch(name, pod, index)
            (script,) = trainer["args"]
            self.check_variables(script, volume)
            subprocess.run(["/bin/bash", "-euc", script.replace("/plan/", f"{volume}/")],
                           check=True, timeout=PATIENCE_SECONDS,
                           env={"PATH": self.path, "STARTS": str(starts)})
            self.check_start(starts, volume, index, master,
                             "/workspace/Megatron-LM/pretrain_gpt.py")

    def test_train_job(self):
        self.check_shell_example("kubeflow-trainer.yaml", "llama2-7b-node-0-0.llama2-7b")

    def test_the_recommended_number_of_nodes_reaches_the_pods(self):
        job = next(one for one in documents("kubeflow-trainer.yaml") if one["kind"] == "TrainJob")
        job["metadata"]["annotations"] = {
            "trainer.kubeflow.org/autoconf-plugin": "parplan", "parplan.io/model": "llama2-7b",
            "parplan.io/global-batch-size": "64", "parplan.io/min-nodes": "2"}
        job["spec"]["suspend"] = True
        del job["spec"]["trainer"]["numNodes"]
        examples = FLAGS.source / "deploy" / "examples"
        done = subprocess.run(
            [FLAGS.bin / "planctl", "recommend", "-", "--annotate-pods", "--cluster",
             examples / "a100-40g-16.cluster.json", "--model-dir", examples, "--server",
             self.server.address], input=json.dumps(job), capture_output=True, text=True,
            check=False, timeout=PATIENCE_SECONDS)
        self.assertEqual(done.returncode, 0, done.stderr)
        values = {step["path"]: step["value"] for step in json.loads(done.stdout)}
        self.assertEqual(values["/spec/trainer/numNodes"], 2)
        job["spec"]["runtimePatches"] = values["/spec/runtimePatches"]
        self.assertEqual(SCHEMAS.errors(job), [])
        (patch,) = job["spec"]["runtimePatches"]
        (node,) = patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
        runtime = documents("kubeflow-trainer.yaml")[0]
        self.assertEqual([node["name"]],
                         [one["name"] for one in runtime["spec"]["template"]["spec"]["replicatedJobs"]])
        # A question for one node: the number of the pods counts.
        question = parplan.load(self.folder / "question.json")
        question["spec"]["topology"]["node_groups"][0]["node_count"] = 1
        (self.folder / "one-node.json").write_text(json.dumps(question))
        annotations = node["template"]["spec"]["template"]["metadata"]["annotations"]
        (pod,) = pods("kubeflow-trainer.yaml")
        volume = self.fetch("kubeflow-trainer.yaml", pod, 1, annotations, "one-node.json")
        self.assertIn("PARPLAN_NODE_COUNT='2'\n", (volume / "plan.env").read_text())

    def test_job_set(self):
        self.check_shell_example("jobset.yaml", "llama2-7b-node-0-0.llama2-7b")

    def test_volcano(self):
        self.check_shell_example("volcano.yaml", "llama2-7b-node-0.llama2-7b")

    def ray_train(self):
        path = FLAGS.source / "deploy/examples/schedulers/ray_train.py"
        spec = importlib.util.spec_from_file_location("ray_train", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module, path.read_text()

    def test_ray_job(self):
        (job,) = documents("rayjob.yaml")
        head, worker = pods("rayjob.yaml")
        self.assertEqual(head["initContainers"], worker["initContainers"])
        volume = self.fetch("rayjob.yaml", head, 0)
        module, text = self.ray_train()
        self.check_variables(text, volume)
        words = shlex.split(job["spec"]["entrypoint"])
        self.assertEqual(words[:3], ["python3", "/scripts/ray_train.py", "/plan"])
        starts = self.starts("rayjob.yaml")
        cluster = fake_ray.Cluster({"10.0.0.5": 8, "10.0.0.6": 8})
        with fake_ray.installed(cluster), \
                mock.patch.dict(os.environ, PATH=self.path, STARTS=str(starts)):
            self.assertEqual(module.main(str(volume), words[3:]), 0)
        self.assertEqual(cluster.started, [0, 1])
        for rank in range(2):
            self.check_start(starts, volume, rank, "10.0.0.5", words[3])

    def test_a_failed_rank_fails_the_ray_job(self):
        (pod, _) = pods("rayjob.yaml")
        volume = self.fetch("rayjob.yaml", pod, 1)
        module, _ = self.ray_train()
        failing = self.folder / "failing"
        failing.mkdir()
        (failing / "torchrun").write_text("#!/bin/bash\nexit 3\n")
        (failing / "torchrun").chmod(0o755)
        with fake_ray.installed(fake_ray.Cluster({"10.0.0.5": 8, "10.0.0.6": 8})), \
                mock.patch.dict(os.environ, PATH=f"{failing}:/usr/bin:/bin"):
            self.assertEqual(module.main(str(volume), ["train.py"]), 3)
        # A cluster with too few nodes is waited for, and never trained on.
        with fake_ray.installed(fake_ray.Cluster({"10.0.0.5": 8})), \
                mock.patch.dict(os.environ, PATH=self.path), self.assertRaises(TimeoutError):
            module.main(str(volume), ["train.py"])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    _, rest = parser.parse_known_args(namespace=FLAGS)
    FLAGS.source, FLAGS.bin = FLAGS.source.resolve(), FLAGS.bin.resolve()
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()
