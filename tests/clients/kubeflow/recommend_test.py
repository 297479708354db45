#!/usr/bin/python3
"""`planctl recommend` against a real server: recorded TrainJobs become the number of nodes that
`planctl shape` recommends, and a bad one becomes an error that names its field.

    recommend_test.py --source FOLDER --bin FOLDER
"""
import argparse
import copy
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "integration"))
import parplan_process as parplan

FLAGS = argparse.Namespace()
DATA = pathlib.Path(__file__).resolve().parent / "data"
PATIENCE_SECONDS = 600
DEVICES_PER_NODE = 8
OK, BAD_INPUT, NOTHING_FITS, UNREACHABLE = 0, 2, 3, 6
DONE = "trainer.kubeflow.org/autoconf-plugin-done"


def load(name):
    return json.loads((DATA / name).read_text())


def applied(patch, document):
    """Returns the document after a JSON patch of `test` and `add` (RFC 6902)."""
    document = copy.deepcopy(document)
    for step in patch:
        *path, last = [part.replace("~1", "/").replace("~0", "~")
                       for part in step["path"].split("/")[1:]]
        place = document
        for part in path:
            place = place[part]
        if step["op"] == "test":
            assert place[last] == step["value"], step
        else:
            assert step["op"] == "add", step
            place[last] = step["value"]
    return document


