#!/usr/bin/python3
"""A server in an operator's hands: settings and files that can't hold are refused in one line
before anything is opened, a service manager is told when the server listens, and a running server
takes another log level.

    operator_test.py SERVER
"""
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

import parplan_process as parplan

SERVER = None
# Seconds that nothing takes on any machine.
LONG = 300


class Refusals(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.certificate_folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.certificate_folder.cleanup)
        cls.certificates = parplan.make_certificates(cls.certificate_folder.name)

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.data = self.folder / "data"

    def run_server(self, *flags, data=None):
        return subprocess.run(
            [SERVER, "--data-dir", str(data or self.data), "--listen", "127.0.0.1:0",
             "--metrics-listen", "off", *map(str, flags)],
            capture_output=True, text=True, timeout=LONG, check=False)

    def refused(self, *flags, code=1, data=None):
        """The one message of a server that must not start."""
        done = self.run_server(*flags, data=data)
        self.assertEqual(done.returncode, code, f"{flags}: {done.stderr}")
        self.assertEqual(done.stdout, "")
        if code == 2:
            return done.stderr
        lines = [json.loads(line) for line in done.stderr.splitlines()]
        refusals = [line for line in lines if line["event"] == "cannot start"]
        self.assertEqual(len(refusals), 1, done.stderr)
        return refusals[0]["message"]

    def tls(self, **changed):
        files = {"certificate": self.certificates / "server.pem",
                 "key": self.certificates / "server.key",
                 "client-ca": self.certificates / "ca.pem", **changed}
        return [part for name, path in files.items() for part in (f"--tls-{name}", path)]

    def file(self, name, content):
        path = self.folder / name
        path.write_text(content)
        return path

    def test_files_of_tls_that_are_junk_are_refused_before_anything_is_made(self):
        junk = self.file("junk.pem", "-----BEGIN CERTIFICATE-----\nanVuaw==\n"
                                     "-----END CERTIFICATE-----\n")
        junk_key = self.file("junk.key", "-----BEGIN PRIVATE KEY-----\nanVuaw==\n"
                                         "-----END PRIVATE KEY-----\n")
        good = (self.certificates / "server.pem").read_text()
        half = self.file("half.pem", good + junk.read_text())
        empty = self.file("empty.pem", "")
        for name, path, field in (("certificate", junk, "tls_certificate"),
                                  ("certificate", half, "tls_certificate"),
                                  ("certificate", empty, "tls_certificate"),
                                  ("certificate", self.folder, "tls_certificate"),
                                  ("key", junk_key, "tls_key"), ("key", empty, "tls_key"),
                                  ("key", self.certificates / "server.pem", "tls_key"),
                                  ("client-ca", junk, "tls_client_ca"),
                                  ("client-ca", self.certificates / "ca.key", "tls_client_ca")):
            message = self.refused(*self.tls(**{name: path}))
            self.assertIn(field, message)
            self.assertIn(str(path), message)
        self.assertFalse(self.data.exists())

    def test_a_key_of_another_certificate_is_refused(self):
        message = self.refused(*self.tls(key=self.certificates / "client.key"))
        self.assertIn("is not the key of", message)

    def test_an_encrypted_key_is_refused_and_nobody_is_asked(self):
        locked = self.folder / "locked.key"
        subprocess.run(["openssl", "pkey", "-in", self.certificates / "server.key", "-aes256",
                        "-passout", "pass:secret", "-out", locked], check=True,
                       capture_output=True)
        self.assertIn("unencrypted", self.refused(*self.tls(key=locked)))

    def test_a_certificate_that_ended_is_refused_with_its_time(self):
        # Beginning and end are far in the past; openssl takes both only through `ca`.
        (self.folder / "index.txt").write_text("")
        (self.folder / "serial").write_text("01\n")
        config = self.file("ca.conf", f"""
[ca]
default_ca = here
[here]
database = {self.folder}/index.txt
serial = {self.folder}/serial
new_certs_dir = {self.folder}
default_md = sha256
policy = any
[any]
commonName = supplied
""")
        ended = self.folder / "ended.pem"
        subprocess.run(["openssl", "ca", "-batch", "-config", config, "-notext",
                        "-cert", self.certificates / "ca.pem",
                        "-keyfile", self.certificates / "ca.key",
                        "-in", self.certificates / "server.csr", "-out", ended,
                        "-startdate", "20200101000000Z", "-enddate", "20200201000000Z"],
                       check=True, capture_output=True)
        self.assertIn("expired on 2020-02-01T00:00:00", self.refused(*self.tls(certificate=ended)))

    def test_what_is_in_the_file_counts_also_where_it_is_nothing(self):
        for content, field in (('{"workers": 0}', "workers"),
                               ('{"queue_length": 0}', "queue_length"),
                               ('{"max_upload_bytes": "0"}', "max_upload_bytes"),
                               ('{"plan_ttl": "0s"}', "plan_ttl"),
                               ('{"drain_time": "0s"}', "drain_time"),
                               ('{"log_level": ""}', "log_level"),
                               ('{"log_format": ""}', "log_format")):
            message = self.refused("--config", self.file("server.json", content), code=2)
            self.assertIn(field, message)
        self.assertIn("Is a directory", self.refused("--config", self.folder, code=2))
        for name in ("listen", "metrics_listen", "data_dir"):
            config = self.file("server.json", json.dumps({name: ""}))
            done = subprocess.run([SERVER, "--config", config], capture_output=True, text=True,
                                  timeout=LONG, check=False)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(name, done.stderr)

    def test_a_port_in_use_is_named(self):
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            address = f"127.0.0.1:{other.getsockname()[1]}"
            self.assertIn(address, self.refused("--listen", address))
            self.assertIn(address, self.refused("--metrics-listen", address))

    def test_a_data_folder_that_cannot_be_made_is_named(self):
        plain = self.file("plain", "")
        self.assertIn(str(plain), self.refused(data=plain / "data"))
        self.assertIn(str(plain), self.refused(data=plain))

    def test_keys_that_others_may_read_are_refused(self):
        with parplan.Server(SERVER, self.folder) as server:
            self.assertEqual(server.end(), 0)
        pem = next((self.data / "keys").glob("*.pem"))
        pem.chmod(0o644)
        message = self.refused()
        self.assertIn(str(pem), message)
        pem.chmod(0o600)
        (self.data / "keys").chmod(0o755)
        self.assertIn("keys", self.refused())
        (self.data / "keys").chmod(0o700)
        pem.write_text("junk")
        self.assertIn(str(pem), self.refused())

    def test_a_configuration_is_checked_without_a_server(self):
        done = self.run_server("--check-config", *self.tls())
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertFalse(self.data.exists())
        self.assertIn("--insecure", self.refused("--check-config", "--listen", "0.0.0.0:0"))
        self.assertIn("tls_key", self.refused("--check-config", *self.tls(key="/nowhere")))
        self.refused("--check-config", "--workers", "0", code=2)
        for retention in ("-1s", "0s", "1s", "29h", "878401h"):
            self.assertIn("retention", self.refused("--check-config", "--execution-retention",
                                                    retention, code=2))
        # In a file 0 keeps all.
        config = self.folder / "retention.json"
        for retention, code in (("0s", 0), ("8760h", 2), ("31536000s", 0), ("-1s", 2),
                                ("108000s", 0), ("107999s", 2)):
            config.write_text(json.dumps({"execution_retention": retention}))
            done = self.run_server("--check-config", "--config", config)
            self.assertEqual(done.returncode, code, done.stderr)
        for flag in ("listen", "metrics-listen", "health-listen"):
            message = self.refused("--check-config", f"--{flag}", "127.0.0.1:junk", code=2)
            self.assertIn(f"{flag.replace('-', '_')}: `127.0.0.1:junk`", message)
        for address in ("unix:/socket", "1"):
            message = self.refused("--check-config", "--metrics-listen", address, code=2)
            self.assertIn(f"metrics_listen: `{address}`", message)
            self.assertIn("give --metrics-listen HOST:PORT such as", message)
            self.assertNotIn("unix:PATH", message)


