#!/usr/bin/python3
"""Faults of the system at every call of a sidecar that can fail: writes that find no room or a
broken disk, flushes, reads and removals that fail, descriptors that run out.

    sidecar_fault_test.py SERVER SIDECAR FAULT_LIBRARY [--every] [ARGUMENTS OF UNITTEST]

The sidecar goes through one life again and again: it starts, takes two executions of a job, brings
their windows to a server that never fails, and ends; each time another one of its calls fails.
Every window that it acknowledged is at the server at the latest after its next life, in which
nothing fails; and if it ends by itself, it says why. Every few calls are tried; `--every` tries
each. fault_test.py does the same to servers, docs/faults.md has what callers saw.
"""
import collections
import errno
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

import grpc

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "clients" / "kubernetes"))
# pylint: disable=wrong-import-position
import fault_test
import parplan_process as parplan
import sidecar_case
from machine import wait_for
from sidecar_case import EXECUTIONS, OK, window

SERVER = SIDECAR = LIBRARY = None
# Calls that are tried of each kind; 0 for each.
SAMPLE_COUNT = 4
WRITE, FLUSH, DESCRIPTOR, READ, REMOVE = 1, 2, 4, 8, 16
NEVER = fault_test.NEVER
# Windows that a job reports of each of its two executions, each in a call of its own.
WINDOW_COUNT = 3
# What a job may see: the journal does not take it, or nobody listens any more.
ALLOWED = {"UNAVAILABLE"}


class Life:
    """What a sidecar acknowledged: windows by the request id of their execution, and whether its
    end was."""

    def __init__(self):
        self.windows = {}
        self.closed = set()
        self.errors = collections.Counter()
        self.end = None


class SidecarFaultTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # Paths of sockets are short.
        folder = tempfile.TemporaryDirectory(dir="/tmp")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.faults = fault_test.Faults(cls.folder / "faults")
        binary = cls.folder / "parplan-sidecar"
        binary.write_text(f'#!/bin/sh\nPARPLAN_FAULTS="{cls.faults.path}" LD_PRELOAD="{LIBRARY}" '
                          f'exec "{SIDECAR}" "$@"\n')
        binary.chmod(0o755)
        sidecar_case.FLAGS.bin = cls.folder
        cls.server = parplan.Server(SERVER, cls.folder).start()
        cls.addClassCleanup(cls.server.__exit__)
        cls.client = parplan.Client(cls.server.address)
        cls.addClassCleanup(cls.client.__exit__)
        cls.client.upload("clusters/lab/nodes/n1", "upload-1", parplan.small_profile())
        cls.plan = cls.client.call(sidecar_case.PLANS, "CreatePlan",
                                   parplan.small_question(request_id="one", job_id="job-1"), 60)
        cls.client.service(EXECUTIONS)
        cls.trust = cls.folder / "data" / "trust-bundle.jwks.json"
        cls.number = 0

    def new_sidecar(self):
        """A sidecar whose volume has the plan, made while nothing fails."""
        type(self).number += 1
        self.faults.set()
        folder = self.folder / str(self.number)
        (folder / "data").mkdir(parents=True)
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        shutil.copy(self.trust, folder / "data")
        sidecar = sidecar_case.Sidecar(folder, self.server.address, "--drain-time", "3s")
        self.addCleanup(sidecar.__exit__)
        done = subprocess.run(
            [SIDECAR, "init", "--server", self.server.address, "--trust", self.trust, "--volume",
             folder / "plan", "--plan", self.plan.name],
            capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual(done.returncode, OK, done.stderr)
        return sidecar

    def job(self, sidecar):
        """A client that knows the messages from the server."""
        job = parplan.Client(self.server.address)
        job.service(EXECUTIONS)
        job.channel.close()
        job.channel = grpc.insecure_channel(f"unix:{sidecar.socket}", parplan.CHANNEL_OPTIONS)
        return job

    def report(self, job, life, request_id):
        """One execution of a job. What was not taken is not reported again."""
        def ask(method, request):
            try:
                return job.call(EXECUTIONS, method, request, 60)
            except grpc.RpcError as error:
                life.errors[error.code().name] += 1
                return None

        opened = ask("CreateExecution", {"parent": self.plan.name, "request_id": request_id})
        if opened is None:
            return
        life.windows[request_id] = []
        for number in range(WINDOW_COUNT):
            if ask("ReportMetrics", [
                    {"execution": opened.name, "window": window(0, 10 * number)}]) is not None:
                life.windows[request_id].append(10 * number)
        if ask("CompleteExecution", {"name": opened.name}) is not None:
            life.closed.add(request_id)

    def live(self, sidecar):
        """One life of a sidecar, with the faults that are set. Returns what it acknowledged, and
        whether it began."""
        life = Life()
        try:
            sidecar.start()
        except AssertionError:
            self.assert_ended_with_a_reason(sidecar, sidecar.process.returncode)
            return life, False
        with self.job(sidecar) as job:
            for which in ("a", "b"):
                self.report(job, life, f"life-{self.number}-{which}")
        self.assertIsNone(sidecar.process.poll(), sidecar.log())
        life.end = sidecar.end()
        if life.end != OK:
            self.assert_ended_with_a_reason(sidecar, life.end)
        return life, True

    def assert_ended_with_a_reason(self, sidecar, code):
        self.assertGreater(code, 0, sidecar.log())
        self.assertTrue(any(one["level"] == "error" and one.get("message")
                            for one in sidecar.events("ended")), sidecar.log())

    def check_brought(self, sidecar, life, keeps_records=False):
        """All that was acknowledged is at the server after a life without faults. If records could
        not be removed, the server gets them again, and refuses those of executions that have ended
        meanwhile."""
        self.faults.set()
        (sidecar.folder / "sidecar.log").unlink()
        sidecar.arguments += ["--drain-time", "5m"]
        sidecar.start()
        sidecar.process.send_signal(signal.SIGTERM)
        # The process takes another second or two to end.
        told, *_ = wait_for("the end", lambda: sidecar.events("ended"))
        sidecar.kill()
        self.assertTrue(told["level"] == "info" or keeps_records, sidecar.log())
        self.assertEqual(told["waiting"], "0", sidecar.log())
        for request_id, windows in life.windows.items():
            known = self.client.call(
                EXECUTIONS, "CreateExecution",
                {"parent": self.plan.name, "request_id": request_id}, 60)
            self.assertGreaterEqual(known.window_count, len(windows), sidecar.log())
            if request_id in life.closed:
                self.assertEqual(known.state, 2, sidecar.log())

    def inject(self, kinds, errors, more=NEVER):
        """Every life, with one failing call, and with `more` failing after it."""
        sidecar = self.new_sidecar()
        self.faults.set(kinds)
        life, began = self.live(sidecar)
        self.assertTrue(began and not life.errors and life.end == OK, sidecar.log())
        self.assertEqual([len(one) for one in life.windows.values()], 2 * [WINDOW_COUNT])
        count = self.faults.count()
        self.assertGreater(count, 3)
        self.check_brought(sidecar, life)
        step = 1 if SAMPLE_COUNT == 0 else max(1, count // SAMPLE_COUNT)
        seen = collections.Counter()
        for error in errors:
            for first in range(0, count, step):
                for last in (first, first + more):
                    with self.subTest(error=errno.errorcode[error], first=first, last=last):
                        sidecar = self.new_sidecar()
                        self.faults.set(kinds, error, first, last)
                        life, began = self.live(sidecar)
                        seen.update(life.errors)
                        seen["did not start, with a reason"] += not began
                        seen[f"ended with {life.end}"] += began
                        self.check_brought(sidecar, life, kinds == REMOVE)
                        self.assertLessEqual(set(life.errors), ALLOWED, sidecar.log())
        print(f"faults: {self.id()}: {count} calls, each {step}th tried: {dict(seen)}",
              file=sys.stderr)

    def test_writes_that_find_no_room_or_a_broken_disk(self):
        self.inject(WRITE, (errno.ENOSPC, errno.EIO))

    def test_flushes_that_fail(self):
        self.inject(FLUSH, (errno.EIO,))

    def test_reads_that_fail(self):
        self.inject(READ, (errno.EIO,))

    def test_removals_that_fail(self):
        self.inject(REMOVE, (errno.EIO,))

    def test_descriptors_that_run_out(self):
        # For a while: a sidecar that never has another descriptor hears nobody.
        self.inject(DESCRIPTOR, (errno.EMFILE,), more=20)


if __name__ == "__main__":
    SERVER, SIDECAR, LIBRARY = map(os.path.abspath, sys.argv[1:4])
    if not os.path.exists(LIBRARY):
        sys.exit(f"{LIBRARY} is missing; build parplan_faults")
    arguments = sys.argv[4:]
    if "--every" in arguments:
        arguments.remove("--every")
        SAMPLE_COUNT = 0
    unittest.main(argv=sys.argv[:1] + arguments)
