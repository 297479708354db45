#!/usr/bin/python3
"""Who may listen where, and who may call: TLS, client certificates, renewal, and the
flags and configuration files that are refused.

    tls_test.py SERVER
"""
import os
import pathlib
import shutil
import ssl
import subprocess
import sys
import tempfile
import time
import unittest

import grpc

import parplan_process as parplan

SERVER = None
PLANS = "parplan.v1.PlanService"


class Tls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.certificate_folder = tempfile.TemporaryDirectory()
        cls.certificates = parplan.make_certificates(cls.certificate_folder.name)
        cls.openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out",
                    "other.key")
        cls.openssl("req", "-new", "-key", "other.key", "-subj", "/CN=other", "-out", "other.csr")
        cls.openssl("x509", "-req", "-in", "other.csr", "-CA", "ca.pem", "-CAkey", "ca.key",
                    "-CAcreateserial", "-days", "2", "-extfile", "client.ext", "-out", "other.pem")

    @classmethod
    def tearDownClass(cls):
        cls.certificate_folder.cleanup()

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def read(self, name):
        return (self.certificates / name).read_bytes()

    def serve(self, *flags):
        server = parplan.Server(SERVER, self.folder.name, *flags).start()
        self.addCleanup(server.__exit__)
        return server

    def tls_flags(self, mutual):
        flags = ["--tls-certificate", self.certificates / "server.pem",
                 "--tls-key", self.certificates / "server.key"]
        return flags + (["--tls-client-ca", self.certificates / "ca.pem"] if mutual else [])

    def ask(self, server, key=None, certificate=None, plain=False):
        """The code of a call with these credentials."""
        credentials = None if plain else grpc.ssl_channel_credentials(
            self.read("ca.pem"), key and self.read(key), certificate and self.read(certificate))
        with parplan.Client(server.address, credentials) as client:
            ask = client.channel.unary_unary(f"/{PLANS}/GetCapabilities")
            try:
                ask(b"", timeout=10)
                return grpc.StatusCode.OK
            except grpc.RpcError as error:
                return error.code()

    def refuse(self, *flags, timeout=20):
        """Exit code and messages of a server that must not start."""
        done = subprocess.run(
            [SERVER, "--data-dir", str(pathlib.Path(self.folder.name) / "data"),
             "--metrics-listen", "off", *map(str, flags)],
            capture_output=True, text=True, timeout=timeout)
        return done.returncode, done.stderr

    def test_mutual_tls_takes_only_its_own_clients(self):
        server = self.serve(*self.tls_flags(mutual=True))
        self.assertEqual(self.ask(server, "client.key", "client.pem"), grpc.StatusCode.OK)
        self.assertEqual(self.ask(server), grpc.StatusCode.UNAVAILABLE)
        self.assertEqual(self.ask(server, "rogue.key", "rogue.pem"), grpc.StatusCode.UNAVAILABLE)
        self.assertEqual(self.ask(server, plain=True), grpc.StatusCode.UNAVAILABLE)
        self.assertEqual(server.end(), 0)

    def test_tls_without_client_certificates_takes_all_who_speak_it(self):
        server = self.serve(*self.tls_flags(mutual=False))
        self.assertEqual(self.ask(server), grpc.StatusCode.OK)
        self.assertEqual(self.ask(server, plain=True), grpc.StatusCode.UNAVAILABLE)

    def test_a_renewed_certificate_needs_no_restart(self):
        folder = pathlib.Path(self.folder.name)
        for suffix in ("pem", "key"):
            shutil.copy(self.certificates / f"server.{suffix}", folder / f"live.{suffix}")
        server = self.serve("--tls-certificate", folder / "live.pem",
                            "--tls-key", folder / "live.key")

        def shown():
            pem = ssl.get_server_certificate(("127.0.0.1", server.port), timeout=10)
            return ssl.PEM_cert_to_DER_cert(pem)

        renewed = ssl.PEM_cert_to_DER_cert(self.read("renewed.pem").decode())
        self.assertNotEqual(shown(), renewed)
        for suffix in ("key", "pem"):
            staged = folder / f"staged.{suffix}"
            shutil.copy(self.certificates / f"renewed.{suffix}", staged)
            os.rename(staged, folder / f"live.{suffix}")
        end = time.monotonic() + 30
        while shown() != renewed:
            self.assertLess(time.monotonic(), end, "the server still shows the old certificate")
            time.sleep(0.2)

    def test_renewed_files_that_are_wrong_are_not_taken(self):
        folder = pathlib.Path(self.folder.name)
        for suffix in ("key", "pem"):
            shutil.copy(self.certificates / f"server.{suffix}", folder / f"live.{suffix}")
        server = self.serve("--tls-certificate", folder / "live.pem", "--tls-key",
                            folder / "live.key")
        shutil.copy(self.certificates / "renewed.key", folder / "live.key")
        (folder / "live.pem").write_text("garbage")
        end = time.monotonic() + 60
        while '"event":"tls files"' not in server.log():
            self.assertLess(time.monotonic(), end, "the log has nothing of the wrong files")
            time.sleep(0.2)
        # Longer than gRPC takes to read files again.
        time.sleep(6)
        self.assertEqual(self.ask(server), grpc.StatusCode.OK)
        shutil.copy(self.certificates / "renewed.pem", folder / "live.pem")
        while '"event":"tls files read again"' not in server.log():
            self.assertLess(time.monotonic(), end, "the log has nothing of the good files")
            time.sleep(0.2)
        self.assertEqual(self.ask(server), grpc.StatusCode.OK)

    @classmethod
    def openssl(cls, *arguments):
        subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True,
                       cwd=cls.certificates)

    def write_list(self, folder, *revoked, authority="ca", seconds=3600):
        """Writes the authority's list into the folder, with the names by which it is found."""
        state = pathlib.Path(self.folder.name) / f"{authority}-state"
        shutil.rmtree(state, ignore_errors=True)
        state.mkdir()
        (state / "index").touch()
        (state / "number").write_text("01")
        config = state / "openssl.cnf"
        config.write_text("[ca]\ndefault_ca = own\n[own]\n"
                          f"database = {state / 'index'}\ncrlnumber = {state / 'number'}\n"
                          f"certificate = {authority}.pem\nprivate_key = {authority}.key\n"
                          "default_md = sha256\n")
        for name in revoked:
            self.openssl("ca", "-config", config, "-revoke", f"{name}.pem")
        folder.mkdir(exist_ok=True)
        staged = state / "list.pem"
        self.openssl("ca", "-config", config, "-gencrl", "-crlsec", seconds, "-out", staged)
        os.rename(staged, folder / f"{authority}.crl.pem")
        self.openssl("rehash", folder)

    def wait_for_code(self, server, code, name="client"):
        end = time.monotonic() + 60
        while self.ask(server, f"{name}.key", f"{name}.pem") != code:
            self.assertLess(time.monotonic(), end, server.log())
            time.sleep(0.2)

    def test_a_revoked_certificate_is_refused(self):
        lists = pathlib.Path(self.folder.name) / "lists"
        self.write_list(lists, "client")
        server = self.serve(*self.tls_flags(mutual=True), "--tls-crl-folder", lists)
        self.assertEqual(self.ask(server, "client.key", "client.pem"),
                         grpc.StatusCode.UNAVAILABLE)
        # Another certificate of the same authority is not on the list.
        self.assertEqual(self.ask(server, "other.key", "other.pem"), grpc.StatusCode.OK)

    def test_a_renewed_list_counts_without_a_restart(self):
        lists = pathlib.Path(self.folder.name) / "lists"
        self.write_list(lists)
        server = self.serve(*self.tls_flags(mutual=True), "--tls-crl-folder", lists)
        self.assertEqual(self.ask(server, "client.key", "client.pem"), grpc.StatusCode.OK)
        self.write_list(lists, "client")
        self.wait_for_code(server, grpc.StatusCode.UNAVAILABLE)
        self.assertEqual(self.ask(server, "other.key", "other.pem"), grpc.StatusCode.OK)
        # A folder that has lost its lists revokes what it revoked, and the log says so.
        for each in lists.iterdir():
            each.unlink()
        end = time.monotonic() + 60
        while "lacks the revocation list" not in server.log():
            self.assertLess(time.monotonic(), end, server.log())
            time.sleep(0.2)
        # Longer than gRPC takes to read files again.
        time.sleep(6)
        self.assertEqual(self.ask(server, "client.key", "client.pem"),
                         grpc.StatusCode.UNAVAILABLE)
        # One that revokes less is taken too.
        self.write_list(lists)
        self.wait_for_code(server, grpc.StatusCode.OK)

    def test_with_an_expired_list_nobody_is_served(self):
        lists = pathlib.Path(self.folder.name) / "lists"
        self.write_list(lists, seconds=15)
        server = self.serve(*self.tls_flags(mutual=True), "--tls-crl-folder", lists)
        self.wait_for_code(server, grpc.StatusCode.UNAVAILABLE)
        end = time.monotonic() + 60
        while "has expired" not in server.log():
            self.assertLess(time.monotonic(), end, server.log())
            time.sleep(0.2)
        self.write_list(lists)
        self.wait_for_code(server, grpc.StatusCode.OK)

    def test_a_folder_without_good_lists_is_refused(self):
        lists = pathlib.Path(self.folder.name) / "lists"
        flags = (*self.tls_flags(mutual=True), "--listen", "127.0.0.1:0", "--tls-crl-folder", lists)

        def refuse(why, flags=flags):
            code, message = self.refuse(*flags)
            self.assertEqual(code, 1, message)
            self.assertIn("tls_crl_folder", message)
            self.assertIn(why, message)

        refuse("cannot be read")
        lists.mkdir()
        refuse("lacks the revocation list of /CN=ca")
        # Without `openssl rehash`, and of another authority.
        self.write_list(lists)
        found = [path for path in lists.iterdir() if path.is_symlink()]
        self.assertEqual(len(found), 1)
        hashed = found[0]
        hashed.unlink()
        refuse("lacks the revocation list of /CN=ca")
        self.write_list(lists, authority="rogue-ca")
        rogue = next(path for path in lists.iterdir()
                     if path.is_symlink() and path.name != hashed.name)
        shutil.copy(rogue, hashed)
        refuse("openssl rehash")
        hashed.write_text("garbage")
        refuse("holds no X509 CRL")
        hashed.unlink()
        self.write_list(lists, seconds=1)
        time.sleep(2.1)
        refuse("has expired")
        self.write_list(lists)
        refuse("needs tls_client_ca", (*self.tls_flags(mutual=False), "--listen", "127.0.0.1:0",
                                       "--tls-crl-folder", lists))

    def test_other_machines_need_tls_or_the_word_insecure(self):
        code, message = self.refuse("--listen", "0.0.0.0:0")
        self.assertEqual(code, 1)
        self.assertIn("--insecure", message)
        self.serve("--listen", "0.0.0.0:0", "--insecure")

    def test_tls_may_listen_everywhere(self):
        server = self.serve("--listen", "0.0.0.0:0", *self.tls_flags(mutual=True))
        self.assertEqual(self.ask(server, "client.key", "client.pem"), grpc.StatusCode.OK)

    def test_files_that_are_no_certificates_are_refused(self):
        for flags, field in (
                (("--tls-certificate", self.certificates / "server.pem"), "tls_key"),
                (("--tls-certificate", "/nowhere", "--tls-key", self.certificates / "server.key"),
                 "tls_certificate"),
                (("--tls-client-ca", self.certificates / "ca.pem"), "tls_certificate")):
            code, message = self.refuse("--listen", "127.0.0.1:0", *flags)
            self.assertEqual(code, 1, message)
            self.assertIn(field, message)

    def test_wrong_flags_and_files_are_refused_by_name(self):
        config = pathlib.Path(self.folder.name) / "server.json"
        for content, expected in (('{"lisen": "127.0.0.1:0"}', "lisen"),
                                  ('{"workers": "many"}', "workers"),
                                  ('{"drain_time": 5}', "drain_time"), ("{", "server.json")):
            config.write_text(content)
            code, message = self.refuse("--config", config)
            self.assertEqual(code, 2, message)
            self.assertIn("server.json", message)
            self.assertIn(expected, message)
        for flags in (("--workers", "0"), ("--queue-length", "x"), ("--plan-ttl", "soon"),
                      ("--log-format", "xml"), ("--listen", "nowhere"), ("--no-such-flag",),
                      ("--config", "/nowhere.json")):
            code, message = self.refuse(*flags)
            self.assertEqual(code, 2, f"{flags}: {message}")
            self.assertNotEqual(message, "")

    def test_flags_go_before_the_file(self):
        config = pathlib.Path(self.folder.name) / "server.json"
        config.write_text('{"listen": "0.0.0.0:0", "queue_length": 5, "workers": 1}')
        # The server of these tests gives --listen itself.
        server = self.serve("--config", config, "--workers", "2")
        with parplan.Client(server.address) as client:
            capabilities = client.call(PLANS, "GetCapabilities", {})
        self.assertEqual(capabilities.max_queue_length, 5)

    def test_one_data_folder_is_for_one_server(self):
        self.serve()
        code, message = self.refuse("--listen", "127.0.0.1:0")
        self.assertEqual(code, 1, message)

    def test_help_has_an_example_and_the_exit_codes(self):
        done = subprocess.run([SERVER, "--help"], capture_output=True, text=True, timeout=20)
        self.assertEqual(done.returncode, 0)
        self.assertIn("Example", done.stdout)
        self.assertIn("Exit codes", done.stdout)


if __name__ == "__main__":
    SERVER = sys.argv.pop()
    unittest.main(verbosity=2)
