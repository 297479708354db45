#!/usr/bin/python3
"""Clocks that jump by an hour and by a year under what waits, lends and proves: the agent's
measurements, leases of nodes, and tokens of service accounts.

    lease_clock_test.py AGENT SERVER FAULT_LIBRARY

clock_test.py moves the clocks of those who hold plans, fault_test.py that of a server that signs.
"""
import json
import os
import pathlib
import sys
import tempfile
import time
import unittest

import grpc

import fault_test
import parplan_process as parplan
from agent_process import Agent
from machine import wait_for
from service_accounts import ServiceAccounts

AGENT = SERVER = LIBRARY = None
HOUR, YEAR = 3600, 365 * 86400
STORED = 'parplan_agent_uploads_total{result="stored"}'
DONE = 'parplan_agent_measurements_total{kind="%s",result="done"}'
UNAUTHENTICATED = grpc.StatusCode.UNAUTHENTICATED


class LeaseClockTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(dir="/tmp")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def moved(self, binary, name):
        """A program whose clock the returned faults move, and those faults."""
        faults = fault_test.Faults(self.folder / f"{name}.faults")
        script = self.folder / name
        script.write_text(f'#!/bin/sh\nPARPLAN_FAULTS="{faults.path}" LD_PRELOAD="{LIBRARY}" '
                          f'exec "{binary}" "$@"\n')
        script.chmod(0o755)
        return script, faults

    def leave_window(self, spool):
        """All-reduces that take far longer than any machine's."""
        staged = spool / "w.new"
        staged.write_text(json.dumps({
            "rank": 0, "step_count": 1, "median_step_duration": "1s",
            "collective_timings": [{
                "collective": "COLLECTIVE_ALL_REDUCE", "participant_count": 2, "rank_stride": 1,
                "message_size_bytes": 4096, "median_duration": "3s", "sample_count": 100}]}))
        staged.rename(spool / "w.window.json")

    def test_an_agent_measures_what_drifts_whatever_its_clock_did(self):
        binary, faults = self.moved(AGENT, "agent")
        with parplan.Server(SERVER, self.folder) as server:
            # It starts with a clock that is a year ahead, as after a boot without a battery, and
            # measures; then the clock is set right. Its pauses must not last until it has caught up.
            faults.set_clock(YEAR)
            with Agent(binary, self.folder, server.address, "--drift-pause", "1s") as agent:
                agent.wait_for_metric(STORED, 1)
                for count, shift in enumerate((0, -HOUR, HOUR, -YEAR)):
                    faults.set_clock(shift)
                    # Abseil reads the clock of the system every few seconds.
                    time.sleep(3)
                    self.leave_window(agent.spool)
                    # A profile of times that are still to come is measured whole again.
                    wait_for(f"a measurement at {shift:+d} s", lambda: count + 2 == sum(
                        agent.metric(DONE % kind) for kind in ("whole", "incremental")))
                agent.wait_for_metric(STORED, 5)
                self.assertEqual(agent.metric(DONE % "incremental"), 1)
                self.assertEqual(agent.end(), 0)

    def test_leases_are_lent_whatever_the_clocks_are(self):
        flags = ["--ranks", "1", "--max-message-bytes", "4096"]
        server_binary, server_faults = self.moved(SERVER, "server")
        first_binary, first_faults = self.moved(AGENT, "first")
        second_binary, second_faults = self.moved(AGENT, "second")
        first_faults.set_clock(-HOUR)
        second_faults.set_clock(YEAR)
        with parplan.Server(server_binary, self.folder) as server, \
                Agent(second_binary, self.folder / "n2", server.address, *flags,
                      node="n2") as second:
            second.wait_for_metric(STORED, 1)
            server_faults.set_clock(-YEAR)
            with Agent(first_binary, self.folder / "n1", server.address, *flags, "--link-node",
                       "n1", "--link-node", "n2") as first:
                wait_for("the lease", lambda: second.events("measuring links for another node"))
                for faults in (server_faults, first_faults, second_faults):
                    faults.set_clock(HOUR)
                first.wait_for_event("measured links")
                first.wait_for_metric(STORED, 2)
                self.assertEqual(first.events("links were not measured"), [])
                self.assertEqual(first.end(), 0)
            self.assertEqual(second.end(), 0)

    def test_a_token_counts_within_its_time_only(self):
        accounts = ServiceAccounts(self.folder)
        config = self.folder / "server.json"
        config.write_text(json.dumps({"authorization": {
            "grants": [{"identities": ["k8s:{cluster}/planner"], "role": "planner"}],
            "service_accounts": accounts.configuration()}}))
        binary, faults = self.moved(SERVER, "server")
        socket = self.folder / "socket"
        server = parplan.Server(binary, self.folder, "--config", config, "--listen",
                                f"unix:{socket}")
        server.start()
        self.addCleanup(server.__exit__)
        token = [("authorization", "Bearer " + accounts.token(exp=int(time.time()) + 1800))]
        parent = b"clusters/lab"
        with grpc.insecure_channel(f"unix:{socket}") as channel:
            ask = channel.unary_unary("/parplan.v1.PlanService/ListPlans")

            def answer():
                try:
                    ask(bytes([10, len(parent)]) + parent, timeout=60, metadata=token)
                    return grpc.StatusCode.OK, ""
                except grpc.RpcError as error:
                    return error.code(), error.details()

            self.assertEqual(answer()[0], grpc.StatusCode.OK)
            for shift, why in ((HOUR, "expired"), (-HOUR, "not valid yet"), (YEAR, "expired"),
                               (-YEAR, "not valid yet")):
                faults.set_clock(shift)
                wait_for(f"a refusal at {shift:+d} s", lambda: answer()[0] == UNAUTHENTICATED)
                self.assertIn(why, answer()[1])
                # There and back: the key set and the grants are as before.
                faults.set_clock(0)
                wait_for("the right time", lambda: answer()[0] == grpc.StatusCode.OK)


if __name__ == "__main__":
    AGENT, SERVER, LIBRARY = map(os.path.abspath, sys.argv[1:4])
    unittest.main(argv=sys.argv[:1] + sys.argv[4:])
