#!/usr/bin/python3
"""A job in Python reports what it measures to a real server, which speaks TLS and asks who calls:
by its certificate, or by the token of its service account.

    report_test.py --source FOLDER --bin FOLDER --library FILE
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import grpc

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "integration"))
import parplan_process as parplan
from service_accounts import ServiceAccounts

FLAGS = argparse.Namespace()
PATIENCE_SECONDS = 600
SUCCEEDED, FAILED = 2, 3

# In a process of its own: this one has other copies of the messages.
JOB = """
import json, pathlib, sys
source, library, folder, target = sys.argv[1:5]
tls, windows, failure = map(json.loads, sys.argv[5:8])
sys.path.insert(0, str(pathlib.Path(source, "clients", "python")))
import parplan_executor
read = lambda name: pathlib.Path(folder, name).read_bytes()
plan = parplan_executor.Plan(parplan_executor.load_library(library), read("plan.dsse.json"),
                             read("trust.json"), read("model.json"), read("topology.json"))
try:
    with plan.report(target, **tls) as report:
        for rank, step in windows:
            report.add(rank=rank, first_step=step, step_count=10, median_step_seconds=0.1,
                       peak_memory_bytes=1 << 30)
        if failure:
            raise RuntimeError(failure)
        print("lost", report.close())
except RuntimeError as error:
    print("failed", error)
