#!/usr/bin/python3
"""Hosts, links and processes that are lost, cut off and frozen, between real programs on hosts of
their own (lab.py), and what they must do then within which time.

    network_test.py --bin FOLDER [--only PART_OF_A_NAME] [--rounds N]

Needs root, or CAP_NET_ADMIN and CAP_SYS_ADMIN; without them it says so and ends with 0. Judges
times by limits of tens of seconds, so it is no part of the ordinary tests.
"""
import argparse
import contextlib
import json
import pathlib
import re
import resource
import signal
import socket
import sys
import tempfile
import threading
import time
import traceback

import lab as labs
from cases import AgentCases, ServerCases, SidecarCases, say
from lab import Lab, wait_for
from programs import RANKS, RENDEZVOUS_PORT, Job, Question, Server

# Strangers at the rendezvous of a job whose rank 0 may have fewer descriptors.
STRANGERS = 1100
DESCRIPTORS = 300


def ranks_named(message):
    """Returns the ranks that a message names as the cause, before it says what they did not do."""
    return set(map(int, re.findall(r"\brank (\d+)\b", message)))


class JobCases:
    """A job of four ranks on four hosts."""

    def __init__(self, test):
        self.lab, self.test = test.lab, test
        self.folder = test.folder
        self.question = None
        self.count = 0

    def plan(self, planner):
        """Returns the file of a plan, made once."""
        if self.question is None:
            self.question = Question(self.test.programs, self.folder)
        path = self.folder / f"plan-{planner}.json"
        if not path.exists():
            with Server(self.test.programs, self.lab.hosts["s1"], self.folder) as server:
                self.question.upload(server.address)
                self.question.plan(server.address, planner)
        return path

    def job(self, planner, *flags, **options):
        plan = self.plan(planner)
        self.count += 1
        flags = flags or ("--steps", "1000000")
        return Job(self.lab, self.question, plan, self.folder / f"job-{self.count}", *flags,
                   **options)

    def test_a_frozen_rank_is_named_by_all(self, _):
        right = 0
        for number in range(self.test.rounds):
            for planner in ("sdp", "pp"):
                for frozen in range(RANKS):
                    with self.job(planner) as job:
                        job.await_step(2)
                        job.ranks[frozen].send(signal.SIGSTOP)
                        words = job.errors(frozen)
                        job.ranks[frozen].send(signal.SIGCONT)
                        words.update({frozen: job.errors()[frozen]})
                        for rank in set(words) - {frozen}:
                            assert ranks_named(words[rank]) == {frozen}, (
                                f"{planner}, rank {frozen} frozen, rank {rank}: {words[rank]}")
                            assert "does not answer" in words[rank], words[rank]
                    right += 1
            say(f"  round {number + 1}: {right} of {right} runs name the frozen rank at every "
                f"other; for example {words[0]!r}")

    def test_a_lost_rank_is_named_with_its_host(self, _):
        for lost, planner in ((0, "sdp"), (2, "pp")):
            with self.job(planner) as job:
                job.await_step(2)
                start = time.monotonic()
                job.ranks[lost].send(signal.SIGKILL)
                words = job.errors(lost)
                for rank, message in words.items():
                    assert ranks_named(message) == {lost}, f"rank {rank}: {message}"
                    assert f"host h{lost + 1}" in message, message
                say(f"  rank {lost} killed: {time.monotonic() - start:.1f} s, {words[3]!r}")

    def test_a_rank_whose_host_is_cut_off_is_named(self, stack):
        for cut in (0, 2):
            host = self.lab.hosts[f"h{cut + 1}"]
            with self.job("sdp", operation_timeout=120) as job:
                job.await_step(2)
                start = time.monotonic()
                host.cut()
                stack.callback(host.heal)
                words = job.errors(cut)
                for rank, message in words.items():
                    assert ranks_named(message) == {cut}, f"rank {rank}: {message}"
                own = job.errors()[cut]
                host.heal()
                say(f"  link of rank {cut} cut: {time.monotonic() - start:.1f} s, {words[3]!r}; "
                    f"itself: {own!r}")

    def test_who_waits_to_meet_hears_for_whom(self, _):
        plan = "sdp"
        self.plan(plan)
        with self.job(plan, absent={3}) as job:
            start = time.monotonic()
            for rank in range(3):
                wait_for(lambda: "rank 3 has not come" in job.ranks[rank].log(),
                         f"word for whom rank {rank} waits", 15)
            say(f"  rank 3 missing: all others say so after {time.monotonic() - start:.1f} s")
        with self.job(plan, environment={2: {"PARPLAN_TOKEN": "of another job"}}) as job:
            for rank in (0, 1, 3):
                wait_for(lambda: "rank 2 was refused: wrong token" in job.ranks[rank].log(),
                         f"word at rank {rank} that rank 2 was refused", 15)

    def test_an_address_that_swallows_packets_costs_little(self, stack):
        first = self.lab.hosts["h1"]
        with open(self.lab.hosts_file, "a", encoding="utf-8") as file:
            for number in (98, 11, 99):
                file.write(f"10.77.0.{number} master\n")
        stack.callback(first.unblock)
        for number in (98, 99):
            first.command("ip", "address", "add", f"10.77.0.{number}/24", "dev", "eth0")
            first.command("iptables", "-A", "INPUT", "-d", f"10.77.0.{number}", "-j", "DROP")
        self.plan("sdp")
        start = time.monotonic()
        with self.job("sdp", "--steps", "3", master="master") as job:
            for rank, process in job.ranks.items():
                assert process.wait(60) == 0, f"rank {rank}: {process.log()}"
        seconds = time.monotonic() - start
        say(f"  two of three addresses of rank 0 swallow packets: the job took {seconds:.1f} s")
        assert seconds < 30, seconds

    def test_strangers_keep_no_job_from_its_results(self, _):
        self.plan("sdp")
        results = self.folder / "results.json"
        strangers = []
        is_over = threading.Event()

        def crowd():
            address = (self.lab.hosts["h1"].address, RENDEZVOUS_PORT + 1)
            while len(strangers) < STRANGERS and not is_over.is_set():
                try:
                    strangers.append(socket.create_connection(address, timeout=5))
                except OSError:
                    time.sleep(0.05)

        crowding = threading.Thread(target=crowd)
        crowding.start()
        try:
            with self.job("sdp", "--steps", "400", "--log-every", "50", "--results", results,
                          limits={0: [f"--nofile={DESCRIPTORS}:{DESCRIPTORS}"]}) as job:
                job.await_step(0)
                crowding.join()
                for rank, process in job.ranks.items():
                    assert process.wait() == 0, f"rank {rank}: {process.log()}"
            losses = json.loads(results.read_text())["losses"]
        finally:
            is_over.set()
            for stranger in strangers:
                stranger.close()
        say(f"  {len(strangers)} silent strangers at a rank 0 with {DESCRIPTORS} descriptors: the "
            f"results of {len(losses)} steps were written")
        assert len(losses) == 400 and len(strangers) == STRANGERS


    def test_a_job_of_four_hosts_trains_as_one_of_one(self, stack):
        steps, seconds = 12, 0.01
        slow = self.lab.hosts["h3"]
        for planner in ("sdp", "pp"):
            plan = self.plan(planner)
            results = [self.folder / f"results-{planner}-{count}.json" for count in (1, 4)]
            self.question.train_on_one(self.lab.hosts["h1"], plan, results[0],
                                       self.folder / f"one-{planner}.log", steps)
            slow.slow_down(seconds)
            stack.callback(slow.speed_up)
            start = time.monotonic()
            try:
                socket.create_connection((slow.address, RENDEZVOUS_PORT), timeout=60)
            except ConnectionRefusedError:
                pass
            assert time.monotonic() - start >= 2 * seconds, "the link is as fast as ever"
            start = time.monotonic()
            with self.job(planner, "--steps", str(steps), "--results", results[1],
                          operation_timeout=120) as job:
                for rank, process in job.ranks.items():
                    assert process.wait() == 0, f"rank {rank}: {process.log()}"
            took = time.monotonic() - start
            slow.speed_up()
            one, four = (json.loads(path.read_text())["losses"] for path in results)
            say(f"  {planner}: {steps} losses on four hosts, whose third has a link of "
                f"{1000 * seconds:.0f} ms each way, in {took:.1f} s: {four[-1]!r} at the end; on "
                f"one host {one[-1]!r}")
            # JSON has all digits of a number.
            assert len(one) == steps and one == four, (one, four)


