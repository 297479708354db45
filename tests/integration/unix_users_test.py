#!/usr/bin/python3
"""The users of a Unix socket as identities, with a real server and callers that are real users.

    unix_users_test.py SERVER

Other users are numbers without a name, to which only root can change.
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

import parplan_process as parplan
from service_accounts import ServiceAccounts

SERVER = None
OTHER, THIRD = 54321, 54322
# Asks for the plans of a cluster, as often as it is told with a new connection each time; prints
# the codes.
CALLER = """
import sys
import grpc

address, cluster, token, count = sys.argv[1:]
parent = f"clusters/{cluster}".encode()
metadata = [("authorization", f"Bearer {token}")] if token else []
for _ in range(int(count)):
    with grpc.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)]) as channel:
        try:
            channel.unary_unary("/parplan.v1.PlanService/ListPlans")(
                bytes([10, len(parent)]) + parent, timeout=60, metadata=metadata)
            print("OK")
        except grpc.RpcError as error:
            print(error.code().name, error.details())
"""


class UnixUsers(unittest.TestCase):
    def setUp(self):
        # Other users reach it.
        folder = tempfile.TemporaryDirectory(dir="/tmp")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.folder.chmod(0o755)
        self.socket = self.folder / "socket"
        self.accounts = ServiceAccounts(self.folder)

    def write_config(self, *readers, **more):
        """Readers of the cluster `lab`."""
        config = self.folder / "server.json"
        config.write_text(json.dumps({"authorization": {"grants": [
            {"identities": list(readers), "role": "reader", "clusters": ["lab"]}], **more}}))
        return config

    def serve(self, *readers, **more):
        self.audit = self.folder / "audit.log"
        server = parplan.Server(SERVER, self.folder, "--config", self.write_config(*readers, **more),
                                "--listen", f"unix:{self.socket}", "--audit-file", self.audit)
        server.start()
        self.addCleanup(server.__exit__)
        self.socket.chmod(0o777)
        return server

    def caller(self, user, cluster="lab", token="", count=1):
        """A process of the user that calls."""
        return subprocess.Popen(
            ["/usr/bin/python3", "-B", "-c", CALLER, f"unix:{self.socket}", cluster, token,
             str(count)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd="/",
            user=None if user == os.getuid() else user)

    def ask(self, user, **options):
        """What a call of the user printed."""
        with self.caller(user, **options) as process:
            out, errors = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0, errors)
        return out

    def identities(self, server):
        return [json.loads(line).get("identity") for line in server.log().splitlines()
                if '"ListPlans"' in line]

    def need_root(self):
        if os.getuid() != 0:
            self.skipTest("only root can call as other users; this is user "
                          f"{os.getuid()}")

    def test_a_caller_is_the_user_who_connected(self):
        own = f"uid:{os.getuid()}"
        server = self.serve(own, unix_users=True)
        self.assertEqual(self.ask(os.getuid()), "OK\n")
        # What no grant allows is denied.
        refused = self.ask(os.getuid(), cluster="other")
        self.assertIn("PERMISSION_DENIED", refused)
        self.assertIn(own, refused)
        self.assertEqual(self.identities(server), [own, own])
        self.assertIn(f'"identity":"{own}"', self.audit.read_text().replace('": "', '":"'))

    def test_other_users_are_others(self):
        self.need_root()
        server = self.serve(f"uid:{OTHER}", unix_users=True)
        self.assertEqual(self.ask(OTHER), "OK\n")
        for user in (0, THIRD):
            self.assertIn(f"uid:{user}", self.ask(user))
        self.assertEqual(self.identities(server), [f"uid:{OTHER}", "uid:0", f"uid:{THIRD}"])
        self.assertIn(f"uid:{THIRD}", self.audit.read_text())

    def test_connections_that_come_and_go_keep_their_users(self):
        """Descriptors of connections are used again, never for another user."""
        self.need_root()
        server = self.serve(f"uid:{OTHER}", unix_users=True)
        callers = {user: self.caller(user, count=60) for user in (0, OTHER, THIRD)}
        for user, process in callers.items():
            with process:
                lines = process.communicate(timeout=300)[0].splitlines()
            self.assertEqual(len(lines), 60)
            for line in lines:
                self.assertTrue(line == "OK" if user == OTHER else f"`uid:{user}`" in line, line)
        self.assertEqual(sorted(self.identities(server)),
                         sorted(60 * ["uid:0", f"uid:{OTHER}", f"uid:{THIRD}"]))

    def test_a_user_whom_the_system_cannot_name_holds_nothing(self):
        self.need_root()
        self.serve("uid:*", unix_users=True)
        self.assertEqual(self.ask(OTHER), "OK\n")
        self.assertIn("`unnamed`", self.ask(65534))

    def test_without_the_setting_everybody_is_anonymous(self):
        server = self.serve("anonymous")
        self.assertEqual(self.ask(os.getuid()), "OK\n")
        self.assertEqual(self.identities(server), ["anonymous"])
        # With it nobody is, once the file is read again.
        self.write_config("anonymous", unix_users=True)
        config = json.loads((self.folder / "server.json").read_text())
        self.assertTrue(config["authorization"]["unix_users"])
        server.process.send_signal(signal.SIGHUP)
        end = time.monotonic() + 60
        while "PERMISSION_DENIED" not in self.ask(os.getuid()):
            self.assertLess(time.monotonic(), end, server.log())

    def test_a_token_counts_before_the_user(self):
        server = self.serve("k8s:lab/reader", unix_users=True,
                            service_accounts=self.accounts.configuration(None))
        token = self.accounts.token(sub="system:serviceaccount:lab:reader")
        self.assertEqual(self.ask(os.getuid(), token=token), "OK\n")
        self.assertIn("PERMISSION_DENIED", self.ask(os.getuid()))
        self.assertEqual(self.identities(server), ["k8s:lab/reader", f"uid:{os.getuid()}"])
        # A wrong one is refused; the call is not the user's then.
        self.assertIn("UNAUTHENTICATED", self.ask(os.getuid(), token="x"))

    def check(self, config, *flags):
        return subprocess.run([SERVER, "--check-config", "--config", config, "--data-dir",
                               self.folder / "data", *flags], capture_output=True, text=True)

    def test_a_server_that_cannot_know_users_does_not_start(self):
        config = self.write_config("uid:0", unix_users=True)
        done = self.check(config)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("authorization.unix_users: ", done.stderr)
        path = f"unix:{self.socket}"
        self.assertEqual(self.check(config, "--listen", path).returncode, 0)
        certificates = parplan.make_certificates(self.folder / "certificates")
        done = self.check(config, "--listen", path, "--tls-certificate",
                          certificates / "server.pem", "--tls-key", certificates / "server.key")
        self.assertEqual(done.returncode, 2, done.stderr)
        for bad in ("uid:root", "uid:{node}", "uid:65534"):
            done = self.check(self.write_config(bad, unix_users=True), "--listen", path)
            self.assertIn("authorization.grants", done.stderr, bad)

    def test_roles_of_a_user_are_shown(self):
        config = self.write_config("uid:7", unix_users=True)
        written = json.loads(config.read_text())
        config.write_text(json.dumps({**written, "listen": f"unix:{self.socket}"}))
        for user, roles in ((7, "reader in clusters lab"), (8, "holds no role")):
            done = subprocess.run([SERVER, "access", "show", "--config", config, "--uid",
                                   str(user)], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(f"uid:{user}", done.stdout)
            self.assertIn(roles, done.stdout)


if __name__ == "__main__":
    SERVER = sys.argv.pop(1)
    unittest.main()
