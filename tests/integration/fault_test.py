#!/usr/bin/python3
"""Faults of the system at every call of a server that can fail: writes that find no room or a
broken disk, flushes that fail, descriptors that run out, clocks that are wrong.

    fault_test.py SERVER FAULT_LIBRARY [--every] [ARGUMENTS OF UNITTEST]

The server goes through one life again and again (start, an upload, plans, an execution with its
measurements, end), each time with another one of its calls failing. Whatever it acknowledged must
be there afterwards; it ends only by itself, with a reason; and callers see UNAVAILABLE. Every few
calls are tried; `--every` tries each. docs/faults.md has what callers saw.
"""
import collections
import errno
import mmap
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import unittest

import grpc
from google.protobuf import json_format

import parplan_process as parplan

SERVER = LIBRARY = None
# Calls that are tried of each kind; 0 for each.
SAMPLE_COUNT = 6
PLANS, EXECUTIONS = "parplan.v1.PlanService", "parplan.v1.ExecutionService"
PROFILES = "parplan.v1.ProfileService"
WRITE, FLUSH, DESCRIPTOR = 1, 2, 4
NEVER = 1 << 62
# What callers may see: the reason of the store, of the audit log, of a key that cannot be kept.
ALLOWED = {("UNAVAILABLE", "STORE_UNAVAILABLE"), ("UNAVAILABLE", "AUDIT_UNAVAILABLE")}
# No key may sign at the time of a clock that is a year off.
NO_KEY = ("FAILED_PRECONDITION", "STORE_UNAVAILABLE")


class Faults:
    """The file that the library reads: kinds, error, first, last, count, clock."""

    def __init__(self, path):
        path.write_bytes(bytes(48))
        self.path = path
        with open(path, "r+b") as file:
            self.map = mmap.mmap(file.fileno(), 48)

    def set(self, kinds=0, error=0, first=NEVER, last=NEVER):
        """Counts the calls of these kinds from 0; those from `first` to `last` fail."""
        self.map[0:8] = struct.pack("q", 0)
        self.map[8:40] = struct.pack("4q", error, first, last, 0)
        self.map[0:8] = struct.pack("q", kinds)

    def count(self):
        return struct.unpack("q", self.map[32:40])[0]

    def set_clock(self, seconds):
        self.map[40:48] = struct.pack("q", seconds)


def last_lines(server):
    return server.log()[-2000:]


class Life:
    """What a server acknowledged."""

    def __init__(self):
        self.profiles = []
        self.plans = {}
        self.executions = {}
        self.errors = collections.Counter()

    def ask(self, client, service, method, request):
        """The answer, or None if there was an error, which is kept."""
        try:
            return client.call(service, method, request, timeout=60)
        except grpc.RpcError as error:
            reason = None
            if "grpc-status-details-bin" in dict(error.trailing_metadata() or ()):
                reason = client.error_info(error).reason
            self.errors[(error.code().name, reason)] += 1
            return None

    def live(self, client, request_id="first"):
        try:
            stored = client.upload("clusters/lab/nodes/node-a", "r", parplan.small_profile(), 60)
            self.profiles.append(stored.name)
        except grpc.RpcError as error:
            self.errors[(error.code().name, client.error_info(error).reason)] += 1
        for batch in (8, 16):
            plan = self.ask(client, PLANS, "CreatePlan", parplan.small_question(batch=batch))
            if plan is not None:
                self.plans[plan.name] = plan.signed_plan.payload
        for name in self.plans:
            execution = self.ask(client, EXECUTIONS, "CreateExecution",
                                 {"parent": name, "request_id": request_id})
            if execution is None:
                continue
            self.executions[execution.name] = 0
            windows = [{"execution": execution.name, "window": {
                "first_step": 10 * index, "step_count": 10, "median_step_duration": "0.5s",
                "peak_memory_bytes": 1 << 30}} for index in range(3)]
            if self.ask(client, EXECUTIONS, "ReportMetrics", windows) is not None:
                self.executions[execution.name] = len(windows)
            self.ask(client, EXECUTIONS, "CompleteExecution", {"name": execution.name})


class FaultTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.faults = Faults(self.folder / "faults")
        self.binary = self.folder / "server"
        self.binary.write_text(f'#!/bin/sh\nPARPLAN_FAULTS="{self.faults.path}" '
                               f'LD_PRELOAD="{LIBRARY}" exec "{SERVER}" "$@"\n')
        self.binary.chmod(0o755)
        self.number = 0
        self.batch = 0

    def new_server(self):
        self.number += 1
        folder = self.folder / f"life-{self.number}"
        folder.mkdir()
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        return parplan.Server(self.binary, folder, "--audit-file", folder / "audit.jsonl")

    def live(self, server):
        """One life of a server, ended as by a power cut. Returns what was acknowledged, and whether
        it began."""
        life = Life()
        try:
            server.start()
        except AssertionError:
            # It ended by itself, and said why.
            self.assertGreater(server.process.returncode, 0, last_lines(server))
            self.assertIn("error", server.log())
            return life, False
        try:
            with parplan.Client(server.address) as client:
                life.live(client)
            self.assertIsNone(server.process.poll(), last_lines(server))
        finally:
            server.kill()
        return life, True

    def check_kept(self, server, life):
        """All that was acknowledged is there, once nothing fails any more."""
        self.faults.set()
        server.start()
        try:
            with parplan.Client(server.address) as client:
                for name in life.profiles:
                    client.call(PROFILES, "GetProfile", {"name": name})
                for name, payload in life.plans.items():
                    plan = client.call(PLANS, "GetPlan", {"name": name})
                    self.assertEqual(plan.signed_plan.payload, payload)
                for name, count in life.executions.items():
                    execution = client.call(EXECUTIONS, "GetExecution", {"name": name})
                    self.assertGreaterEqual(execution.window_count, count)
                again = Life()
                again.live(client, "again")
                self.assertFalse(again.errors, last_lines(server))
        finally:
            server.kill()
        self.check_audit(server)

    def check_audit(self, server):
        """No line of the audit log is torn or missing, whatever failed in the lives before."""
        done = subprocess.run([SERVER, "audit", "verify", server.folder / "audit.jsonl"],
                              capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def inject(self, kinds, errors, more=NEVER):
        """Every life, with one failing call, and with `more` failing after it."""
        server = self.new_server()
        self.faults.set(kinds)
        life, began = self.live(server)
        self.assertTrue(began and not life.errors, (life.errors, last_lines(server)))
        self.assertEqual(len(life.executions), 2)
        count = self.faults.count()
        self.assertGreater(count, 3)
        step = 1 if SAMPLE_COUNT == 0 else max(1, count // SAMPLE_COUNT)
        seen = collections.Counter()
        for error in errors:
            for first in range(0, count, step):
                for last in (first, first + more):
                    with self.subTest(error=errno.errorcode[error], first=first, last=last):
                        server = self.new_server()
                        self.faults.set(kinds, error, first, last)
                        life, began = self.live(server)
                        self.check_kept(server, life)
                        seen.update(life.errors)
                        seen["did not start, with a reason"] += not began
                        self.assertLessEqual(set(life.errors), ALLOWED, last_lines(server))
        print(f"faults: {self.id()}: {count} calls, each {step}th tried: {dict(seen)}",
              file=sys.stderr)

    def test_writes_that_find_no_room_or_a_broken_disk(self):
        self.inject(WRITE, (errno.ENOSPC, errno.EIO))

    def test_flushes_that_fail(self):
        self.inject(FLUSH, (errno.EIO,))

    def test_descriptors_that_run_out(self):
        # For a while: a server that never has another descriptor hears nobody, and ends.
        self.inject(DESCRIPTOR, (errno.EMFILE,), more=20)

    def new_plan(self, client, life):
        """Asks something that nobody has asked of this server."""
        self.batch += 8
        return life.ask(client, PLANS, "CreatePlan", parplan.small_question(batch=self.batch))

    def move_clock(self, server, shift, restarts):
        """Sets the clock of a server ahead of that of the system, and waits until it is."""
        self.faults.set_clock(shift)
        if restarts:
            server.kill()
            server.start()
        # Abseil reads the clock of the system every few seconds.
        end = time.monotonic() + 120
        far = abs(shift) > 30 * 86400
        with parplan.Client(server.address) as client:
            def has_moved():
                life = Life()
                plan = self.new_plan(client, life)
                return far and NO_KEY in life.errors if plan is None else \
                    abs(plan.create_time.ToSeconds() - time.time() - shift) < 600

            while not has_moved():
                self.assertLess(time.monotonic(), end, "the clock never moved")
                time.sleep(0.1)

    def verdicts(self, client, plans):
        def ask(plan):
            request = {"signed_plan": json_format.MessageToDict(plan.signed_plan)}
            answer = client.call(PLANS, "VerifyPlan", request)
            return type(answer).Verdict.Name(answer.verdict)

        return [ask(client.call(PLANS, "GetPlan", {"name": plan.name})) for plan in plans]

    def ask_and_verify(self, server, plans):
        """What callers see: errors of a new plan, which is added, and verdicts on all."""
        life = Life()
        with parplan.Client(server.address) as client:
            plan = self.new_plan(client, life)
            if plan is not None:
                plans.append(plan)
            return dict(life.errors), self.verdicts(client, plans)

    def report(self, server, life, plan, number):
        """Adds windows to the execution that a job opened with the plan at first."""
        with parplan.Client(server.address) as client:
            if number == 0:
                opened = life.ask(client, EXECUTIONS, "CreateExecution",
                                  {"parent": plan.name, "request_id": "runs-on"})
                life.executions[opened.name] = 0
            for name in life.executions:
                windows = [{"execution": name, "window": {
                    "first_step": 100 * number + 10 * index, "step_count": 10,
                    "median_step_duration": "0.5s"}} for index in range(3)]
                answer = life.ask(client, EXECUTIONS, "ReportMetrics", windows)
                if answer is not None:
                    life.executions[name] += answer.stored_window_count

    def test_clocks_that_are_wrong(self):
        hour, year = 3600, 365 * 86400
        for shift in (hour, -hour, year, -year):
            for restarts in (False, True):
                with self.subTest(shift=shift, restarts=restarts):
                    self.wrong_clock(shift, restarts)

    def wrong_clock(self, shift, restarts):
        self.faults.set()
        self.faults.set_clock(0)
        server = self.new_server().start()
        self.addCleanup(server.__exit__)
        with parplan.Client(server.address) as client:
            client.upload("clusters/lab/nodes/node-a", "r", parplan.small_profile(), 60)
        plans = []
        self.assertEqual(self.ask_and_verify(server, plans), ({}, ["VALID"]))
        life = Life()
        self.report(server, life, plans[0], 0)
        self.move_clock(server, shift, restarts)
        wrong = self.ask_and_verify(server, plans)
        self.report(server, life, plans[0], 1)
        self.move_clock(server, 0, restarts)
        errors, verdicts = self.ask_and_verify(server, plans)
        self.report(server, life, plans[0], 2)
        print(f"faults: clock {shift:+d} s, restarted {restarts}: {wrong}, afterwards "
              f"{(errors, verdicts)}, of executions {dict(life.errors)}", file=sys.stderr)
        # An execution that runs takes measurements whatever the time is, and keeps them.
        self.assertFalse(life.errors)
        with parplan.Client(server.address) as client:
            for name, count in life.executions.items():
                execution = client.call(EXECUTIONS, "GetExecution", {"name": name})
                self.assertEqual(execution.window_count, count)
                closed = client.call(EXECUTIONS, "CompleteExecution", {"name": name})
                self.assertEqual(closed.window_count, count)
        # Plans are signed again, and those from before and from now are as good as ever.
        self.assertEqual(errors, {}, last_lines(server))
        self.assertEqual((verdicts[0], verdicts[-1]), ("VALID", "VALID"))
        # Meanwhile: as docs/faults.md says.
        far = abs(shift) > 30 * 86400
        if far and not restarts:
            self.assertEqual(wrong, ({NO_KEY: 1}, ["EXPIRED"]))
            self.assertEqual(verdicts, ["VALID", "VALID"])
        else:
            before = "EXPIRED" if far or shift < 0 else "VALID"
            self.assertEqual(wrong, ({}, [before, "VALID"]))
            meanwhile = "EXPIRED" if far or shift > 0 else "VALID"
            self.assertEqual(verdicts, ["VALID", meanwhile, "VALID"])
        server.kill()
        self.check_audit(server)


if __name__ == "__main__":
    SERVER, LIBRARY = map(os.path.abspath, sys.argv[1:3])
    if not os.path.exists(LIBRARY):
        sys.exit(f"{LIBRARY} is missing; build parplan_faults")
    arguments = sys.argv[3:]
    if "--every" in arguments:
        arguments.remove("--every")
        SAMPLE_COUNT = 0
    unittest.main(argv=sys.argv[:1] + arguments)
