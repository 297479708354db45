#!/usr/bin/python3
"""A server verifies who its database is, as docs/replicas.md says.

    postgres_tls_test.py SERVER
"""
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
# pylint: disable=wrong-import-position
import parplan_process as parplan  # noqa: E402
import postgres_server  # noqa: E402

SERVER = None


class PostgresTls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.certificates = parplan.make_certificates(folder.name)
        cls.database = postgres_server.PostgresServer(cls.certificates)
        cls.addClassCleanup(cls.database.__exit__)
        cls.database.__enter__()

    def store(self, host="127.0.0.1", root="ca.pem"):
        return (f"postgres://parplan@/postgres?host={host}&hostaddr=127.0.0.1"
                f"&port={self.database.port}&sslmode=verify-full"
                f"&sslrootcert={self.certificates / root}")

    def test_the_database_of_the_authority_is_used(self):
        with tempfile.TemporaryDirectory() as folder:
            with parplan.Server(SERVER, folder, "--store", self.store()) as server:
                with parplan.Client(server.address) as client:
                    client.upload("clusters/lab/nodes/n", "one", parplan.small_profile())
                encrypted = self.database.query(
                    "SELECT DISTINCT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) "
                    "WHERE client_addr IS NOT NULL")
                self.assertEqual(encrypted, ["t"])

    def test_another_database_is_not(self):
        for store in (self.store(root="rogue-ca.pem"), self.store(host="other.example")):
            with tempfile.TemporaryDirectory() as folder:
                done = subprocess.run(
                    [SERVER, "--data-dir", f"{folder}/data", "--listen", "127.0.0.1:0",
                     "--metrics-listen", "off", "--store", store],
                    capture_output=True, text=True, timeout=120, check=False)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn("certificate", done.stderr)


def main():
    global SERVER
    SERVER = sys.argv.pop(1)
    unittest.main()


if __name__ == "__main__":
    main()
