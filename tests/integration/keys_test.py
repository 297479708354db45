#!/usr/bin/python3
"""The keys of a running server: one that leaked is revoked, an old bundle is refused, and a server
that cannot sign says so in health, log and metrics.

    keys_test.py SERVER PLANCTL
"""
import base64
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

import grpc
from google.protobuf import json_format

import parplan_process as parplan

SERVER = None
PLANCTL = None
PLANS = "parplan.v1.PlanService"
NOT_VERIFIED = 5
# Seconds that nothing takes on any machine.
LONG = 200


def wait_for(holds):
    end = time.monotonic() + LONG
    while not holds():
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.1)


class Keys(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.bundle = self.folder / "data" / "trust-bundle.jwks.json"

    def serve(self):
        server = parplan.Server(SERVER, self.folder).start()
        self.addCleanup(server.__exit__)
        client = parplan.Client(server.address)
        self.addCleanup(client.__exit__)
        client.upload("clusters/lab/nodes/node-a", "r", parplan.small_profile())
        return server, client

    def keys(self, *arguments):
        done = subprocess.run([SERVER, "keys", *arguments, "--data-dir", self.folder / "data",
                               "--format", "json"], capture_output=True, text=True, timeout=LONG,
                              check=True)
        return json.loads(done.stdout)["keys"]

    def write(self, plan, name):
        """The envelope of a plan as a file."""
        signed = plan.signed_plan
        path = self.folder / name
        path.write_text(json.dumps({
            "payload": base64.b64encode(signed.payload).decode(),
            "payloadType": signed.payload_type,
            "signatures": [{"keyid": one.key_id, "sig": base64.b64encode(one.sig).decode()}
                           for one in signed.signatures]}))
        return path

    def verify(self, plan, trust, *flags):
        done = subprocess.run([PLANCTL, "verify", plan, "--trust", trust, *flags],
                              capture_output=True, text=True, timeout=LONG, check=False)
        return done.returncode, done.stderr

    def test_a_leaked_key_is_worth_nothing_once_it_is_revoked(self):
        _, client = self.serve()
        question = parplan.small_question(job_id="job-1")
        first = client.call(PLANS, "CreatePlan", question)
        plan = self.write(first, "first.json")
        old = self.folder / "old.jwks.json"
        shutil.copy(self.bundle, old)
        memory = self.folder / "accepted"
        self.assertEqual(self.verify(plan, old, "--trust-memory", memory)[0], 0)

        # No reload and no restart: the server finds out by itself.
        [key] = self.keys("list")
        listed = self.keys("revoke", key["key_id"][:12])
        self.assertEqual([one["status"] for one in listed], ["revoked", "active"])
        request = {"signed_plan": json_format.MessageToDict(first.signed_plan)}
        wait_for(lambda: client.call(PLANS, "CreatePlan", question).name != first.name)
        self.assertEqual(client.call(PLANS, "VerifyPlan", request).verdict, 2)  # BAD_SIGNATURE
        second = client.call(PLANS, "CreatePlan", question)
        self.assertEqual([one.key_id for one in second.signed_plan.signatures],
                         [listed[1]["key_id"]])

        code, text = self.verify(plan, self.bundle, "--trust-memory", memory)
        self.assertEqual(code, NOT_VERIFIED)
        self.assertIn("was revoked at", text)
        anew = self.write(second, "second.json")
        self.assertEqual(self.verify(anew, self.bundle, "--trust-memory", memory)[0], 0)
        # The attack: the leaked key's plan with the bundle from before.
        code, text = self.verify(plan, old, "--trust-memory", memory)
        self.assertEqual(code, NOT_VERIFIED)
        self.assertIn("was accepted here before", text)
        done = subprocess.run([PLANCTL, "verify", plan, "--trust", old], check=False, timeout=LONG,
                              capture_output=True, text=True,
                              env={**os.environ, "PARPLAN_TRUST_MEMORY": str(memory)})
        self.assertEqual(done.returncode, NOT_VERIFIED)

    def test_a_bundle_that_somebody_edited_or_that_has_expired_is_refused(self):
        _, client = self.serve()
        plan = self.write(client.call(PLANS, "CreatePlan", parplan.small_question()), "plan.json")
        self.keys("generate")
        document = json.loads(self.bundle.read_text())
        edited = self.folder / "edited.jwks.json"
        edited.write_text(json.dumps({**document, "keys": document["keys"][:1]}))
        code, text = self.verify(plan, edited)
        self.assertEqual(code, 2)
        self.assertIn("keys revoke", text)
        code, text = self.verify(plan, self.bundle, "--at", document["parplan_expire_time"])
        self.assertEqual(code, NOT_VERIFIED)
        self.assertIn("the trust bundle expired at", text)

    def test_a_server_that_cannot_sign_says_so(self):
        server, client = self.serve()

        def metrics():
            address = f"http://127.0.0.1:{server.metrics_port}/metrics"
            return urllib.request.urlopen(address, timeout=LONG).read().decode()

        wait_for(lambda: "\nparplan_signing_keys 1\n" in metrics())
        self.assertTrue(parplan.is_serving(client, PLANS))
        # No state of keys can be written any more, and the window of the only key ends.
        state = self.folder / "data" / "keys" / "keys.json"
        obstacle = state.with_name("keys.json.new")
        (obstacle / "in-the-way").mkdir(parents=True)
        before = json.loads(state.read_text())
        key = {**before["keys"][0], "not_before": "2020-01-01T00:00:00Z",
               "not_after": "2020-04-01T00:00:00Z"}
        staged = state.with_name("staged")
        staged.write_text(json.dumps({**before, "keys": [key]}))
        staged.chmod(0o600)
        staged.replace(state)
        with self.assertRaises(grpc.RpcError) as raised:
            for _ in range(LONG):
                client.call(PLANS, "CreatePlan", parplan.small_question(batch=16))
                time.sleep(0.5)
        self.assertEqual(client.error_info(raised.exception).reason, "STORE_UNAVAILABLE")
        wait_for(lambda: not parplan.is_serving(client, PLANS + "/signing"))
        # Clients choose their server by these names.
        self.assertTrue(parplan.is_serving(client, PLANS), "stored plans are answered")
        self.assertTrue(parplan.is_serving(client), "the rest is answered")
        self.assertIn("\nparplan_signing_keys 0\n", metrics())
        wait_for(lambda: '"event":"cannot sign"' in server.log())

        # It can be written again: nobody has to act on the keys.
        shutil.rmtree(obstacle)
        wait_for(lambda: parplan.is_serving(client, PLANS + "/signing"))
        self.assertIn("\nparplan_signing_keys 1\n", metrics())
        client.call(PLANS, "CreatePlan", parplan.small_question(batch=16))


if __name__ == "__main__":
    SERVER, PLANCTL = (os.path.abspath(path) for path in sys.argv[1:3])
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
