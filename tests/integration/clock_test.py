#!/usr/bin/python3
"""Clocks that jump by an hour and by a year under those who hold plans: planctl and the sidecar.

    clock_test.py PLANCTL SERVER SIDECAR FAULT_LIBRARY

fault_test.py moves the clock of the server.
"""
import os
import pathlib
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

PLANCTL = SERVER = SIDECAR = LIBRARY = None
HOUR, YEAR = 3600, 365 * 86400
OK, NOT_VERIFIED = 0, 5
# A plan signed now is not yet valid an hour ago; its life is longer than an hour.
VERDICTS = {0: OK, HOUR: OK, -HOUR: NOT_VERIFIED, YEAR: NOT_VERIFIED, -YEAR: NOT_VERIFIED}


class ClockTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(dir="/tmp")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.faults = fault_test.Faults(self.folder / "faults")
        self.moved = {**os.environ, "PARPLAN_FAULTS": str(self.faults.path),
                      "LD_PRELOAD": LIBRARY}
        self.trust = self.folder / "data" / "trust-bundle.jwks.json"
        self.server = parplan.Server(SERVER, self.folder)
        self.addCleanup(self.server.__exit__)
        self.server.start()
        with parplan.Client(self.server.address) as client:
            client.upload("clusters/lab/nodes/n1", "upload-1", parplan.small_profile())
            self.plan = client.call(sidecar_case.PLANS, "CreatePlan", parplan.small_question(
                request_id="one", job_id="job-1"), 60)

    def run_moved(self, shift, *command):
        self.faults.set_clock(shift)
        return subprocess.run([str(word) for word in command], env=self.moved, text=True,
                              capture_output=True, check=False, timeout=300)

    def init(self, shift, volume):
        return self.run_moved(shift, SIDECAR, "init", "--server", self.server.address, "--plan",
                              self.plan.name, "--trust", self.trust, "--volume", volume)

    def test_a_plan_is_put_on_a_volume_within_its_time_only(self):
        for shift, verdict in VERDICTS.items():
            with self.subTest(shift=shift):
                volume = self.folder / f"volume{shift}"
                done = self.init(shift, volume)
                self.assertEqual(done.returncode, verdict, done.stderr)
                self.assertEqual(any(volume.rglob("*.dsse.json")), verdict == OK)

    def test_a_plan_verifies_within_its_time_only(self):
        volume = self.folder / "plan"
        self.assertEqual(self.init(0, volume).returncode, OK)
        envelope = next(volume.rglob("*.dsse.json"))
        # There and back: a wrong clock leaves nothing behind that a right one minds.
        for shift, verdict in [*VERDICTS.items(), (0, OK)]:
            with self.subTest(shift=shift):
                done = self.run_moved(shift, PLANCTL, "verify", envelope, "--trust", self.trust)
                self.assertEqual(done.returncode, verdict, done.stderr)

    def test_a_sidecar_whose_clock_jumps_brings_every_window(self):
        binary = self.folder / "parplan-sidecar"
        binary.write_text(f'#!/bin/sh\nPARPLAN_FAULTS="{self.faults.path}" LD_PRELOAD="{LIBRARY}" '
                          f'exec "{SIDECAR}" "$@"\n')
        binary.chmod(0o755)
        sidecar_case.FLAGS.bin = self.folder
        self.assertEqual(self.init(0, self.folder / "plan").returncode, OK)
        with sidecar_case.Sidecar(self.folder, self.server.address) as sidecar, \
                parplan.Client(self.server.address) as server, \
                parplan.Client(self.server.address) as job:
            job.service(sidecar_case.EXECUTIONS)
            job.channel.close()
            job.channel = grpc.insecure_channel(f"unix:{sidecar.socket}", parplan.CHANNEL_OPTIONS)
            name = job.call(sidecar_case.EXECUTIONS, "CreateExecution",
                            {"parent": self.plan.name, "request_id": "clock"}, 60).name
            for number, shift in enumerate([*VERDICTS, 0]):
                self.faults.set_clock(shift)
                answer = job.call(sidecar_case.EXECUTIONS, "ReportMetrics", [
                    {"execution": name, "window": sidecar_case.window(0, 10 * number)}], 60)
                self.assertEqual(answer.stored_window_count, 1, shift)
            job.call(sidecar_case.EXECUTIONS, "CompleteExecution", {"name": name}, 60)
            closed = wait_for("the end of the execution", lambda: [
                one for one in server.call(sidecar_case.EXECUTIONS, "ListExecutions",
                                           {"parent": self.plan.name}).executions
                if one.state == 2])
            self.assertEqual([one.window_count for one in closed], [len(VERDICTS) + 1])
            self.assertEqual(sidecar.end(), OK, sidecar.log())


if __name__ == "__main__":
    PLANCTL, SERVER, SIDECAR, LIBRARY = map(os.path.abspath, sys.argv[1:5])
    unittest.main(argv=sys.argv[:1] + sys.argv[5:])