class Recommend(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.server = parplan.Server(FLAGS.bin / "parplan-server", cls.folder)
        cls.server.start()
        cls.addClassCleanup(cls.server.__exit__)
        cls.examples = FLAGS.source / "deploy" / "examples"
        with parplan.Client(cls.server.address) as client:
            client.upload("clusters/a100-40g-16/nodes/n0", "upload-1",
                          parplan.load(cls.examples / "llama2-7b-a100-2-nodes.profile.json"),
                          PATIENCE_SECONDS)
        cls.cluster = cls.examples / "a100-40g-16.cluster.json"
        cls.models = ["--model-dir", cls.examples]

    def planctl(self, *arguments, job=None, server=None):
        return subprocess.run(
            [FLAGS.bin / "planctl", *arguments, "--server", server or self.server.address,
             "--timeout", str(PATIENCE_SECONDS)],
            input=None if job is None else json.dumps(job), capture_output=True, text=True,
            check=False, timeout=PATIENCE_SECONDS)

    def recommend(self, job, *flags, cluster=None):
        return self.planctl("recommend", "-", "--cluster", cluster or self.cluster, *flags, job=job)

    def patched(self, job, *flags):
        done = self.recommend(job, *flags)
        self.assertEqual(done.returncode, OK, done.stderr)
        return applied(json.loads(done.stdout), job)

    def check_refused(self, job, field, *flags, code=BAD_INPUT, cluster=None):
        done = self.recommend(job, *(flags or self.models), cluster=cluster)
        self.assertEqual((done.returncode, done.stdout), (code, ""), done.stderr)
        self.assertIn(field, done.stderr)

    def shape(self, batch, least, most):
        done = self.planctl("--format", "json", "shape", "--cluster", self.cluster, "--model",
                            self.examples / "llama2-7b.model.json", "--batch", str(batch),
                            "--min-devices", str(least), "--max-devices", str(most))
        self.assertEqual(done.returncode, OK, done.stderr)
        shape = json.loads(done.stdout)
        return shape["options"][shape["recommended_option_index"]]["device_count"]

    def test_a_waiting_job_gets_the_nodes_of_the_recommended_shape(self):
        job = load("waiting.json")
        expected = copy.deepcopy(job)
        expected["spec"]["trainer"]["numNodes"] = \
            self.shape(64, DEVICES_PER_NODE, 2 * DEVICES_PER_NODE) // DEVICES_PER_NODE
        expected["metadata"]["annotations"][DONE] = "yes"
        patched = self.patched(job, *self.models)
        self.assertEqual(patched, expected)
        # The same job has the same answer, and one that was answered has no other.
        self.assertEqual(self.patched(job, *self.models), patched)
        self.assertEqual(self.patched(patched, *self.models), patched)

    def test_limits_of_job_and_cluster_hold(self):
        job = load("waiting.json")
        job["metadata"]["annotations"]["parplan.io/min-nodes"] = "2"
        self.assertEqual(self.patched(job, *self.models)["spec"]["trainer"]["numNodes"], 2)
        job["metadata"]["annotations"].update({"parplan.io/min-nodes": "1",
                                               "parplan.io/max-nodes": "999"})
        # No question asks for more nodes than the quota has.
        quota = [*self.models, "--max-nodes", "1"]
        self.assertEqual(self.patched(job, *quota)["spec"]["trainer"]["numNodes"], 1)
        job["metadata"]["annotations"]["parplan.io/min-nodes"] = "2"
        self.check_refused(job, "training/llama2-7b: metadata.annotations.parplan.io/min-nodes",
                           *quota)
        self.check_refused(job, "--min-nodes", *self.models, "--min-nodes", "3")
        del job["metadata"]["annotations"]["parplan.io/max-nodes"]
        self.check_refused(job, "--max-nodes", *self.models, "--max-nodes", str(2**30))

    def test_flags_answer_what_the_job_leaves_out(self):
        job = load("no-trainer.json")
        flags = ["--model", self.examples / "llama2-7b.model.json", "--batch", "64",
                 "--min-nodes", "2"]
        self.assertEqual(self.patched(job, *flags)["spec"]["trainer"], {"numNodes": 2})
        self.check_refused(job, "annotations.parplan.io/model", "--batch", "64")
        self.check_refused(job, "annotations.parplan.io/global-batch-size", *flags[:2])

    def test_jobs_of_others_stay_as_they_are(self):
        for job, flags in ((load("plain.json"), []), (load("waiting.json"), ["--plugin", "other"])):
            done = self.recommend(job, *self.models, *flags)
            self.assertEqual((done.returncode, json.loads(done.stdout)), (OK, []), done.stderr)
            self.assertIn("stays as it is", done.stderr)

    def test_a_bad_job_is_refused_by_field(self):
        def refused(change, field):
            job = load("waiting.json")
            change(job)
            self.check_refused(job, field)

        refused(lambda job: job.update(kind="PyTorchJob"), "kind")
        refused(lambda job: job["spec"].update(suspend=False), "spec.suspend")
        refused(lambda job: job["metadata"]["annotations"].update({"parplan.io/nodes": "2"}),
                "parplan.io/nodes")
        refused(lambda job: job["metadata"]["annotations"].update(
            {"parplan.io/global-batch-size": "10" * 12}), "parplan.io/global-batch-size")
        # Names of models lead to no other folder, and unknown ones are named.
        for name in ("../secrets", "/etc/passwd", ".hidden", "a b"):
            refused(lambda job, name=name: job["metadata"]["annotations"].update(
                {"parplan.io/model": name}), "parplan.io/model")
        refused(lambda job: job["metadata"]["annotations"].update({"parplan.io/model": "absent"}),
                "absent.model.json")
        refused(lambda job: job["metadata"]["annotations"].update({"parplan.io/target": "jax"}),
                "--target")

        def four_devices(job):
            trainer = job["spec"]["trainer"]
            trainer["numProcPerNode"] = 4
            for part in trainer["resourcesPerNode"].values():
                part["nvidia.com/gpu"] = "4"

        refused(four_devices, "spec.trainer.resourcesPerNode")
        job = load("waiting.json")
        self.check_refused(job, "--model-dir", "--batch", "64")

    def test_a_job_that_fits_nowhere_is_refused_with_the_cause(self):
        job = load("waiting.json")
        cluster = parplan.load(self.examples / "a100-40g-16.cluster.json")
        for group in cluster["node_groups"]:
            group["device_memory_bytes"] = str(2**30)
        path = self.folder / "small.cluster.json"
        path.write_text(json.dumps(cluster))
        self.check_refused(job, "memory", code=NOTHING_FITS, cluster=path)

    def test_a_server_that_does_not_answer(self):
        done = self.planctl("recommend", "-", "--cluster", self.cluster, *self.models,
                            job=load("waiting.json"), server="127.0.0.1:1")
        self.assertEqual((done.returncode, done.stdout), (UNREACHABLE, ""), done.stderr)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    _, rest = parser.parse_known_args(namespace=FLAGS)
    FLAGS.source, FLAGS.bin = FLAGS.source.resolve(), FLAGS.bin.resolve()
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()
