#!/usr/bin/python3
"""Mixed load on a server whose store does not grow, and what its memory, descriptors and threads do.

    soak.py SERVER MINUTES [--rate ROUNDS] [--mutual-tls] [--results FILE]

`./parplan-dev soak` runs it. The first third of the time, at most 20 minutes, is warm-up: caches
and queues fill. Afterwards the physical memory may grow by less than 0.1 MB a minute, by a line of
least squares through the samples of each second, and the largest numbers of descriptors and threads
of the second half may be above those of the first by one for each caller. In a run of less than half an hour the
slope is printed but not judged: pages that allocators return now and then are more than it allows.
Ends with 1 if that does not hold or a call had another end than it should.
"""
import argparse
import collections
import itertools
import json
import pathlib
import random
import sys
import tempfile
import threading
import time
import uuid

import grpc

import parplan_process as parplan

AGENTS = "parplan.v1.AgentService"
CALIBRATIONS = "parplan.v1.CalibrationService"
EXECUTIONS = "parplan.v1.ExecutionService"
PLANS = "parplan.v1.PlanService"
PROFILES = "parplan.v1.ProfileService"

NODES = 8
JOBS = 16
# More than the server's caches of snapshots hold, and few enough to be asked often in a minute.
SHAPES = 48
CALLERS = 4
MAX_SLOPE = 0.1
JUDGED_MINUTES = 30
REFUSED = {grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND}


