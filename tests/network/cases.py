"""The faults of the network test between clients, servers and PostgreSQL."""
import json
import pathlib
import signal
import subprocess
import threading
import time

import grpc
from lab import PATIENCE, wait_for
from programs import EXECUTIONS, PLANS, Postgres, Server, parplan

# What the issue of this test allows.
TURN_SECONDS = 30
FIRST_SECONDS = 35
CALL_SECONDS = 3
REBOOT_SECONDS = 60
# Writers while links are cut, a third of them at each server.
WRITERS = 6
# A question that is answered from the database.
ASK = ["calibration", "list", "--cluster", "lab"]


def say(text):
    print(text, flush=True)


def await_code(future):
    """Returns the answer of a call, or the error."""
    try:
        return future.result()
    except grpc.RpcError as error:
        return error


def window(rank, step):
    return {"rank": rank, "first_step": step, "step_count": 10,
            "median_step_duration": parplan.seconds(0.1), "peak_memory_bytes": 1 << 30}


class ServerCases:
    """Three servers on one PostgreSQL, each on a host of its own."""

    def __init__(self, test):
        self.lab, self.test = test.lab, test
        self.folder = test.folder
        self.examples = test.examples

    def servers(self, stack, names=("s1", "s2", "s3")):
        postgres = stack.enter_context(Postgres(self.lab.hosts["db"]))
        servers = [Server(self.test.programs, self.lab.hosts[name], self.folder, postgres.uri())
                   for name in names]
        for server in servers:
            # The first makes tables and keys.
            stack.enter_context(server)
        return postgres, servers

    def hard_question(self, batch):
        return {"parent": "clusters/a100-40g-16", "spec": {
            "model": parplan.load(self.examples / "llama2-7b.model.json"),
            "topology": parplan.load(self.examples / "a100-40g-16.cluster.json"),
            "global_batch_size": batch, "options": {"allow_estimates": True}}}

    def connect(self, server):
        client = parplan.Client(server.address)
        client.message("parplan.v1.CreatePlanRequest")
        client.service(PLANS)
        return client

    def turn(self, stack, batch, strike, name):
        """Strikes the server that holds the turn of a question; the same question at another one
        must be answered soon."""
        postgres, (holder, other) = self.servers(stack, ("s1", "s2"))
        first, second = self.connect(holder), self.connect(other)
        first.upload("clusters/a100-40g-16/nodes/n1", "first",
                     parplan.load(self.examples / "llama2-7b-a100-2-nodes.profile.json"), PATIENCE)
        seen = threading.Thread(target=postgres.await_turn)
        seen.start()
        wait_for(lambda: postgres.query(
            "SELECT 1 FROM pg_stat_activity WHERE query LIKE 'DO %' AND state = 'active'"),
            "look at the turns")
        lost = first.start(PLANS, "CreatePlan", self.hard_question(batch), PATIENCE)
        seen.join()
        strike(holder)
        held = postgres.query("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'")
        assert held != ["0"] and not lost.done(), "the search was over before the fault"
        start = time.monotonic()
        answer = await_code(second.start(PLANS, "CreatePlan", self.hard_question(batch), PATIENCE))
        seconds = time.monotonic() - start
        assert not isinstance(answer, grpc.RpcError), answer
        assert seconds <= TURN_SECONDS, f"{name}: blocked for {seconds:.1f} s"
        say(f"  {name}: the same question at another server answered after {seconds:.1f} s")
        return postgres, holder, first, lost

    def test_a_frozen_holder_of_a_turn_blocks_nobody_for_long(self, stack):
        _, holder, _, lost = self.turn(
            stack, 96, lambda server: server.process.send(signal.SIGSTOP), "frozen holder")
        # It goes on where it was.
        holder.process.send(signal.SIGCONT)
        answer = await_code(lost)
        assert not isinstance(answer, grpc.RpcError), answer

    def test_a_lost_holder_of_a_turn_blocks_nobody_for_long(self, stack):
        host = self.lab.hosts["s1"]
        postgres, *_ = self.turn(stack, 104, lambda server: host.lose(), "lost holder")
        stack.callback(host.boot)
        # Its sessions end too.
        start = time.monotonic()
        wait_for(lambda: postgres.query(
            f"SELECT count(*) FROM pg_stat_activity WHERE client_addr = '{host.address}'") == ["0"],
            "end of the sessions of a lost server", 45)
        say(f"  its sessions ended {time.monotonic() - start:.1f} s later")

    def test_a_holder_cut_from_the_database_blocks_nobody_for_long(self, stack):
        host = self.lab.hosts["s1"]
        stack.callback(host.unblock)
        self.turn(stack, 112, lambda server: host.block(self.lab.hosts["db"]), "cut holder")

    def test_a_replica_cut_from_the_database_slows_nobody_down(self, stack):
        _, servers = self.servers(stack)
        target = "ipv4:" + ",".join(server.address for server in servers)
        host = self.lab.hosts["s1"]
        stack.callback(host.unblock)
        calls, is_over = [], threading.Event()

        def call():
            while not is_over.is_set():
                start = time.monotonic()
                done = subprocess.run([self.test.programs / "planctl", *ASK, "--server", target],
                                      capture_output=True, text=True, check=False)
                calls.append((start, time.monotonic() - start, done.returncode, done.stderr))
                time.sleep(0.2)

        threads = [threading.Thread(target=call) for _ in range(3)]
        cut = time.monotonic()
        host.block(self.lab.hosts["db"])
        for thread in threads:
            thread.start()
        time.sleep(70)
        is_over.set()
        for thread in threads:
            thread.join()
        failed = [one for one in calls if one[2] != 0]
        late = [one[1] for one in calls if one[0] >= cut + FIRST_SECONDS]
        first = max(one[1] for one in calls)
        say(f"  one of three servers cut from PostgreSQL for 70 s: {len(calls)} calls, "
            f"{len(failed)} failed; longest {first:.1f} s, after the first {FIRST_SECONDS} s "
            f"{max(late):.2f} s ({len(late)} calls)")
        assert not failed, failed[:3]
        assert len(late) > 20 and max(late) <= CALL_SECONDS, sorted(late)[-5:]
        # What it says itself, at once; and it is back by itself.
        client = self.connect(servers[0])
        start = time.monotonic()
        refused = await_code(client.start(PLANS, "ListPlans", {"parent": "clusters/lab"}, 60))
        assert refused.code() == grpc.StatusCode.UNAVAILABLE, refused
        assert "out of reach" in refused.details(), refused.details()
        assert time.monotonic() - start < 1, "the cut server is slow"
        host.unblock()
        wait_for(lambda: not isinstance(await_code(client.start(
            PLANS, "ListPlans", {"parent": "clusters/lab"}, 60)), grpc.RpcError), "way back", 20)

    def write(self, server, number, is_over, kept, errors):
        """Makes plans and reports windows until it is over; `kept` is what was acknowledged: plans
        with their payloads, and executions with their numbers of windows."""
        client, batch = self.connect(server), 8 * (1 + number)
        client.service(EXECUTIONS)

        def ask(service, method, request):
            answer = await_code(client.start(service, method, request, 10))
            if not isinstance(answer, grpc.RpcError):
                return answer
            code = answer.code().name
            errors[code] = errors.get(code, 0) + 1
            time.sleep(0.05)
            return None

        while not is_over.is_set():
            plan = ask(PLANS, "CreatePlan", parplan.small_question(batch))
            # Another question than any writer's before.
            batch += 8 * WRITERS
            if plan is None:
                continue
            kept[plan.name] = plan.signed_plan.payload
            execution = ask(EXECUTIONS, "CreateExecution",
                            {"parent": plan.name, "request_id": f"of-writer-{number}"})
            if execution is None:
                continue
            kept[execution.name] = 0
            for step in range(3):
                answer = ask(EXECUTIONS, "ReportMetrics", [
                    {"execution": execution.name, "window": window(rank, 10 * step)}
                    for rank in (0, 1)])
                kept[execution.name] += 0 if answer is None else answer.stored_window_count

    def test_what_was_acknowledged_under_cuts_is_kept(self, stack):
        _, servers = self.servers(stack)
        database = self.lab.hosts["db"]
        stack.callback(database.heal)
        for server in servers:
            stack.callback(server.host.unblock)
        self.connect(servers[0]).upload("clusters/lab/nodes/n1", "first", parplan.small_profile())
        is_over, kept, errors = threading.Event(), [{} for _ in range(WRITERS)], {}
        writers = [threading.Thread(
            target=self.write, args=(servers[number % 3], number, is_over, kept[number], errors))
            for number in range(WRITERS)]
        for writer in writers:
            writer.start()
        # One server after the other, then all of them; connections break, or go on after it.
        cuts = 0
        for seconds in (2, 8):
            for server in servers:
                server.host.block(database)
                time.sleep(seconds)
                server.host.unblock()
                time.sleep(2)
                cuts += 1
            database.cut()
            time.sleep(seconds)
            database.heal()
            time.sleep(2)
            cuts += 1
        is_over.set()
        for writer in writers:
            writer.join()
        # Each server has all of it.
        acknowledged = {name: value for one in kept for name, value in one.items()}
        for server in servers:
            client = self.connect(server)
            wait_for(lambda: not isinstance(await_code(client.start(
                PLANS, "ListPlans", {"parent": "clusters/lab"}, 60)), grpc.RpcError), "way back", 60)
            for name, value in acknowledged.items():
                if isinstance(value, bytes):
                    plan = client.call(PLANS, "GetPlan", {"name": name}, 60)
                    assert plan.signed_plan.payload == value, name
                else:
                    execution = client.call(EXECUTIONS, "GetExecution", {"name": name}, 60)
                    assert execution.window_count >= value, (name, execution.window_count, value)
        plans = sum(isinstance(value, bytes) for value in acknowledged.values())
        windows = sum(value for value in acknowledged.values() if not isinstance(value, bytes))
        say(f"  {cuts} cuts between three servers and PostgreSQL under {WRITERS} writers: {plans} "
            f"plans, {len(acknowledged) - plans} executions and {windows} windows were "
            f"acknowledged, and each server has all of them; errors: {errors}")
        assert plans > 20 and windows > 20 and errors, (plans, windows, errors)

    def test_the_reason_of_the_server_survives_retries(self, stack):
        postgres, servers = self.servers(stack, ("s1", "s2"))
        target = "ipv4:" + ",".join(server.address for server in servers)
        postgres.freeze()
        try:
            done = subprocess.run(
                [self.test.programs / "planctl", *ASK, "--timeout", "50", "--server", target],
                capture_output=True, text=True, check=False)
        finally:
            postgres.thaw()
        assert done.returncode != 0 and "PostgreSQL" in done.stderr, done.stderr
        say(f"  PostgreSQL frozen: {done.stderr.strip()}")