class Running(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def wait_for_log(self, server, text, count=1):
        end = time.monotonic() + LONG
        while server.log().count(text) < count:
            self.assertIsNone(server.process.poll(), server.log())
            self.assertLess(time.monotonic(), end, server.log())
            time.sleep(0.01)

    def test_a_service_manager_hears_when_it_listens_and_when_it_ends(self):
        for name in (str(self.folder / "notify"), f"\0parplan-test-{os.getpid()}"):
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
                manager.bind(name)
                manager.settimeout(LONG)
                os.environ["NOTIFY_SOCKET"] = name.replace("\0", "@")
                self.addCleanup(os.environ.pop, "NOTIFY_SOCKET", None)
                with parplan.Server(SERVER, self.folder) as server:
                    self.assertEqual(manager.recv(100), b"READY=1")
                    # It says so only once it can be called.
                    with socket.create_connection(("127.0.0.1", server.port), timeout=LONG):
                        pass
                    server.process.send_signal(signal.SIGTERM)
                    self.assertEqual(manager.recv(100), b"STOPPING=1")
                    self.assertEqual(server.process.wait(LONG), 0)

    def test_a_service_manager_that_is_gone_stops_nothing(self):
        os.environ["NOTIFY_SOCKET"] = str(self.folder / "nobody")
        self.addCleanup(os.environ.pop, "NOTIFY_SOCKET", None)
        with parplan.Server(SERVER, self.folder) as server:
            self.wait_for_log(server, "service manager")
            self.assertEqual(server.end(timeout=LONG), 0)

    def test_a_hangup_takes_the_log_level_of_the_file(self):
        config = self.folder / "server.json"
        config.write_text('{"log_level": "info"}')
        with parplan.Server(SERVER, self.folder, "--config", config) as server, \
                parplan.Client(server.address) as client:
            client.call("parplan.v1.PlanService", "GetCapabilities", {})
            self.wait_for_log(server, '"method":"GetCapabilities"')
            config.write_text('{"log_level": "warning"}')
            server.process.send_signal(signal.SIGHUP)
            time_limit = time.monotonic() + LONG
            while True:
                calls = server.log().count('"method":"GetCapabilities"')
                client.call("parplan.v1.PlanService", "GetCapabilities", {})
                if server.log().count('"method":"GetCapabilities"') == calls:
                    break
                self.assertLess(time.monotonic(), time_limit)
            # An invalid level is logged, and changes nothing.
            config.write_text('{"log_level": "lots"}')
            server.process.send_signal(signal.SIGHUP)
            self.wait_for_log(server, "configuration not read again")
            self.assertNotIn("keys read again", server.log())
            config.write_text('{"log_level": "info"}')
            server.process.send_signal(signal.SIGHUP)
            self.wait_for_log(server, "keys read again")
            self.assertEqual(server.end(timeout=LONG), 0)

    def test_a_hangup_logs_renewed_files_that_cannot_hold(self):
        tls = parplan.make_certificates(self.folder / "tls")
        with parplan.Server(SERVER, self.folder, "--tls-certificate", tls / "server.pem",
                            "--tls-key", tls / "server.key") as server:
            # A certificate that was renewed, and its key that was not.
            os.rename(tls / "renewed.pem", tls / "server.pem")
            server.process.send_signal(signal.SIGHUP)
            self.wait_for_log(server, '"event":"tls files"')
            os.rename(tls / "renewed.key", tls / "server.key")
            server.process.send_signal(signal.SIGHUP)
            self.wait_for_log(server, "keys read again", count=2)
            self.assertEqual(server.log().count('"event":"tls files"'), 1)
            self.assertEqual(server.end(timeout=LONG), 0)

    def test_a_hangup_logs_keys_that_cannot_be_read(self):
        with parplan.Server(SERVER, self.folder) as server:
            pem = next((self.folder / "data" / "keys").glob("*.pem"))
            pem.chmod(0o644)
            server.process.send_signal(signal.SIGHUP)
            self.wait_for_log(server, '"level":"warning","event":"keys not read again"')
            self.assertIn(pem.name, server.log())
            self.assertNotIn("keys read again", server.log())
            self.assertEqual(server.end(timeout=LONG), 0)

    def test_every_line_of_the_log_is_json_also_those_of_grpc(self):
        certificates = parplan.make_certificates(self.folder / "tls")
        with parplan.Server(SERVER, self.folder, "--tls-certificate", certificates / "server.pem",
                            "--tls-key", certificates / "server.key") as server:
            # No handshake: gRPC has something to say.
            with socket.create_connection(("127.0.0.1", server.port), timeout=LONG) as caller:
                caller.sendall(b"GET / HTTP/1.1\r\n\r\n" * 20)
                self.wait_for_log(server, '"event":"grpc"')
            self.assertEqual(server.end(timeout=LONG), 0)
            for line in server.log().splitlines():
                self.assertIn("event", json.loads(line))


if __name__ == "__main__":
    SERVER = sys.argv.pop()
    unittest.main(verbosity=2)