def request_id(*words):
    """The same for the same words, so that a repeated call stores nothing new."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, " ".join(map(str, words))))


class Caller(threading.Thread):
    """Calls methods of all kinds, so many a second, until it is ended."""

    def __init__(self, number, connect, rate):
        super().__init__(daemon=True)
        self.connect = connect
        self.pause = 1 / rate
        self.random = random.Random(number)
        self.counts = collections.Counter()
        self.failures = collections.Counter()
        self.ends = threading.Event()
        self.client = None
        self.kinds = [self.ask_again, self.ask_for_a_shape, self.list_things, self.get_plan,
                      self.upload, self.report, self.be_refused, self.connect_anew]

    def run(self):
        self.client = self.connect()
        due = time.monotonic()
        for number in itertools.count():
            # The rarer ones open connections or write.
            rare = number % 10 == 0
            kind = self.random.choice(self.kinds if rare else self.kinds[:4])
            try:
                kind()
            except grpc.RpcError as error:
                self.failures[f"{kind.__name__}: {error.code().name}: {error.details()}"] += 1
            except Exception as error:  # pylint: disable=broad-except
                self.failures[f"{kind.__name__}: {error!r}"] += 1
            self.counts[kind.__name__] += 1
            due = max(due + self.pause, time.monotonic() - 1)
            if self.ends.wait(max(0, due - time.monotonic())):
                break
        self.client.channel.close()

    def job(self):
        return self.random.randrange(JOBS)

    def ask_again(self):
        number = self.job()
        return self.client.call(PLANS, "CreatePlan", parplan.small_question(
            job_id=f"job-{number}", request_id=request_id("plan", number)))

    def ask_for_a_shape(self):
        question = parplan.small_question(batch=8 * self.random.randint(1, SHAPES))
        self.client.call(PLANS, "ShapePlan", {
            "parent": "clusters/lab", "model": question["spec"]["model"],
            "global_batch_size": question["spec"]["global_batch_size"],
            "offers": [{"device_kind": "Test GPU", "devices_per_node": 2,
                        "device_memory_bytes": 16 << 30, "min_device_count": 1,
                        "max_device_count": 2}]})

    def list_things(self):
        self.client.call(PLANS, "ListPlans", {"parent": "clusters/lab"})
        self.client.call(PROFILES, "ListProfiles", {"parent": "clusters/lab"})
        self.client.call(CALIBRATIONS, "ListCalibrations", {"parent": "clusters/lab"})
        self.client.call(AGENTS, "ListAgents", {"parent": "clusters/lab"})

    def get_plan(self):
        plan = self.ask_again()
        self.client.call(PLANS, "GetPlan", {"name": plan.name})

    def upload(self):
        node = f"clusters/lab/nodes/node-{self.random.randrange(NODES)}"
        self.client.upload(node, str(uuid.UUID(int=self.random.getrandbits(128), version=4)),
                           parplan.small_profile(1 + self.random.random()))

    def report(self):
        """Windows of an execution that stays open; those that are known are not stored again."""
        plan = self.ask_again()
        execution = self.client.call(EXECUTIONS, "CreateExecution", {
            "parent": plan.name, "request_id": request_id("run", plan.name)})
        self.client.call(EXECUTIONS, "ReportMetrics", [
            {"execution": execution.name, "window": {
                "rank": 0, "first_step": 10 * step, "step_count": 10,
                "median_step_duration": parplan.seconds(0.1)}} for step in range(20)])

    def be_refused(self):
        for method, request in (("GetPlan", {"name": "clusters/lab/plans/none"}),
                                ("CreatePlan", {"parent": "clusters/lab"})):
            try:
                self.client.call(PLANS, method, request)
                self.failures[f"{method} was not refused"] += 1
            except grpc.RpcError as error:
                if error.code() not in REFUSED:
                    raise

    def connect_anew(self):
        self.client.channel.close()
        self.client = self.connect()


class Samples:
    """What the process takes, with the seconds since the start."""

    def __init__(self, pid):
        self.process = pathlib.Path(f"/proc/{pid}")
        self.start = time.monotonic()
        self.rows = []

    def take(self):
        status = (self.process / "status").read_text()
        field = lambda name: int(status.split(f"{name}:")[1].split()[0])  # noqa: E731
        self.rows.append((time.monotonic() - self.start, field("VmRSS") / 1000,
                          len(list((self.process / "fd").iterdir())), field("Threads")))


def slope(rows):
    """MB a minute."""
    times = [row[0] / 60 for row in rows]
    sizes = [row[1] for row in rows]
    middle = sum(times) / len(times)
    spread = sum((when - middle) ** 2 for when in times)
    mean = sum(sizes) / len(sizes)
    return sum((when - middle) * (size - mean) for when, size in zip(times, sizes)) / spread


def peaks(rows, column):
    """The largest values of the first and the second half."""
    half = len(rows) // 2
    return [max(row[column] for row in part) for part in (rows[:half], rows[half:])]


def stored_bytes(folder):
    return sum(path.stat().st_size for path in folder.rglob("*.db"))


def run(flags, folder):
    server_flags = ["--profiles-per-node", "2", "--log-level", "warning"]
    credentials = None
    if flags.mutual_tls:
        files = folder / "tls"
        parplan.make_certificates(files)
        read = lambda name: (files / name).read_bytes()  # noqa: E731
        credentials = grpc.ssl_channel_credentials(read("ca.pem"), read("client.key"),
                                                   read("client.pem"))
        server_flags += ["--tls-certificate", files / "server.pem", "--tls-key",
                         files / "server.key", "--tls-client-ca", files / "ca.pem",
                         "--allow-all-callers"]
    with parplan.Server(flags.server, folder, *server_flags) as server:
        with parplan.Client(server.address, credentials) as client:
            for node in range(NODES):
                for number in range(2):
                    client.upload(f"clusters/lab/nodes/node-{node}", request_id(node, number),
                                  parplan.small_profile())
        callers = [Caller(number, lambda: parplan.Client(server.address, credentials),
                          flags.rate / CALLERS) for number in range(CALLERS)]
        for each in callers:
            each.start()
        samples = Samples(server.process.pid)
        end = time.monotonic() + 60 * flags.minutes
        warm_up = min(60 * flags.minutes / 3, 1200)
        stored = None
        while time.monotonic() < end:
            samples.take()
            if stored is None and samples.rows[-1][0] >= warm_up:
                stored = stored_bytes(folder)
            time.sleep(1)
        for each in callers:
            each.ends.set()
        for each in callers:
            each.join()
        grown = stored_bytes(folder) - stored
    rows = [row for row in samples.rows if row[0] >= warm_up]
    counts = sum((each.counts for each in callers), collections.Counter())
    failures = sum((each.failures for each in callers), collections.Counter())
    return {"minutes": flags.minutes, "warm_up_minutes": round(warm_up / 60, 2),
            "mutual_tls": flags.mutual_tls, "rounds": dict(sorted(counts.items())),
            "rounds_per_second": round(sum(counts.values()) / (60 * flags.minutes), 1),
            "rss_slope_mb_per_minute": round(slope(rows), 4),
            "rss_mb": {"start": round(samples.rows[0][1], 1), "warm": round(rows[0][1], 1),
                       "end": round(rows[-1][1], 1), "peak": round(max(r[1] for r in rows), 1)},
            "descriptors": peaks(rows, 2), "threads": peaks(rows, 3),
            "store_grown_bytes": grown, "failures": dict(failures)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("server")
    parser.add_argument("minutes", type=float)
    parser.add_argument("--rate", type=float, default=200, help="rounds of calls a second")
    parser.add_argument("--mutual-tls", action="store_true")
    parser.add_argument("--results", type=pathlib.Path)
    flags = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        found = run(flags, pathlib.Path(folder))
    text = json.dumps(found, indent=1)
    print(text)
    if flags.results:
        flags.results.write_text(text + "\n")
    wrong = [f"{what} grew: {first} and {second} at most in the two halves"
             for what in ("descriptors", "threads")
             for first, second in [found[what]] if second > first + CALLERS]
    if found["failures"]:
        wrong.append("calls had another end than they should")
    if flags.minutes >= JUDGED_MINUTES and found["rss_slope_mb_per_minute"] >= MAX_SLOPE:
        wrong.append("memory grew")
    for each in wrong:
        print(f"soak: {each}", file=sys.stderr)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
