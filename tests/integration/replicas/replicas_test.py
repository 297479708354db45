#!/usr/bin/python3
"""Three servers, one PostgreSQL: what one server acknowledged every server has, equal
questions are searched once, and clients notice neither a rolling restart nor, but for calls
that are told so, the death of a server or of the database. Clients know the servers by a list
of addresses, or by a name that a real name server (dnsmasq) knows.

    replicas_test.py --server parplan-server --planctl planctl --load replica_load
        --examples FOLDER [--long]

Prints its figures. Waits for events only; how long things take is told, not judged.
"""
import argparse
import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import parplan_process as parplan  # noqa: E402
from name_server import NameServer  # noqa: E402
from postgres_server import PostgresServer  # noqa: E402
from replica import PATIENCE, Replica, ReservedPort, say, start_all, wait_for  # noqa: E402

PLANS = "parplan.v1.PlanService"
PROFILES = "parplan.v1.ProfileService"
CALIBRATIONS = "parplan.v1.CalibrationService"
NAME = "parplan.test"


class Load:
    """Callers of all servers, which go on until they are told to end."""

    def __init__(self, binary, folder, target, name):
        self.binary = binary
        self.journal = pathlib.Path(folder) / f"{name}.journal"
        self.target = target
        self.process = subprocess.Popen(
            [binary, "run", "--target", self.target, "--journal", self.journal,
             "--profile", f"{folder}/profile.json", "--question", f"{folder}/question.json"],
            stdout=subprocess.PIPE, text=True)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def count(self):
        """Resources that were acknowledged."""
        return self.journal.read_text().count("\n") if self.journal.exists() else 0

    def await_more(self, count):
        wanted = self.count() + count
        wait_for(lambda: self.count() >= wanted, f"{count} more answers", self.process)

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        output, _ = self.process.communicate(timeout=PATIENCE)
        return json.loads(output)

    def look(self):
        """Returns how much of the acknowledged data the servers have."""
        result = subprocess.run([self.binary, "look", "--target", self.target,
                                 "--journal", self.journal], stdout=subprocess.PIPE, text=True)
        return json.loads(result.stdout)


def show(name, figures):
    times = figures["milliseconds"]["all"]
    say(f"{name}: {figures['calls']} calls, {figures['failures']} failed"
        f"{' ' + json.dumps(figures['failures_by_kind']) if figures['failures'] else ''}; "
        f"median {times['median']:.1f} ms, p99 {times['p99']:.1f} ms, "
        f"worst {times['worst']:.0f} ms")


