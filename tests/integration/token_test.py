#!/usr/bin/python3
"""Tokens of Kubernetes service accounts, with a real server: who is who over TLS and over a Unix
socket, and what is refused.

    token_test.py SERVER PLANCTL
"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import grpc

import parplan_process as parplan
from service_accounts import ServiceAccounts

SERVER = None
PLANCTL = None
PLANS = "parplan.v1.PlanService"
DENIED = grpc.StatusCode.PERMISSION_DENIED
UNAUTHENTICATED = grpc.StatusCode.UNAUTHENTICATED


class Tokens(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.accounts = ServiceAccounts(self.folder)
        self.token = self.accounts.token

    def write_config(self, key_set=None, **changes):
        config = self.folder / "server.json"
        config.write_text(json.dumps({"authorization": {
            "grants": [{"identities": ["k8s:{cluster}/planner"], "role": "planner"},
                       {"identities": ["k8s:lab/reader"], "role": "reader", "clusters": ["lab"]}],
            "service_accounts": self.accounts.configuration(key_set)}, **changes}))
        return config

    def start(self, config, *flags):
        server = parplan.Server(SERVER, self.folder, "--config", config, *flags)
        server.start()
        self.addCleanup(server.__exit__)
        return server

    def serve(self, *flags):
        return self.start(self.write_config(), *flags)

    def ask(self, client, token, cluster="lab", scheme="Bearer "):
        """The code of a list of plans, and its message."""
        metadata = [] if token is None else [("authorization", scheme + token)]
        call = client.channel.unary_unary(f"/{PLANS}/ListPlans")
        # ListPlansRequest.parent
        parent = f"clusters/{cluster}".encode()
        try:
            call(bytes([10, len(parent)]) + parent, timeout=20, metadata=metadata)
            return grpc.StatusCode.OK, ""
        except grpc.RpcError as error:
            return error.code(), error.details()

    def assert_refused(self, client, token, why, **options):
        code, message = self.ask(client, token, **options)
        self.assertEqual(code, UNAUTHENTICATED, message)
        self.assertIn(why, message)

    def test_over_tls_a_token_is_an_identity(self):
        certificates = parplan.make_certificates(self.folder / "certificates")
        server = self.serve("--tls-certificate", certificates / "server.pem",
                            "--tls-key", certificates / "server.key")
        credentials = grpc.ssl_channel_credentials((certificates / "ca.pem").read_bytes())
        with parplan.Client(server.address, credentials) as client:
            self.assertEqual(self.ask(client, self.token())[0], grpc.StatusCode.OK)
            self.assertEqual(self.ask(client, self.token(), cluster="other")[0], DENIED)
            self.assertEqual(self.ask(client, None)[0], DENIED)
            stranger = self.token(sub="system:serviceaccount:lab:stranger")
            self.assertEqual(self.ask(client, stranger)[0], DENIED)
            for token, why in (
                    (self.token(exp=int(time.time()) - 60), "expired"),
                    (self.token(nbf=int(time.time()) + 600), "not valid yet"),
                    (self.token(aud=["other"]), "audience"),
                    (self.token(iss="https://other"), "issuer"),
                    (self.token(sub="planner"), "subject"),
                    (self.token(header={"alg": "none"}), "algorithm"),
                    (self.token(header={"alg": "ES256", "kid": "one"}), "no key"),
                    (self.token() + "A", "no key"),
                    ("a" * 7000, "no signed")):
                self.assert_refused(client, token, why)
            self.assert_refused(client, self.token(), "Bearer", scheme="Basic ")
            # A token that proves nothing neither makes a plan nor reads what all callers may read.
            capabilities = client.channel.unary_unary(f"/{PLANS}/GetCapabilities")
            with self.assertRaises(grpc.RpcError) as caught:
                capabilities(b"", timeout=20, metadata=[("authorization", "Bearer x")])
            self.assertEqual(caught.exception.code(), UNAUTHENTICATED)

    def test_a_reload_takes_new_keys(self):
        certificates = parplan.make_certificates(self.folder / "certificates")
        server = self.serve("--tls-certificate", certificates / "server.pem",
                            "--tls-key", certificates / "server.key")
        credentials = grpc.ssl_channel_credentials((certificates / "ca.pem").read_bytes())
        self.accounts.make_key("two")
        with parplan.Client(server.address, credentials) as client:
            self.assert_refused(client, self.token("two"), "no key")
            self.accounts.write_key_set("two")
            server.process.send_signal(signal.SIGHUP)
            end = time.monotonic() + 30
            while self.ask(client, self.token("two"))[0] != grpc.StatusCode.OK:
                self.assertLess(time.monotonic(), end)
            self.assert_refused(client, self.token("one"), "no key")

    def check(self, config, *flags):
        return subprocess.run([SERVER, "--check-config", "--config", config, "--data-dir",
                               self.folder / "data", *flags], capture_output=True, text=True)

    def test_a_server_that_no_token_can_reach_does_not_start(self):
        certificates = parplan.make_certificates(self.folder / "certificates")
        tls = ("--tls-certificate", certificates / "server.pem",
               "--tls-key", certificates / "server.key")
        config = self.write_config()
        for flags, advice in (((), "set tls_certificate and tls_key"),
                              ((*tls, "--tls-client-ca", certificates / "ca.pem"),
                               "leave one of them out")):
            done = self.check(config, *flags)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("authorization.service_accounts: ", done.stderr)
            self.assertIn(advice, done.stderr)
        self.assertEqual(self.check(config, *tls).returncode, 0)
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        for key_set in (pipe, "/dev/null", self.folder):
            done = self.check(self.write_config(key_set), *tls)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("service_accounts.key_set_file", done.stderr)

    def test_a_reload_that_fails_is_in_the_log(self):
        certificates = parplan.make_certificates(self.folder / "certificates")
        tls = {"tls_certificate": str(certificates / "server.pem"),
               "tls_key": str(certificates / "server.key")}
        config = self.folder / "server.json"
        config.write_text(json.dumps({**tls, "tls_client_ca": str(certificates / "ca.pem")}))
        server = self.start(config)
        # It is right on its own, but not with the TLS files that the server goes on with.
        self.write_config(**tls)
        server.process.send_signal(signal.SIGHUP)
        end = time.monotonic() + 30
        while "authorization not read again" not in server.log():
            self.assertLess(time.monotonic(), end, server.log())
            time.sleep(0.01)
        self.assertIn("authorization.service_accounts", server.log())

    def list_profiles(self, address, *flags):
        """What planctl says of the profiles of the cluster `lab`."""
        return subprocess.run([PLANCTL, "profile", "list", "--cluster", "lab", "--server", address,
                               *flags],
                              capture_output=True, text=True, timeout=60)

    def test_planctl_sends_the_token_in_a_file(self):
        certificates = parplan.make_certificates(self.folder / "certificates")
        path = self.folder / "socket"
        token = self.folder / "token"
        token.write_text(self.token(sub="system:serviceaccount:lab:reader"))
        server = self.serve("--tls-certificate", certificates / "server.pem",
                            "--tls-key", certificates / "server.key")
        ca = ("--tls-ca", certificates / "ca.pem")
        done = self.list_profiles(server.address, *ca, "--token-file", token)
        self.assertEqual(done.returncode, 0, done.stderr)
        done = self.list_profiles(server.address, *ca)
        self.assertIn("ROLE_REQUIRED", done.stderr)
        token.write_text(self.token(exp=int(time.time()) - 60))
        done = self.list_profiles(server.address, *ca, "--token-file", token)
        self.assertIn("expired", done.stderr)
        done = self.list_profiles(server.address, "--token-file", token)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("TLS or a Unix socket", done.stderr)
        server.__exit__()
        token.write_text(self.token(sub="system:serviceaccount:lab:reader"))
        self.serve("--listen", f"unix:{path}")
        done = self.list_profiles(f"unix:{path}", "--token-file", token)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_over_a_unix_socket_it_counts(self):
        path = self.folder / "socket"
        self.serve("--listen", f"unix:{path}")
        with parplan.Client(f"unix:{path}") as client:
            self.assertEqual(self.ask(client, self.token())[0], grpc.StatusCode.OK)
            self.assert_refused(client, self.token(aud="other"), "audience")


if __name__ == "__main__":
    SERVER, PLANCTL = sys.argv.pop(1), sys.argv.pop(1)
    unittest.main()
