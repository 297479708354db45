#!/usr/bin/python3
"""A server whose disk is full: it starts, answers what it has stored, refuses changes with a reason
and a time to retry, says so in health, log and metrics, and goes on once there is room.

The disk is a small file system in memory where this process may mount one. Everywhere, the kernel
also refuses bytes to the files of a server, as it does on a full disk.

    full_disk_test.py SERVER
"""
import ctypes
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.request

import grpc

import parplan_process as parplan

SERVER = None
HAS_OWN_MOUNTS = False
PLANS = "parplan.v1.PlanService"
WRITES = "parplan.v1/writes"
# Seconds that nothing takes on any machine.
LONG = 200
# Room of the mounted disk; and the largest file where there is none, which holds a port.
DISK_BYTES = 8 << 20
FILE_BYTES = 100
CLONE_NEWNS = 0x00020000


def wait_for(holds):
    end = time.monotonic() + LONG
    while not holds():
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.1)


def has_own_mounts():
    """Gives this process mounts of its own, which end with it, if it may have some."""
    if ctypes.CDLL(None).unshare(CLONE_NEWNS) != 0:
        return False
    return subprocess.run(["mount", "--make-rprivate", "/"], capture_output=True,
                          check=False).returncode == 0


class SmallDisk:
    """A file system of its own in a folder, which can be filled to the last byte."""

    def __init__(self, folder):
        self.folder = folder
        self.filler = folder / "filler"

    def mount(self):
        """Returns whether this process may do so."""
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "parplan-test",
                               self.folder], capture_output=True, check=False)
        return done.returncode == 0

    def unmount(self):
        subprocess.run(["umount", "--lazy", self.folder], capture_output=True, check=False)

    def fill(self):
        with open(self.filler, "ab", buffering=0) as file:
            for size in (1 << 16, 1 << 12, 1):
                try:
                    while True:
                        file.write(bytes(size))
                except OSError:
                    pass
        assert os.statvfs(self.folder).f_bfree == 0

    def make_room(self):
        self.filler.unlink()


class Pipe:
    """A log that is no file, so that it grows whatever the limit of files."""

    def __init__(self):
        reader, self.writer = os.pipe()
        self.parts = []
        threading.Thread(target=self._read, args=(reader,), daemon=True).start()

    def _read(self, reader):
        with open(reader, "rb", buffering=0) as pipe:
            while part := pipe.read(1 << 16):
                self.parts.append(part)

    def text(self):
        return b"".join(self.parts).decode(errors="replace")


