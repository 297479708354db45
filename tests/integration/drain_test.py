#!/usr/bin/python3
"""How a server ends: calls in progress are answered, a second signal ends it at once.

    drain_test.py SERVER
"""
import queue
import signal
import sys
import tempfile
import threading
import time
import unittest

import grpc

import parplan_process as parplan

SERVER = None
PLANS = "parplan.v1.PlanService"


class HeldUpload:
    """An upload that has begun and does not end: a call in progress."""

    def __init__(self, client):
        self.messages = queue.Queue()
        self.messages.put({"header": {"parent": "clusters/lab/nodes/node-0", "request_id": "held",
                                      "provenance": {"agent": "test"}, "device_kind": "Test GPU",
                                      "devices_per_node": 2}})
        self.future = client.start("parplan.v1.ProfileService", "UploadProfile",
                                   iter(self.messages.get, None), timeout=60)

    def close(self):
        self.messages.put(None)


class Drain(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def serve(self, *flags):
        server = parplan.Server(SERVER, self.folder.name, *flags).start()
        self.addCleanup(server.__exit__)
        client = parplan.Client(server.address)
        self.addCleanup(client.channel.close)
        return server, client

    def wait_for_log(self, server, text):
        end = time.monotonic() + 20
        while text not in server.log():
            self.assertLess(time.monotonic(), end, server.log())
            time.sleep(0.01)

    def test_no_call_that_was_begun_is_lost(self):
        server, client = self.serve()
        client.upload("clusters/lab/nodes/node-0", "once", parplan.small_profile())
        client.call(PLANS, "CreatePlan", parplan.small_question())
        lost, answered = [], [0] * 4
        told = threading.Event()

        def ask(number):
            while not told.is_set():
                future = client.start(PLANS, "CreatePlan", parplan.small_question())
                began_before = not told.is_set()
                try:
                    future.result()
                    answered[number] += 1
                except grpc.RpcError as error:
                    if began_before:
                        lost.append(f"{error.code()} {error.details()}")

        callers = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
        for caller in callers:
            caller.start()
        while min(answered) < 20:
            time.sleep(0.005)
        # Calls go on until just before the signal, and are in progress when it comes.
        told.set()
        server.process.send_signal(signal.SIGTERM)
        for caller in callers:
            caller.join()
        self.assertEqual(server.process.wait(30), 0)
        self.assertEqual(lost, [])
        self.assertIn('"event":"ended"', server.log())

    def test_an_upload_in_progress_may_go_on(self):
        server, client = self.serve("--drain-time", "30s")
        held = HeldUpload(client)
        client.call(PLANS, "GetCapabilities", {})
        server.process.send_signal(signal.SIGINT)
        self.wait_for_log(server, '"event":"draining"')
        self.assertIsNone(server.process.poll())
        held.close()
        self.assertTrue(held.future.result().name)
        self.assertEqual(server.process.wait(30), 0)

    def test_a_call_that_does_not_end_is_ended_when_the_time_is_over(self):
        server, client = self.serve("--drain-time", "1s")
        held = HeldUpload(client)
        client.call(PLANS, "GetCapabilities", {})
        self.assertEqual(server.end(), 0)
        with self.assertRaises(grpc.RpcError):
            held.future.result()
        held.close()

    def test_a_second_signal_ends_at_once(self):
        server, client = self.serve("--drain-time", "60s")
        held = HeldUpload(client)
        client.call(PLANS, "GetCapabilities", {})
        server.process.send_signal(signal.SIGTERM)
        self.wait_for_log(server, '"event":"draining"')
        self.assertEqual(server.end(signal.SIGTERM, timeout=10), 128 + signal.SIGTERM)
        held.close()

    def test_a_hangup_reads_the_keys_again_and_nothing_else(self):
        server, client = self.serve()
        server.process.send_signal(signal.SIGHUP)
        self.wait_for_log(server, "keys read again")
        client.call(PLANS, "GetCapabilities", {})
        self.assertEqual(server.end(), 0)


if __name__ == "__main__":
    SERVER = sys.argv.pop()
    unittest.main(verbosity=2)