class Test:
    def __init__(self, options, lab, folder):
        self.lab, self.folder = lab, folder
        self.programs = pathlib.Path(options.bin).resolve()
        self.examples = pathlib.Path(options.examples).resolve()
        self.rounds = options.rounds
        self.only = options.only

    def run(self):
        for rank in range(RANKS):
            self.lab.add(f"h{rank + 1}", 11 + rank)
        for number in range(3):
            self.lab.add(f"s{number + 1}", 21 + number)
        self.lab.add("db", 20)
        failed, passed = [], 0
        for cases in (JobCases(self), ServerCases(self), SidecarCases(self), AgentCases(self)):
            for name in sorted(dir(cases)):
                if not name.startswith("test_") or self.only not in name:
                    continue
                say(name.removeprefix("test_").replace("_", " "))
                try:
                    with contextlib.ExitStack() as stack:
                        getattr(cases, name)(stack)
                    passed += 1
                except Exception:  # pylint: disable=broad-except
                    traceback.print_exc()
                    failed.append(name)
        say(f"{passed} passed, {len(failed)} failed{': ' + ', '.join(failed) if failed else ''}")
        return 1 if failed or not passed else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True, help="folder of the programs")
    parser.add_argument("--examples", required=True, help="deploy/examples")
    parser.add_argument("--only", default="", help="part of the names of the cases to run")
    parser.add_argument("--rounds", type=int, default=3,
                        help="repetitions of the eight runs with a frozen rank")
    options = parser.parse_args()
    why_not = labs.why_not()
    if why_not:
        say(f"network test skipped: {why_not}")
        return 0
    labs.enter()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, 4096), hard), hard))
    with tempfile.TemporaryDirectory(prefix="parplan-network-", dir="/tmp") as name:
        folder = pathlib.Path(name)
        # PostgreSQL runs as another user.
        folder.chmod(0o755)
        with Lab(folder) as lab:
            return Test(options, lab, folder).run()


if __name__ == "__main__":
    sys.exit(main())
