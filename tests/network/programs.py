"""The programs of the network test on its hosts: PostgreSQL, servers, a job of four ranks."""
import json
import pathlib
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration" / "replicas"))

import parplan_process as parplan  # noqa: E402
from lab import PATIENCE, PREFIX, wait_for  # noqa: E402
from postgres_server import PROGRAMS, PostgresServer  # noqa: E402

PLANS, EXECUTIONS = "parplan.v1.PlanService", "parplan.v1.ExecutionService"
RANKS = 4
PORT = 9477
RENDEZVOUS_PORT = 29500


class Postgres(PostgresServer):
    """Debian's PostgreSQL on a host. A context manager."""

    def __init__(self, host):
        super().__init__()
        self.host = host
        self.address = f"{host.address}:5432"

    def start(self):
        with open(f"{self.folder}/data/pg_hba.conf", "a", encoding="utf-8") as file:
            file.write(f"host all all {PREFIX}.0/24 trust\n")
        self.entry = self.host.run(
            [*self.as_user, PROGRAMS / "postgres", "-D", f"{self.folder}/data", "-k", self.folder,
             "-c", "listen_addresses=*", "-c", "fsync=off", "-c", "max_connections=120",
             "-c", "unix_socket_permissions=0777"], f"{self.folder}/server.log")
        self.process = self.entry.entry

        def answers():
            try:
                return self.query("SELECT 1")
            except subprocess.CalledProcessError:
                return None

        wait_for(answers, "PostgreSQL")

    def end(self, number):
        self.thaw()
        self.entry.__exit__()
        self.process = None

    def uri(self):
        return f"postgres://parplan@{self.address}/postgres"

    def processes(self):
        """The server and its sessions."""
        children = subprocess.run(["pgrep", "-P", str(self.entry.pid)], capture_output=True,
                                  text=True, check=False).stdout.split()
        return [self.entry.pid, *map(int, children)]

    def signal_all(self, name):
        for pid in self.processes():
            subprocess.run(["kill", f"-{name}", str(pid)], check=False, capture_output=True)

    def freeze(self):
        self.signal_all("STOP")

    def thaw(self):
        self.signal_all("CONT")

    def await_turn(self):
        """Returns as soon as some server holds a search turn."""
        self.query("DO $$ BEGIN WHILE NOT EXISTS (SELECT 1 FROM pg_locks "
                   "WHERE locktype = 'advisory' AND granted) LOOP PERFORM pg_sleep(0.001); "
                   "END LOOP; END $$")


class Server:
    """parplan-server on a host. All of a test share their keys."""

    def __init__(self, programs, host, folder, store=None, *flags):
        self.host = host
        self.address = f"{host.address}:{PORT}"
        self.folder = pathlib.Path(folder) / f"server-{host.name}"
        self.folder.mkdir(exist_ok=True)
        self.command = [programs / "parplan-server", "--listen", f"0.0.0.0:{PORT}",
                        "--insecure", "--metrics-listen", "off", "--data-dir",
                        pathlib.Path(folder) / "keys",
                        "--port-file", self.folder / "port", *flags]
        if store is not None:
            self.command += ["--store", store]
        self.process = None

    def __enter__(self):
        (self.folder / "port").unlink(missing_ok=True)
        self.process = self.host.run(self.command, self.folder / "server.log")
        wait_for(lambda: (self.folder / "port").exists() or not self.process.is_running(),
                 "server")
        assert self.process.is_running(), self.process.log()
        return self

    def __exit__(self, *_):
        self.process.__exit__()


def environment_of(rank, master="h1"):
    """Returns the variables of a rank as torchrun sets them, one rank on each host."""
    return {"RANK": str(rank), "WORLD_SIZE": str(RANKS), "LOCAL_RANK": "0",
            "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": master, "MASTER_PORT": str(RENDEZVOUS_PORT),
            "TORCHELASTIC_RUN_ID": "job", "PARPLAN_TOKEN": "secret of the job",
            "OMP_NUM_THREADS": "1"}