class SidecarCases:
    """A sidecar on a pod's host, and a server with plans that live briefly."""

    def __init__(self, test):
        self.lab, self.test = test.lab, test
        self.folder = test.folder

    def report(self, client, plan, request_id):
        """Reports 40 windows to the sidecar, as a job does."""
        execution = client.call(EXECUTIONS, "CreateExecution",
                                {"parent": plan.name, "request_id": request_id}, 60)
        answer = client.call(EXECUTIONS, "ReportMetrics", [
            {"execution": execution.name, "window": window(rank, 10 * step)}
            for step in range(20) for rank in (0, 1)], 60)
        assert answer.stored_window_count == 40, answer
        client.call(EXECUTIONS, "CompleteExecution", {"name": execution.name}, 60)

    def test_windows_of_a_job_survive_the_expiry_of_its_plan(self, stack):
        pod, host = self.lab.hosts["h1"], self.lab.hosts["s1"]
        folder = self.folder / "pod"
        folder.mkdir()
        lifetime = 20
        server = stack.enter_context(Server(self.test.programs, host, folder, None, "--plan-ttl",
                                            f"{lifetime}s"))
        client = stack.enter_context(parplan.Client(server.address))
        client.upload("clusters/lab/nodes/n1", "first", parplan.small_profile())
        plan = client.call(PLANS, "CreatePlan", parplan.small_question(8, job_id="job-1"))
        made = time.monotonic()
        client.service(EXECUTIONS)
        trust = folder / "keys" / "trust-bundle.jwks.json"
        volume = folder / "volume"
        with pod.run([self.test.programs / "parplan-sidecar", "init", "--server", server.address,
                      "--trust", trust, "--volume", volume, "--plan", plan.name],
                     folder / "init.log") as init:
            assert init.wait() == 0, init.log()
        host.cut()
        sidecar = stack.enter_context(pod.run(
            [self.test.programs / "parplan-sidecar", "run", "--server", server.address, "--trust",
             trust, "--volume", volume, "--socket", volume / "parplan.sock", "--state-dir",
             folder / "state", "--listen", "127.0.0.1:0", "--metrics-listen", "off"],
            folder / "sidecar.log"))
        wait_for((volume / "parplan.sock").exists, "socket of the sidecar")
        local = parplan.Client(f"unix:{volume / 'parplan.sock'}")
        local._pool, local._factory, local._files = client._pool, client._factory, client._files
        self.report(local, plan, "began-in-time")
        time.sleep(max(made + lifetime + 2 - time.monotonic(), 0))
        host.heal()

        def executions():
            return client.call(EXECUTIONS, "ListExecutions", {"parent": plan.name}, 60).executions

        (told,) = wait_for(lambda: [one for one in executions() if one.state == 2],
                           "the windows of the job")
        assert told.window_count == 40, told
        # One that begins only now is refused, and that is told.
        host.cut()
        self.report(local, plan, "began-too-late")
        host.heal()
        wait_for(lambda: "the server refused" in sidecar.log(), "refusal")
        (refused,) = [json.loads(line) for line in sidecar.log().splitlines()
                      if "the server refused" in line]
        assert "expired" in refused["message"], refused
        sidecar.send(signal.SIGTERM)
        code = sidecar.wait()
        # The counts, and why its exit code is another than 0.
        ended, why = [json.loads(line) for line in sidecar.log().splitlines()
                      if '"event":"ended"' in line]
        say(f"  a plan that expired while the server was away: 40 of 40 windows arrived; of a job "
            f"that began after it {ended['refused']} were refused, exit code {code}")
        assert code == 5 and ended["forwarded"] == "40" and int(ended["refused"]) > 0, ended
        assert why["reason"] == "EXECUTION_STATE" and "*.refused" in why["message"], why
        assert len(executions()) == 1


