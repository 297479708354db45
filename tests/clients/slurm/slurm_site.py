"""A site with Slurm and a planner: configuration, hooks, models, and measurements to plan with."""
import json
import os
import pathlib
import pwd
import random
import re
import shutil
import socket
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "integration"))
from parplan_process import (Client, Server, grants_flags, make_certificates,  # noqa: E402
                             seconds)
from slurm_cluster import Cluster  # noqa: E402

PLANNER_CLUSTER = "lab"
# Files of deploy/slurm/hooks.
HOOKS = {"PrologSlurmctld": "slurmctld-prolog", "Prolog": "prolog",
         "EpilogSlurmctld": "slurmctld-epilog", "Epilog": "epilog"}


def layer(name, kind, hidden=48, **fields):
    return {"layer_definition_id": name, "kind": f"LAYER_KIND_{kind}", "hidden_size": hidden,
            "sequence_length": 24, **fields}


def model(decoders=4, hidden=48, heads=4):
    """A GPT; the default is one that cores train in milliseconds."""
    return {
        "model_id": "gpt",
        "layer_definitions": [
            layer("embedding", "EMBEDDING", hidden, vocabulary_size=96),
            layer("decoder", "DECODER", hidden, attention_head_count=heads,
                  feed_forward_size=4 * hidden, feed_forward_kind="FEED_FORWARD_KIND_GELU"),
            layer("head", "HEAD", hidden, vocabulary_size=96)],
        "layer_runs": [{"layer_definition_id": "embedding", "layer_count": 1},
                       {"layer_definition_id": "decoder", "layer_count": decoders},
                       {"layer_definition_id": "head", "layer_count": 1}],
        "precision": "PRECISION_FP32", "optimizer": "OPTIMIZER_ADAM"}


def profile(device_kind):
    """Figures for `model()` on nodes of one core each. They are made up: what is tested is how a
    plan gets to a job, not how good it is."""
    definitions = model()["layer_definitions"]
    content = {"provenance": {"agent": "test"}, "device_kind": device_kind, "devices_per_node": 1,
               "precision": "PRECISION_FP32", "overlap_slowdown": 1.2,
               "context_memory_bytes": 1 << 24, "layer_definitions": definitions,
               "layer_timings": [], "layer_memories": [], "collective_timings": []}
    for definition in definitions:
        name = definition["layer_definition_id"]
        for batch in (1, 2, 4, 8, 16, 32, 64):
            content["layer_timings"].append({
                "layer_definition_id": name, "tensor_parallel_degree": 1,
                "micro_batch_size": batch, "forward_duration": seconds(1e-4 * (1 + batch)),
                "backward_duration": seconds(2e-4 * (1 + batch))})
        content["layer_memories"].append({
            "layer_definition_id": name, "tensor_parallel_degree": 1, "parameter_count": 30000,
            "activation_bytes_per_sample": 100000, "checkpoint_bytes_per_sample": 5000})
    for collective in ("ALL_REDUCE", "ALL_GATHER", "REDUCE_SCATTER", "SEND_RECEIVE", "ALL_TO_ALL",
                       "BROADCAST"):
        for size in (1 << 10, 1 << 16, 1 << 22):
            content["collective_timings"].append({
                "collective": f"COLLECTIVE_{collective}", "participant_count": 2,
                "rank_stride": 1, "message_size_bytes": size,
                "median_duration": seconds(1e-4 + size / 1e9)})
    return content


def processor_kind():
    """Returns the kind that the back end `cpu` reports."""
    found = re.search(r"^model name\s*:\s*(.*)$", pathlib.Path("/proc/cpuinfo").read_text(),
                      re.MULTILINE)
    return "CPU " + (found.group(1).strip() if found else "unknown")


def memory_of_core():
    """Half of what the back end `cpu` counts as the memory of a core."""
    total = int(re.search(r"MemTotal:\s*(\d+)",
                          pathlib.Path("/proc/meminfo").read_text()).group(1)) * 1024
    return total // os.cpu_count() // 2