"""


class Job(unittest.TestCase):
    """A server that speaks TLS, a plan of it, and a job that runs the plan."""

    def serve(self, *flags):
        # Paths of sockets are short.
        folder = tempfile.TemporaryDirectory(dir="/tmp")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.made = parplan.make_certificates(self.folder / "certificates")
        self.server = parplan.Server(
            FLAGS.bin / "parplan-server", self.folder,
            "--tls-certificate", self.made / "server.pem", "--tls-key", self.made / "server.key",
            *self.server_flags())
        self.server.__enter__()
        self.addCleanup(self.server.__exit__)

    def server_flags(self):
        """What the server asks of callers."""
        raise NotImplementedError

    def make_plan(self, *flags):
        # The question of the example Job needs no measurements.
        trust = self.folder / "data" / "trust-bundle.jwks.json"
        done = subprocess.run(
            [str(part) for part in (
                FLAGS.bin / "parplan-sidecar", "init", "--server", self.server.address,
                "--tls-ca", self.made / "ca.pem", *flags, "--trust", trust, "--volume",
                self.folder / "plan", "--node-rank", "0", "--question",
                FLAGS.source / "deploy" / "kubernetes" / "job" / "question.json")],
            capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.plan = done.stdout.strip()
        self.job = self.folder / "job"
        self.job.mkdir()
        for name in ("plan.dsse.json", "model.json", "topology.json"):
            (self.job / name).write_bytes((self.folder / "plan" / name).read_bytes())
        (self.job / "trust.json").write_bytes(trust.read_bytes())

    def run_job(self, tls, windows, failure=None):
        return subprocess.run(
            [sys.executable, "-B", "-c", JOB, FLAGS.source, FLAGS.library, self.job,
             self.server.address, json.dumps(tls), json.dumps(windows), json.dumps(failure)],
            capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS)

    def executions_for(self, *files, metadata=None):
        """The executions of the plan that a caller with these files in PEM, or metadata, sees."""
        credentials = grpc.ssl_channel_credentials(*(pathlib.Path(file).read_bytes()
                                                     for file in files))
        with parplan.Client(self.server.address, credentials) as client:
            return client.call("parplan.v1.ExecutionService", "ListExecutions",
                               {"parent": self.plan}, PATIENCE_SECONDS, metadata).executions


class Reports(Job):
    def setUp(self):
        self.serve()
        self.tls = {"ca_file": str(self.made / "ca.pem"),
                    "certificate_file": str(self.made / "client.pem"),
                    "key_file": str(self.made / "client.key")}
        self.make_plan("--tls-certificate", self.tls["certificate_file"],
                       "--tls-key", self.tls["key_file"])

    def server_flags(self):
        return "--tls-client-ca", self.made / "ca.pem", "--allow-all-callers"

    def executions(self):
        return self.executions_for(*(self.tls[name]
                                     for name in ("ca_file", "key_file", "certificate_file")))

    def test_windows_and_the_end_reach_the_server(self):
        done = self.run_job(self.tls, [(0, 0), (1, 0), (0, 10)])
        self.assertEqual((done.returncode, done.stdout), (0, "lost 0\n"), done.stderr)
        (execution,) = self.executions()
        self.assertEqual((execution.state, execution.window_count), (SUCCEEDED, 3))

    def test_a_job_that_fails_says_why(self):
        done = self.run_job(self.tls, [(0, 0)], failure="out of memory")
        self.assertEqual((done.returncode, done.stdout), (0, "failed out of memory\n"), done.stderr)
        (execution,) = self.executions()
        self.assertEqual((execution.state, execution.window_count), (FAILED, 1))
        self.assertEqual(execution.failure_reason, "RuntimeError: out of memory")

    def test_who_may_not_call_loses_windows_and_not_the_job(self):
        done = self.run_job({"ca_file": self.tls["ca_file"]}, [(0, 0), (0, 10)])
        self.assertEqual((done.returncode, done.stdout), (0, "lost 2\n"), done.stderr)
        self.assertEqual(len(self.executions()), 0)

    def test_a_file_that_is_not_there_is_named(self):
        done = self.run_job({**self.tls, "key_file": "/nowhere/job.key"}, [])
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("/nowhere/job.key", done.stderr)


class ReportsWithTokens(Job):
    """The caller is the service account of its token."""

    def setUp(self):
        self.serve()
        self.tls = {"ca_file": str(self.made / "ca.pem"), "token_file": str(self.token_file)}
        self.make_plan("--token-file", self.token_file)

    def server_flags(self):
        self.accounts = ServiceAccounts(self.folder)
        self.token_file = self.folder / "token"
        self.token_file.write_text(self.accounts.token())
        config = self.folder / "server.json"
        config.write_text(json.dumps({"authorization": {
            "grants": [{"identities": ["k8s:lab/planner"], "role": role, "clusters": ["*"], **more}
                       for role, more in (("planner", {}), ("executor", {"jobs": ["*"]}))],
            "service_accounts": self.accounts.configuration()}}))
        return "--config", config

    def executions(self):
        bearer = (("authorization", f"Bearer {self.accounts.token()}"),)
        return self.executions_for(self.tls["ca_file"], metadata=bearer)

    def test_windows_of_a_service_account_reach_the_server(self):
        done = self.run_job(self.tls, [(0, 0), (0, 10)])
        self.assertEqual((done.returncode, done.stdout), (0, "lost 0\n"), done.stderr)
        (execution,) = self.executions()
        self.assertEqual((execution.state, execution.window_count), (SUCCEEDED, 2))

    def test_another_service_account_and_none_lose_windows_and_not_the_job(self):
        self.token_file.write_text(self.accounts.token(sub="system:serviceaccount:lab:stranger"))
        for tls in (self.tls, {"ca_file": self.tls["ca_file"]}):
            done = self.run_job(tls, [(0, 0)])
            self.assertEqual((done.returncode, done.stdout), (0, "lost 1\n"), done.stderr)
        self.assertEqual(len(self.executions()), 0)

    def test_a_token_is_not_sent_where_others_could_read_it(self):
        done = self.run_job({"token_file": self.tls["token_file"]}, [])
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("a token is sent over TLS or a Unix socket only", done.stderr)
        done = self.run_job({**self.tls, "token_file": "/nowhere/token"}, [])
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("/nowhere/token", done.stderr)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--library", type=pathlib.Path, required=True)
    _, rest = parser.parse_known_args(namespace=FLAGS)
    FLAGS.source, FLAGS.bin = FLAGS.source.resolve(), FLAGS.bin.resolve()
    FLAGS.library = FLAGS.library.resolve()
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()
