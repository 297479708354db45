"""A parplan-sidecar of its own process, and what the cases around it have in common."""
import argparse
import json
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "integration"))
import parplan_process as parplan  # noqa: E402
from machine import PATIENCE_SECONDS, wait_for  # noqa: E402

# Set by the program.
FLAGS = argparse.Namespace()
OK, FAILED, WRONG, NOTHING_FITS, MISSING, REFUSED, UNAVAILABLE, NOT_FOUND = range(8)
PLANS, EXECUTIONS = "parplan.v1.PlanService", "parplan.v1.ExecutionService"


def window(rank, first_step, milliseconds=100):
    return {"rank": rank, "first_step": first_step, "step_count": 10,
            "median_step_duration": parplan.seconds(milliseconds / 1000),
            "peak_memory_bytes": 1 << 30}


class Sidecar:
    """`parplan-sidecar run`, killed at the latest with the `with` block."""

    def __init__(self, folder, server, *flags):
        self.folder = folder
        self.log_path = folder / "sidecar.log"
        self.socket = folder / "plan" / "parplan.sock"
        self.arguments = [
            FLAGS.bin / "parplan-sidecar", "run", "--server", server,
            "--trust", folder / "data" / "trust-bundle.jwks.json", "--volume", folder / "plan",
            "--socket", self.socket, "--state-dir", folder / "state",
            "--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0",
            "--port-file", folder / "sidecar-port",
            "--metrics-port-file", folder / "sidecar-metrics-port", *flags]
        self.process = None

    def __enter__(self):
        return self.start()

    def __exit__(self, *unused):
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def start(self):
        for name in ("sidecar-port", "sidecar-metrics-port"):
            (self.folder / name).unlink(missing_ok=True)
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen([str(part) for part in self.arguments], stderr=log)
        wait_for("the sidecar", lambda: (self.folder / "sidecar-metrics-port").exists()
                 or self.process.poll() is not None)
        if self.process.poll() is not None:
            raise AssertionError(f"the sidecar ended with {self.process.returncode}: {self.log()}")
        self.port = int((self.folder / "sidecar-port").read_text())
        self.metrics_port = int((self.folder / "sidecar-metrics-port").read_text())
        return self

    def log(self):
        return self.log_path.read_text(errors="replace")

    def events(self, name):
        return [line for line in map(json.loads, filter(None, self.log().splitlines()))
                if line["event"] == name]

    def metrics(self):
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=60) as answer:
            text = answer.read().decode()
        return {name: float(value) for name, value in
                re.findall(r"^([a-z_]+(?:\{[^}]*\})?) (\S+)$", text, re.MULTILINE)}

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE_SECONDS)

    def kill(self):
        self.process.kill()
        self.process.wait()


class SidecarTest(unittest.TestCase):
    credentials = None

    def setUp(self):
        # Paths of sockets are short.
        folder = tempfile.TemporaryDirectory(dir="/tmp")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.plan = self.folder / "plan"
        self.trust = self.folder / "data" / "trust-bundle.jwks.json"

    def serve(self, *flags):
        return parplan.Server(FLAGS.bin / "parplan-server", self.folder, *flags)

    def upload(self, server):
        with parplan.Client(server.address, self.credentials) as client:
            client.upload("clusters/lab/nodes/n1", "upload-1", parplan.small_profile())

    def create(self, server, job="job-1", batch=8, **fields):
        with parplan.Client(server.address, self.credentials) as client:
            return client.call(PLANS, "CreatePlan", parplan.small_question(
                batch, request_id=f"{job}-{batch}-{time.monotonic_ns()}", job_id=job, **fields))

    def init(self, *arguments, **options):
        return subprocess.run(
            [str(part) for part in (FLAGS.bin / "parplan-sidecar", "init", "--trust", self.trust,
                                    "--volume", self.plan, *arguments)],
            capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False, **options)

    def read(self, name):
        return (self.plan / name).read_text()

    def environment(self, name):
        """Returns the variables of a shell that has read a file of the volume."""
        done = subprocess.run(["bash", "-euc", f". {shlex.quote(str(self.plan / name))}; env -0"],
                              capture_output=True, text=True, check=True,
                              env={"PATH": "/usr/bin:/bin"})
        return dict(entry.split("=", 1) for entry in done.stdout.split("\0") if "=" in entry)