class Site:
    """Ends at the latest with the `with` block."""

    def __init__(self, flags, folder):
        self.flags = flags
        self.folder = pathlib.Path(folder)
        self.config_path = self.folder / "parplan-slurm.json"
        self.kind = processor_kind()
        self.unused = socket.socket()
        # Between the ports that other tests' jobs take and those that Linux gives away.
        self.first_port = random.randrange(30000, 32000)
        self.slurm = Cluster(self.folder, self.flags.plugin)

    def __enter__(self):
        try:
            return self._begin()
        except BaseException:
            self.__exit__()
            raise

    def _begin(self):
        # A port where nobody listens, and nobody else can.
        self.unused.bind(("127.0.0.1", 0))
        (self.folder / "planner").mkdir()
        self.server = Server(self.flags.server_binary, self.folder / "planner").start()
        self.client = Client(self.server.address)
        self.client.upload(f"clusters/{PLANNER_CLUSTER}/nodes/n1", "one", profile(self.kind))
        self.trust = self.folder / "planner/data/trust-bundle.jwks.json"
        self.spool = self.folder / "plans"
        self.spool.mkdir()
        self.model_path = self.folder / "model.json"
        self.model_path.write_text(json.dumps(model(), indent=2))
        self.configure()
        settings = []
        for setting, name in HOOKS.items():
            text = (self.flags.source / "deploy/slurm/hooks" / name).read_text()
            script = self.folder / name
            script.write_text(text.replace("/usr/bin/planctl", str(self.flags.planctl)).replace(
                "/etc/parplan/slurm.json", str(self.config_path)))
            script.chmod(0o755)
            settings.append(f"{setting}={script}")
        self.slurm.settings = "\n".join(settings)
        self.slurm.user = self._controller_user()
        shutil.chown(self.spool, self.slurm.user)
        log = self.folder / "hooks.log"
        log.touch()
        log.chmod(0o666)
        self.slurm.__enter__()
        return self

    def __exit__(self, *unused):
        try:
            self.slurm.stop()
        finally:
            if hasattr(self, "server"):
                self.server.__exit__()
            self.unused.close()

    def _controller_user(self):
        """Debian's user for it, as sites have it, where that user gets at the files of this test."""
        try:
            pwd.getpwnam("slurm")
        except KeyError:
            return "root"
        done = subprocess.run(
            ["setpriv", "--reuid=slurm", "--regid=slurm", "--clear-groups", "sh", "-c",
             f"cd '{self.folder}' && cat '{self.config_path}' && '{self.flags.planctl}' --version"],
            capture_output=True, check=False)
        return "slurm" if done.returncode == 0 else "root"

    @property
    def nobody(self):
        return "127.0.0.1:%d" % self.unused.getsockname()[1]

    def configure(self, **changes):
        """Writes what the hooks read from now on."""
        config = {
            "cluster": PLANNER_CLUSTER, "server": self.server.address, "deadline_seconds": 600,
            "search_seconds": 10, "when_away": "launch", "when_refused": "cancel",
            "when_unverified": "cancel", "spool_dir": str(self.spool),
            "node_dir": str(self.folder / "node/%n"), "trust": str(self.trust),
            "slurm_conf": str(self.folder / "etc/slurm.conf"), "log": str(self.folder / "hooks.log"),
            "first_master_port": self.first_port,
            "devices": {
                "gpu:h200": {"device_kind": "NVIDIA H200", "device_memory_bytes": 150754820096},
                "gpu:a100": {"device_kind": "NVIDIA A100-SXM4-80GB",
                             "device_memory_bytes": 85899345920},
                "core:here": {"device_kind": self.kind, "device_memory_bytes": memory_of_core()}},
            **changes}
        # The planner must have time.
        config["search_seconds"] = min(config["search_seconds"], config["deadline_seconds"] / 2)
        other = self.config_path.with_suffix(".new")
        other.write_text(json.dumps(config, indent=1))
        other.replace(self.config_path)

    def plan_flags(self, batch=32):
        return ["--plan=auto", f"--plan-model={self.model_path}", f"--plan-batch={batch}"]

    def log_lines(self, hook, job):
        """Returns the lines that a hook has logged of a job."""
        path = self.folder / "hooks.log"
        text = path.read_text() if path.exists() else ""
        return [line for line in text.split("\n") if f" {hook} job={job} " in line]

    def executions(self, plan):
        answer = self.client.call("parplan.v1.ExecutionService", "ListExecutions",
                                  {"parent": plan})
        return list(answer.executions)