class AgentCases:
    """An agent on a host that is lost and started again."""

    def __init__(self, test):
        self.lab, self.test = test.lab, test
        self.folder = test.folder

    def agent(self, host, server, log):
        return host.run(
            [self.test.programs / "parplan-agent", "--server", server.address, "--cluster", "lab",
             "--node", host.name, "--host", host.address, "--ranks", "1", "--no-pin",
             "--even-if-busy", "--budget", "30s", "--micro-batches", "1", "--max-message-bytes",
             "4096", "--state-dir", self.folder / "agent-state", "--spool-dir",
             self.folder / "agent-spool", "--listen", "127.0.0.1:0", "--metrics-listen", "off"],
            self.folder / log)

    def test_an_agent_is_back_soon_after_its_host_was_started_again(self, stack):
        host = self.lab.hosts["h4"]
        (self.folder / "agent-spool").mkdir()
        folder = pathlib.Path(self.folder) / "agents"
        folder.mkdir()
        server = stack.enter_context(Server(self.test.programs, self.lab.hosts["s1"], folder))
        first = stack.enter_context(self.agent(host, server, "agent-1.log"))
        wait_for(lambda: "connected for leases" in first.log(), "agent")
        host.lose()
        host.boot()
        start = time.monotonic()
        again = stack.enter_context(self.agent(host, server, "agent-2.log"))
        wait_for(lambda: "connected for leases" in again.log(), "agent after a reboot",
                 2 * PATIENCE)
        seconds = time.monotonic() - start
        say(f"  an agent whose host was lost and started again: back after {seconds:.1f} s")
        assert seconds <= REBOOT_SECONDS, again.log()