class Test:
    def __init__(self, options, folder, postgres, names, port):
        self.options = options
        self.folder = folder
        self.postgres = postgres
        self.names = names
        self.port = port
        self.scale = 8 if options.long else 1
        self.replicas = [Replica(options.server, folder, number, postgres.uri(), port)
                         for number in range(3)]
        self.list = "ipv4:" + ",".join(replica.address for replica in self.replicas)
        examples = pathlib.Path(options.examples)
        self.spec = {"model": parplan.load(examples / "llama2-7b.model.json"),
                     "topology": parplan.load(examples / "a100-40g-8.cluster.json")}
        self.cluster = self.spec["topology"]["cluster"]
        self.profile = parplan.load(examples / "llama2-7b-a100.profile.json")

    def run(self):
        try:
            # One of them makes the tables, and one the keys.
            start_all(self.replicas)
            (pathlib.Path(self.folder) / "profile.json").write_text(
                json.dumps(parplan.small_profile()))
            (pathlib.Path(self.folder) / "question.json").write_text(
                json.dumps(parplan.small_question()))
            self.check_addresses()
            self.check_equal_questions()
            self.check_coherence()
            self.check_holder_that_dies()
            self.check_rolling_restart()
            self.check_killed_server()
            self.check_killed_database()
            self.check_names()
            self.check_new_addresses()
            self.check_backup()
        finally:
            for replica in self.replicas:
                replica.__exit__()

    def question(self, batch, **fields):
        return {"parent": f"clusters/{self.cluster}",
                "spec": {**self.spec, "global_batch_size": batch}, **fields}

    def searches(self):
        return sum(replica.metric("parplan_searches_total") for replica in self.replicas)

    def check_addresses(self):
        """Every wrong address is refused in one line, which repeats no password."""
        config = pathlib.Path(self.folder) / "server.json"
        config.write_text(json.dumps({"store": "postgres://parplan:secret@db/parplan"}))
        for flags in (["--store", "mysql://db/parplan"], ["--store", "sqlite:"],
                      ["--store", "postgres://db/parplan?password=secret"],
                      ["--config", config]):
            result = subprocess.run([self.options.server, "--data-dir", f"{self.folder}/none",
                                     *flags], capture_output=True, text=True)
            assert result.returncode == 2, result
            assert "store: " in result.stderr and "secret" not in result.stderr, result.stderr
            assert result.stderr.count("\n") == 1, result.stderr
        result = subprocess.run(
            [self.options.server, "--data-dir", f"{self.folder}/none", "--listen", "127.0.77.9:0",
             "--metrics-listen", "off", "--store",
             self.postgres.uri().replace("parplan@", "nobody@")], capture_output=True, text=True)
        assert result.returncode == 1 and "PGPASSFILE" in result.stderr + result.stdout, result

    def check_equal_questions(self):
        clients = [parplan.Client(replica.address) for replica in self.replicas]
        clients[0].upload(f"clusters/{self.cluster}/nodes/node-0", "first", self.profile,
                          timeout=PATIENCE)
        # Every server under way, so that descriptors are read already.
        for client in clients:
            client.call(PLANS, "GetCapabilities", {})
            client.message("parplan.v1.CreatePlanRequest")
        before = self.searches()
        start = time.monotonic()
        calls = [client.start(PLANS, "CreatePlan", self.question(64, job_id=job), PATIENCE)
                 for job in ("one", "one", "two", "three") for client in clients]
        names = {call.result().name for call in calls}
        seconds = time.monotonic() - start
        searches = self.searches() - before
        say(f"equal questions: {len(calls)} at once to 3 servers, {searches:.0f} search, "
            f"{len(names)} plans for 3 jobs, {seconds:.2f} s")
        assert searches == 1, searches
        assert len(names) == 3, names
        for client in clients:
            client.channel.close()

    def check_coherence(self):
        clients = [parplan.Client(replica.address) for replica in self.replicas]
        rounds = 30 * self.scale
        for number in range(rounds):
            writer, reader = clients[number % 3], clients[(number + 1) % 3]
            uploaded = writer.upload("clusters/lab/nodes/node-0", f"round-{number}",
                                     parplan.small_profile(overlap=1.1 + number / 1000))
            # The plan rests on the measurements of all nodes, hence on the one just sent.
            plan = reader.call(PLANS, "CreatePlan", parplan.small_question())
            again = writer.call(PLANS, "CreatePlan", parplan.small_question())
            assert plan.name == again.name, f"{number}: {plan.name}, then {again.name}"
            assert not plan.from_cache, f"round {number}: an old plan after {uploaded.name}"
            assert writer.call(PLANS, "GetPlan", {"name": plan.name}).name == plan.name
        say(f"coherence: {rounds} profiles sent to one server, seen by the next call to another")
        for client in clients:
            client.channel.close()

    def check_holder_that_dies(self):
        """A server dies before it has stored what another waits for: that one searches."""
        victim, other = self.replicas[0], self.replicas[1]
        clients = [parplan.Client(replica.address) for replica in (victim, other)]
        question = self.question(72, job_id="dies")
        before = other.metric("parplan_searches_total")
        with self.postgres.lock("plans"):
            lost = clients[0].start(PLANS, "CreatePlan", question, PATIENCE)
            wait_for(self.postgres.is_somebody_waiting, "plan to be stored")
            kept = clients[1].start(PLANS, "CreatePlan", question, PATIENCE)
            wait_for(lambda: other.metric("parplan_requests_in_flight") >= 1, "call")
            assert not lost.done() and not kept.done()
            victim.kill()
        name = kept.result().name
        searched = other.metric("parplan_searches_total") - before
        say(f"a server that dies with the turn: the one that waited searched {searched:.0f} time, "
            f"{name}")
        assert searched == 1, searched
        for client in clients:
            client.channel.close()
        victim.start()

    def check_rolling_restart(self):
        with Load(self.options.load, self.folder, self.list, "rolling") as load:
            load.await_more(60)
            for _ in range(2 if self.options.long else 1):
                for replica in self.replicas:
                    assert replica.end(timeout=PATIENCE) == 0, replica.log()
                    replica.start()
                    # Clients must be back before the next one goes, as a deployment waits.
                    wait_for(lambda: replica.metric("parplan_requests_total") > 20,
                             "clients to come back", load.process)
            load.await_more(60)
            figures = load.end()
            found = load.look()
        show("rolling restart", figures)
        say(f"  {found['found']} acknowledged, {found['lost']} lost")
        assert figures["failures"] == 0, figures
        assert found["lost"] == 0, found

    def check_killed_server(self):
        with Load(self.options.load, self.folder, self.list, "killed") as load:
            for number in range(self.scale):
                load.await_more(60)
                replica = self.replicas[number % 3]
                replica.kill()
                load.await_more(60)
                replica.start()
            load.await_more(60)
            figures = load.end()
            found = load.look()
        show(f"kill -9 of {self.scale} server(s)", figures)
        say(f"  {found['found']} acknowledged, {found['lost']} lost")
        assert "incoherent" not in figures["failures_by_kind"], figures
        assert found["lost"] == 0, found

    def check_killed_database(self):
        with Load(self.options.load, self.folder, self.list, "database") as load:
            for _ in range(self.scale):
                load.await_more(60)
                self.postgres.kill()
                self.postgres.start()
            load.await_more(60)
            figures = load.end()
            found = load.look()
        show(f"kill -9 of PostgreSQL, {self.scale} time(s)", figures)
        say(f"  {found['found']} acknowledged, {found['lost']} lost")
        assert "incoherent" not in figures["failures_by_kind"], figures
        allowed = {"UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED"}
        kinds = {kind.split()[1] for kind in figures["failures_by_kind"]}
        assert kinds <= allowed, figures
        assert found["lost"] == 0, found

    def check_names(self):
        """A name is as good as a list, for every kind of program."""
        self.names.set(NAME, [replica.host for replica in self.replicas])
        before = [replica.metric("parplan_requests_total") for replica in self.replicas]
        with Load(self.options.load, self.folder, self.target_by_name(), "named") as load:
            wait_for(lambda: all(replica.metric("parplan_requests_total") > count + 20
                                 for replica, count in zip(self.replicas, before)),
                     "calls at every server that the name has", load.process)
            figures = load.end()
        show("by name", figures)
        assert figures["failures"] == 0, figures
        result = subprocess.run([self.options.planctl, "profile", "list", "--cluster", "lab",
                                 "--server", self.target_by_name()],
                                capture_output=True, text=True)
        assert result.returncode == 0, result.stderr

    def check_new_addresses(self):
        """Each server comes back at another address, as pods do: the name loses the old one when
        the server begins to end, and has the new one when that is ready. Clients look at the name
        again when one that they know is gone."""
        hosts = [replica.host for replica in self.replicas]
        self.names.set(NAME, hosts)
        with Load(self.options.load, self.folder, self.target_by_name(), "addresses") as load:
            load.await_more(60)
            for number, replica in enumerate(self.replicas):
                self.names.set(NAME, hosts[:number] + hosts[number + 1:])
                assert replica.end(timeout=PATIENCE) == 0, replica.log()
                if number > 0:
                    start = time.monotonic()
                    wait_for(lambda: self.replicas[number - 1].metric("parplan_requests_total")
                             > 20, "calls at the new address", load.process)
                    say(f"  {time.monotonic() - start:.1f} s from the end of {replica.host} to "
                        f"calls at {hosts[number - 1]}, which the name had had before")
                replica.move()
                replica.start()
                hosts[number] = replica.host
                self.names.set(NAME, hosts)
            load.await_more(60)
            figures = load.end()
            found = load.look()
        show("rolling restart to new addresses", figures)
        say(f"  {found['found']} acknowledged, {found['lost']} lost")
        assert figures["failures"] == 0, figures
        assert found["lost"] == 0, found

    def target_by_name(self):
        return f"dns://{self.names.address}/{NAME}:{self.port.number}"

    def check_backup(self):
        """A backup while servers run, restored to a file of SQLite that a single server serves."""
        backup, folder = f"{self.folder}/parplan.backup", f"{self.folder}/single"

        def store(*arguments):
            result = subprocess.run(
                [self.options.server, "store", *arguments, "--format", "json"],
                capture_output=True, text=True)
            assert result.returncode == 0, result.stderr
            return json.loads(result.stdout)

        written = store("backup", "--store", self.postgres.uri(), "--file", backup)
        restored = store("restore", "--store", f"sqlite:{folder}", "--file", backup)
        assert written == restored
        name = parplan.Client(self.replicas[0].address).call(
            PLANS, "CreatePlan", self.question(64, job_id="one")).name
        single = pathlib.Path(self.folder) / "single-server"
        single.mkdir()
        with parplan.Server(self.options.server, single, "--data-dir", f"{self.folder}/keys",
                            "--store", f"sqlite:{folder}") as server:
            assert parplan.Client(server.address).call(PLANS, "GetPlan", {"name": name}).name == name
        say(f"backup: {sum(written['row_counts'].values())} rows from PostgreSQL to SQLite, "
            "the same digest")


def main():
    parser = argparse.ArgumentParser()
    for name in ("server", "planctl", "load", "examples"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--long", action="store_true", help="more of everything")
    options = parser.parse_args()
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, PostgresServer() as postgres, \
            NameServer(folder) as names, ReservedPort() as port:
        Test(options, folder, postgres, names, port).run()
    say(f"all in {time.monotonic() - start:.0f} s")


if __name__ == "__main__":
    main()
