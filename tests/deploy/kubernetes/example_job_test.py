#!/usr/bin/python3
"""The Job of deploy/kubernetes/job starts as docs/kubernetes.md tells it: whatever it needs is
named there, its question gets a plan from a real server that knows what the DaemonSet's agents
measure, and its trainer takes that plan.

    example_job_test.py --source FOLDER --bin FOLDER
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import tomllib
import unittest

import render
import rules

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "integration"))
import parplan_process as parplan

FLAGS = argparse.Namespace()
PATIENCE_SECONDS = 600
OVERLAYS = ("single", "replicas", "trial-plaintext")
MEASUREMENTS = ("layer_definitions", "layer_timings", "layer_memories", "collective_timings")
OK, REFUSED, NO_BACK_END = 0, 5, 6


def manifests(name):
    return render.render(FLAGS.source / "deploy" / "kubernetes" / name)


def find(documents, kind, name):
    (found,) = [document for document in documents
                if (document["kind"], document["metadata"]["name"]) == (kind, name)]
    return found


def texts(node):
    """All texts in a document."""
    if isinstance(node, str):
        yield node
    elif isinstance(node, (dict, list)):
        for value in (node.values() if isinstance(node, dict) else node):
            yield from texts(value)


def needed(documents):
    """Secrets and ConfigMaps that pods refer to, by kind and name, each with the keys that are
    used of it."""
    found = {}
    for document in rules.workloads(documents):
        pod = rules.pod_of(document)
        configured = [text for other in documents if other["kind"] == "ConfigMap"
                      for text in texts(other.get("data"))]
        volumes = {volume["name"]: volume for volume in pod.get("volumes", ())}
        for container in rules.containers_of(pod):
            for variable in container.get("env", ()):
                for field, kind in (("secretKeyRef", "Secret"), ("configMapKeyRef", "ConfigMap")):
                    source = variable.get("valueFrom", {}).get(field)
                    if source:
                        found.setdefault((kind, source["name"]), set()).add(source["key"])
            told = [*texts(container), *configured]
            for mount in container.get("volumeMounts", ()):
                volume = volumes.get(mount["name"], {})
                for kind, name in (("Secret", volume.get("secret", {}).get("secretName")),
                                   ("ConfigMap", volume.get("configMap", {}).get("name"))):
                    if name:
                        found.setdefault((kind, name), set()).update(
                            key for text in told for key in
                            re.findall(re.escape(mount["mountPath"]) + r"/([\w.-]+)", text))
    return found


def untold(documents, text):
    """Returns objects that have to be made by hand and that no line names with all their keys."""
    for (kind, name), keys in needed(documents).items():
        if any((other["kind"], other["metadata"]["name"]) == (kind, name) for other in documents):
            continue
        if not any(f"`{name}`" in line and all(f"`{key}`" in line for key in keys)
                   for line in text.splitlines()):
            yield f"{kind} {name} with {sorted(keys)}"


class Needs(unittest.TestCase):
    def test_what_has_to_be_made_by_hand_is_told(self):
        text = (FLAGS.source / "docs" / "kubernetes.md").read_text()
        for overlay in OVERLAYS:
            documents = [document for folder in (f"overlays/{overlay}", "agent", "job")
                         for document in manifests(folder)]
            self.assertEqual(list(untold(documents, text)), [], overlay)
        # Those are looked for, keys and all.
        self.assertEqual(list(untold(manifests("job"), text.replace("`token`", ""))),
                         ["Secret llama2-7b-ranks with ['token']"])
        self.assertEqual(list(untold(manifests("job"), text.replace("`parplan-client-tls`", ""))),
                         ["Secret parplan-client-tls with ['ca.crt', 'tls.crt', 'tls.key']"])

    def test_the_secrets_of_the_job_are_made_by_its_commands(self):
        text = (FLAGS.source / "docs" / "kubernetes.md").read_text().replace("\\\n", " ")
        made = {}
        for kind, name, rest in re.findall(
                r"^kubectl -n training create (configmap|secret generic) (\S+) (.*)$", text,
                re.MULTILINE):
            kind = "ConfigMap" if kind == "configmap" else "Secret"
            made[kind, name] = set(re.findall(r"--from-(?:file|literal)=([\w.-]+)", rest))
        own = {key: keys for key, keys in needed(manifests("job")).items()
               if key != ("ConfigMap", "llama2-7b-question")}
        self.assertEqual(made, own)


class Start(unittest.TestCase):
    """The pods of the Job, one after the other, with their containers' own arguments."""

    def setUp(self):
        # Paths of sockets are short.
        folder = tempfile.TemporaryDirectory(dir="/tmp")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        job = manifests("job")
        self.pod = rules.pod_of(find(job, "Job", "llama2-7b"))
        self.job_spec = find(job, "Job", "llama2-7b")["spec"]
        self.question = json.loads(
            find(job, "ConfigMap", "llama2-7b-question")["data"]["question.json"])
        self.agent = find(manifests("agent"), "ConfigMap", "parplan-agent")["data"]
        self.settings = tomllib.loads(self.agent["parplan-agent.toml"])

    def test_agents_measure_for_the_cluster_and_the_model_of_the_question(self):
        spec = self.question["spec"]
        self.assertEqual(self.question["parent"], f"clusters/{self.settings['cluster']}")
        self.assertEqual(spec["topology"]["cluster"], self.settings["cluster"])
        (path,) = self.settings["model"]
        self.assertEqual(json.loads(self.agent[pathlib.PurePath(path).name]), spec["model"])
        example = FLAGS.source / "deploy" / "examples" / "llama2-7b.model.json"
        self.assertEqual(spec["model"], parplan.load(example))
        (group,) = spec["topology"]["node_groups"]
        self.assertEqual(self.job_spec["completions"], group["node_count"])
        (trainer,) = self.pod["containers"]
        self.assertEqual(trainer["resources"]["limits"]["nvidia.com/gpu"],
                         str(group["devices_per_node"]))

    def measured(self, layers):
        """Returns a profile of an agent on one node: no links between nodes, and layers or none."""
        profile = parplan.load(FLAGS.source / "deploy" / "examples" / "llama2-7b-a100.profile.json")
        return profile if layers else {key: value for key, value in profile.items()
                                       if key not in MEASUREMENTS or key == "collective_timings"}

    def start_pod(self, server, index, job="run-1"):
        """Runs `fetch-plan` of pod `index`; the volume it wrote."""
        volume = self.folder / f"{job}-pod-{index}"
        (container,) = [one for one in self.pod["initContainers"] if one["name"] == "fetch-plan"]
        question = self.folder / "question.json"
        question.write_text(json.dumps(self.question))
        here = {"/plan": volume, "/question/question.json": question,
                "/trust/trust-bundle.jwks.json": server.folder / "data" / "trust-bundle.jwks.json"}
        arguments = []
        for argument in container["args"]:
            flag, _, value = argument.partition("=")
            # The server of the test is here and speaks no TLS.
            if flag.startswith("--tls"):
                continue
            value = server.address if flag == "--server" else str(here.get(value, value))
            value = value.replace("$(JOB_UID)", job)
            arguments.append(f"{flag}={value}" if "=" in argument else argument)
        done = subprocess.run([FLAGS.bin / "parplan-sidecar", *arguments], capture_output=True,
                              text=True, check=False, timeout=PATIENCE_SECONDS,
                              env={"JOB_COMPLETION_INDEX": str(index), "PATH": "/usr/bin:/bin"})
        self.assertEqual(done.returncode, OK, done.stderr)
        return volume, done.stdout.strip()

    def start_trainer(self, server, volume):
        """Returns the arguments that the trainer's script gives torchrun, here a stand-in."""
        programs = self.folder / "programs"
        programs.mkdir(exist_ok=True)
        torchrun = programs / "torchrun"
        torchrun.write_text("#!/bin/bash\nprintf '%s\\n' \"$@\"\n")
        torchrun.chmod(0o755)
        (trainer,) = self.pod["containers"]
        (script,) = trainer["args"]
        script = script.replace("/trust/", f"{server.folder / 'data'}/").replace(
            "/plan/", f"{volume}/")
        self.assertEqual(trainer["command"], ["/bin/bash", "-euc"])
        done = subprocess.run(["/bin/bash", "-euc", script], capture_output=True, text=True,
                              check=True, timeout=PATIENCE_SECONDS,
                              env={"PATH": f"{programs}:/usr/bin:/bin"})
        words = done.stdout.splitlines()
        program = words.index("parplan-exec")
        return words[:program], words[program + 1:]

    def check_trainer(self, server, index, volume):
        launcher, flags = self.start_trainer(server, volume)
        given = dict(zip(launcher[::2], launcher[1::2]))
        self.assertEqual(launcher[-1], "--no-python")
        self.assertEqual(
            {flag: given[flag] for flag in ("--nnodes", "--node-rank", "--nproc-per-node",
                                            "--master-addr", "--master-port")},
            {"--nnodes": "2", "--node-rank": str(index), "--nproc-per-node": "8",
             "--master-addr": "llama2-7b-0.llama2-7b", "--master-port": "29500"})

        def train(arguments):
            return subprocess.run(
                [FLAGS.bin / "parplan-exec", *arguments, "--ranks", "1"], cwd=volume,
                capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS)

        if (FLAGS.bin / "libparplan_cuda.so").exists():
            return
        # The plan is good, whole and for this job; what is missing here are the GPUs.
        done = train(flags)
        self.assertEqual(done.returncode, NO_BACK_END, done.stderr)
        job = flags[flags.index("--job") + 1]
        done = train(["another" if flag == job else flag for flag in flags])
        self.assertEqual(done.returncode, REFUSED, done.stderr)
        self.assertIn("AUDIENCE_MISMATCH", done.stderr)

    def test_the_job_gets_a_plan_that_its_trainer_takes(self):
        parent = f"clusters/{self.settings['cluster']}/nodes/n0"
        with parplan.Server(FLAGS.bin / "parplan-server", self.folder) as server:
            # At first the budget of a measurement may leave no time for layers.
            for job, layers in (("run-1", False), ("run-2", True)):
                with self.subTest(layers=layers):
                    with parplan.Client(server.address) as client:
                        client.upload(parent, job, self.measured(layers), PATIENCE_SECONDS)
                    names = set()
                    for index in range(self.job_spec["completions"]):
                        volume, name = self.start_pod(server, index, job)
                        names.add(name)
                        self.check_trainer(server, index, volume)
                    # All pods have one plan.
                    self.assertEqual(len(names), 1, names)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    _, rest = parser.parse_known_args(namespace=FLAGS)
    FLAGS.source, FLAGS.bin = FLAGS.source.resolve(), FLAGS.bin.resolve()
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()