class Question:
    """Files for plans of four ranks on four hosts: a model, a cluster and a profile."""

    def __init__(self, programs, folder):
        self.programs, self.folder = programs, pathlib.Path(folder)
        definitions = [
            {"layer_definition_id": "embedding", "kind": "LAYER_KIND_EMBEDDING", "hidden_size": 48,
             "sequence_length": 24, "vocabulary_size": 96},
            {"layer_definition_id": "decoder", "kind": "LAYER_KIND_DECODER", "hidden_size": 48,
             "sequence_length": 24, "attention_head_count": 4, "feed_forward_size": 192,
             "feed_forward_kind": "FEED_FORWARD_KIND_GELU"},
            {"layer_definition_id": "head", "kind": "LAYER_KIND_HEAD", "hidden_size": 48,
             "sequence_length": 24, "vocabulary_size": 96}]
        self.model = self.write("model.json", {
            "model_id": "tiny-gpt", "layer_definitions": definitions,
            "layer_runs": [{"layer_definition_id": name, "layer_count": count}
                           for name, count in (("embedding", 1), ("decoder", 4), ("head", 1))],
            "precision": "PRECISION_FP32", "optimizer": "OPTIMIZER_ADAM"})
        self.profile = self.folder / "profile.json"
        self.cluster = self.folder / "cluster.json"
        self.run(programs / "parplan-agent", "--once", "--ranks", "1", "--even-if-busy", "--no-pin",
                 "--budget", "60s", "--micro-batches", "1", "--max-message-bytes", "4096",
                 "--cluster", "lab", "--node", "h1", "--model", self.model, "--out", self.profile,
                 "--topology-out", self.cluster)
        cluster = parplan.load(self.cluster)
        group = cluster["node_groups"][0]
        group["node_count"] = RANKS
        group.pop("node_names", None)
        cluster["link_tiers"] = [{"tier_id": "ethernet", "reach_device_count": RANKS}]
        self.cluster = self.write("cluster.json", cluster)
        # One rank measures no links, and how fast they are is of no matter here.
        profile = parplan.load(self.profile)
        profile["collective_timings"] = [
            {"collective": f"COLLECTIVE_{kind}", "participant_count": count, "rank_stride": stride,
             "message_size_bytes": size, "median_duration": parplan.seconds(1e-4 + size / 1e8)}
            for kind in ("ALL_REDUCE", "ALL_GATHER", "REDUCE_SCATTER", "SEND_RECEIVE")
            for count, stride in ((2, 1), (2, 2), (4, 1)) for size in (1 << 10, 1 << 16, 1 << 22)
            if count == 2 or kind != "SEND_RECEIVE"]
        self.write("profile.json", profile)

    def write(self, name, value):
        path = self.folder / name
        path.write_text(json.dumps(value))
        return path

    def run(self, *command, **options):
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True,
                              timeout=PATIENCE, check=False, **options)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def upload(self, server):
        self.run(self.programs / "planctl", "profile", "upload", self.profile, "--cluster", "lab",
                 "--node", "h1", "--server", server)

    def plan(self, server, planner, *flags):
        """Returns the file of a plan."""
        path = self.folder / f"plan-{planner}.json"
        self.run(self.programs / "planctl", "plan", "--model", self.model, "--cluster",
                 self.cluster, "--batch", "8", "--planner", planner, "--allow-estimates", "--job",
                 f"job-{planner}-{time.monotonic_ns()}", "--server", server, "--out", path, *flags)
        return path


    def train_on_one(self, host, plan, results, log, steps):
        """Trains a plan with four ranks on one host, which share memory."""
        with host.run(
                [self.programs / "parplan-exec", "--plan", plan, "--trust",
                 self.folder / "keys" / "trust-bundle.jwks.json", "--model", self.model,
                 "--topology", self.cluster, "--no-pin", "--ranks", RANKS, "--steps", steps,
                 "--results", results], log) as process:
            assert process.wait() == 0, process.log()


class Job:
    """Four ranks of parplan-exec under a plan, one on each of the hosts h1 to h4."""

    def __init__(self, lab, question, plan, folder, *flags, operation_timeout=5, master="h1",
                 limits=None, absent=(), environment=None):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir()
        self.hosts = [lab.hosts[f"h{rank + 1}"] for rank in range(RANKS)]
        self.ranks = {}
        for rank in range(RANKS):
            if rank in absent:
                continue
            own = {**environment_of(rank, master), **(environment or {}).get(rank, {})}
            self.ranks[rank] = self.hosts[rank].run(
                [question.programs / "parplan-exec", "--plan", plan, "--trust",
                 question.folder / "keys" / "trust-bundle.jwks.json", "--model", question.model,
                 "--topology", question.cluster, "--no-pin", "--operation-timeout",
                 operation_timeout, *flags], self.folder / f"rank-{rank}.log", own,
                (limits or {}).get(rank, ()))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for rank in self.ranks.values():
            rank.__exit__()

    def await_step(self, step):
        """Returns once rank 0 has trained so many steps."""
        wait_for(lambda: f"step {step} loss" in self.ranks[0].log()
                 or not self.ranks[0].is_running(), f"step {step}")
        assert self.ranks[0].is_running(), self.logs()

    def survivors(self, *lost):
        return {rank: process for rank, process in self.ranks.items() if rank not in lost}

    def errors(self, *lost, timeout=PATIENCE):
        """Returns the last words of the ranks that are not lost, once all of them have ended."""
        words = {}
        for rank, process in self.survivors(*lost).items():
            code = process.wait(timeout)
            ends = [json.loads(line) for line in process.log().splitlines()
                    if line.startswith("{") and '"event":"ended"' in line]
            assert code != 0 and ends, f"rank {rank} ended with {code}: {process.log()}"
            words[rank] = ends[-1]["message"]
        return words

    def logs(self):
        return "\n".join(f"rank {rank}: {process.log()}" for rank, process in self.ranks.items())
