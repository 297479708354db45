#!/usr/bin/python3
"""A database that does not answer holds up no signal.

    frozen_postgres_test.py SERVER
"""
import contextlib
import os
import pathlib
import signal
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
# pylint: disable=wrong-import-position
import parplan_process as parplan  # noqa: E402
import postgres_server  # noqa: E402

SERVER = None


def processes_of(pid):
    """A process with all that it started."""
    children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(process for child in children for process in processes_of(int(child)))]


@contextlib.contextmanager
def frozen(postgres):
    processes = processes_of(postgres.process.pid)
    for process in processes:
        os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        for process in processes:
            os.kill(process, signal.SIGCONT)


class FrozenPostgres(unittest.TestCase):
    def test_the_server_drains_at_once(self):
        with tempfile.TemporaryDirectory() as folder, \
                postgres_server.PostgresServer() as postgres:
            server = parplan.Server(SERVER, folder, "--store", postgres.uri(), "--drain-time", "2s")
            self.addCleanup(server.__exit__)
            server.start()
            with frozen(postgres):
                # Lets it try the database now.
                server.process.send_signal(signal.SIGHUP)
                while "keys read again" not in server.log():
                    time.sleep(0.01)
                time.sleep(1)
                start = time.monotonic()
                server.process.send_signal(signal.SIGTERM)
                while '"draining"' not in server.log():
                    # The database gets half a minute.
                    self.assertLess(time.monotonic() - start, 20)
                    time.sleep(0.01)
                self.assertEqual(server.process.wait(120), 0)


def main():
    global SERVER
    SERVER = sys.argv.pop(1)
    unittest.main()


if __name__ == "__main__":
    main()