class FullDisk(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.data = self.folder / "data"
        self.data.mkdir(mode=0o700)

    def small_disk(self):
        disk = SmallDisk(self.data)
        if not HAS_OWN_MOUNTS or not disk.mount():
            self.skipTest("this process may not mount a file system")
        self.addCleanup(disk.unmount)
        return disk

    def connect(self, server):
        self.addCleanup(server.__exit__)
        client = parplan.Client(server.address)
        self.addCleanup(client.__exit__)
        return server, client

    def start(self):
        """Ports and log are on another disk."""
        return self.connect(parplan.Server(SERVER, self.folder).start())

    def start_limited(self):
        """Starts a server whose files cannot grow."""
        log = Pipe()
        server = parplan.Server(SERVER, self.folder)
        server.log_path = f"/dev/fd/{log.writer}"
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES, before[1]))
        try:
            server.log = log.text
            server.start()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
            os.close(log.writer)
        return self.connect(server)

    def metric(self, server, name):
        address = f"http://127.0.0.1:{server.metrics_port}/metrics"
        with urllib.request.urlopen(address, timeout=LONG) as answer:
            lines = answer.read().decode().splitlines()
        return next(line.split()[1] for line in lines if line.startswith(name + " "))

    def store_something(self, is_killed):
        """The name of a plan. After a server that was killed it is in the log of the database
        alone; one that ended by itself leaves no index of the log, which needs room."""
        server, client = self.start()
        client.upload("clusters/lab/nodes/node-a", "r", parplan.small_profile())
        plan = client.call(PLANS, "CreatePlan", parplan.small_question(batch=8))
        if is_killed:
            server.kill()
        else:
            self.assertEqual(server.end(), 0)
        return plan.name

    def check_refusal(self, client):
        with self.assertRaises(grpc.RpcError) as raised:
            client.call(PLANS, "CreatePlan", parplan.small_question(batch=16))
        error = raised.exception
        self.assertEqual(error.code(), grpc.StatusCode.UNAVAILABLE)
        self.assertIn("full", error.details())
        self.assertNotIn(str(self.data), error.details())
        info = client.error_info(error)
        self.assertEqual(info.reason, "STORE_UNAVAILABLE")
        self.assertEqual(info.metadata["cause"], "disk_full")
        details = dict(error.trailing_metadata())["grpc-status-details-bin"]
        status = client.message("parplan.v1.RpcStatus").FromString(details)
        self.assertEqual(status.details[1].type_url, "type.googleapis.com/google.rpc.RetryInfo")
        retry = client.message("parplan.v1.RetryInfo").FromString(status.details[1].value)
        self.assertEqual(retry.retry_duration.seconds, 30)

    def check_full(self, server, client, plan):
        self.assertEqual(client.call(PLANS, "GetPlan", {"name": plan}).name, plan)
        again = client.call(PLANS, "CreatePlan", parplan.small_question(batch=8))
        self.assertEqual(again.name, plan)
        self.assertTrue(again.from_cache)
        self.check_refusal(client)
        wait_for(lambda: not parplan.is_serving(client, WRITES))
        self.assertTrue(parplan.is_serving(client), "reads are answered")
        self.assertTrue(parplan.is_serving(client, PLANS), "stored plans are answered")
        self.assertEqual(self.metric(server, "parplan_store_writable"), "0")
        wait_for(lambda: '"event":"cannot write"' in server.log())

    def check_recovered(self, server, client, plan):
        wait_for(lambda: parplan.is_serving(client, WRITES))
        self.assertEqual(self.metric(server, "parplan_store_writable"), "1")
        wait_for(lambda: '"event":"writing again"' in server.log())
        other = client.call(PLANS, "CreatePlan", parplan.small_question(batch=16))
        self.assertNotEqual(other.name, plan)
        # Other processes may read the database.
        subprocess.run([SERVER, "store", "backup", "--store", f"sqlite:{self.data}",
                        "--file", self.folder / "records.backup"], check=True, timeout=LONG,
                       stdout=subprocess.DEVNULL)
        self.assertEqual(server.end(), 0)

    def test_it_starts_on_a_disk_without_a_free_byte(self):
        disk = self.small_disk()
        plan = self.store_something(is_killed=False)
        disk.fill()
        server, client = self.start()
        self.check_full(server, client, plan)
        # Killed and started once more, still without room.
        server.kill()
        server, client = self.start()
        self.check_full(server, client, plan)
        disk.make_room()
        self.check_recovered(server, client, plan)

    def test_the_disk_fills_up_under_it(self):
        disk = self.small_disk()
        server, client = self.start()
        client.upload("clusters/lab/nodes/node-a", "r", parplan.small_profile())
        plan = client.call(PLANS, "CreatePlan", parplan.small_question(batch=8)).name
        disk.fill()
        self.check_full(server, client, plan)
        disk.make_room()
        self.check_recovered(server, client, plan)

    def test_it_starts_with_files_that_cannot_grow(self):
        plan = self.store_something(is_killed=True)
        server, client = self.start_limited()
        self.check_full(server, client, plan)
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE,
                         resource.getrlimit(resource.RLIMIT_FSIZE))
        self.check_recovered(server, client, plan)


if __name__ == "__main__":
    SERVER = os.path.abspath(sys.argv[1])
    HAS_OWN_MOUNTS = has_own_mounts()
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
