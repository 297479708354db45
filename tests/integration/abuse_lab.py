"""A server to attack: plain or with mutual TLS, with few descriptors, in a group of processes that
may take so much memory."""
import json
import os
import pathlib
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import grpc

import http2_client as http2
import parplan_process as parplan

SERVER = None
HEALTH = "/grpc.health.v1.Health/Check"
CAPABILITIES = "/parplan.v1.PlanService/GetCapabilities"
UPLOAD = "/parplan.v1.ProfileService/UploadProfile"
CONNECT_AGENT = "/parplan.v1.AgentService/ConnectAgent"
MEBI = 1 << 20

# gRPC waits up to 5 s between attempts to connect; 12 s after an attack a new call is to be
# answered within this time.
PROMPT_SECONDS = 5


def say(text):
    """One line of what was measured, for people."""
    print(f"abuse: {text}", file=sys.stderr, flush=True)


class MemoryGroup:
    """A control group that ends processes which together take more memory than the limit. `path`
    is None where this user may not make one; memory is then measured alone."""

    def __init__(self, limit):
        self.path = None
        root = pathlib.Path("/sys/fs/cgroup")
        is_new = (root / "cgroup.controllers").exists()
        path = (root if is_new else root / "memory") / f"parplan-abuse-{os.getpid()}-{id(self)}"
        name = "memory.max" if is_new else "memory.limit_in_bytes"
        try:
            path.mkdir()
            self.path = path
            (path / name).write_text(str(limit))
        except OSError as error:
            say(f"no memory limit, memory is measured alone: {error}")
            self.remove()

    def remove(self):
        if self.path is None:
            return
        for _ in range(100):
            try:
                self.path.rmdir()
                break
            except OSError:
                time.sleep(0.05)
        self.path = None


class Lab(unittest.TestCase):
    """Servers of one test. `mutual`: callers need a certificate, and the attackers have one that
    allows everything, as the worst of them would."""
    mutual = False

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.certificates = parplan.make_certificates(folder.name) if cls.mutual else None

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def serve(self, *flags, descriptors=None, memory=None):
        before = []
        if memory is not None:
            group = MemoryGroup(memory)
            self.addCleanup(group.remove)
            if group.path is not None:
                before.append(f"echo $$ >'{group.path}/cgroup.procs'")
        if descriptors is not None:
            before.append(f"ulimit -n {descriptors}")
        binary = self.folder / "limited-server"
        binary.write_text("\n".join(["#!/bin/sh", "set -e", *before, f'exec "{SERVER}" "$@"', ""]))
        binary.chmod(0o755)
        if self.mutual:
            flags += ("--tls-certificate", self.certificates / "server.pem",
                      "--tls-key", self.certificates / "server.key",
                      "--tls-client-ca", self.certificates / "ca.pem", "--allow-all-callers")
        server = parplan.Server(binary, self.folder, *flags).start()
        self.addCleanup(server.__exit__)
        self.assert_serves(server)
        return server

    def credentials(self):
        if not self.mutual:
            return None
        read = lambda name: (self.certificates / name).read_bytes()  # noqa: E731
        return grpc.ssl_channel_credentials(read("ca.pem"), read("client.key"), read("client.pem"))

    def connect(self, server, timeout=60):
        """A connection of an attacker."""
        context = None
        if self.mutual:
            context = ssl.create_default_context(cafile=self.certificates / "ca.pem")
            context.load_cert_chain(self.certificates / "client.pem",
                                    self.certificates / "client.key")
            context.set_alpn_protocols(["h2"])
        connection = http2.Connection(server.port, timeout, context)
        connection.begin()
        return connection

    def client(self, server):
        client = parplan.Client(server.address, self.credentials())
        self.addCleanup(client.__exit__)
        return client

    def assert_serves(self, server, seconds=60):
        """A client that knows nothing of the attack is answered; returns after how long."""
        start = time.monotonic()
        with parplan.Client(server.address, self.credentials()) as client:
            call = client.channel.unary_unary(CAPABILITIES)
            self.assertTrue(call(b"", timeout=seconds, wait_for_ready=True))
        return time.monotonic() - start

    def status(self, server, name):
        """Bytes of a field of the process's status."""
        status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
        return int(status.split(f"{name}:")[1].split()[0]) * 1024

    def memory(self, server):
        """Bytes of physical memory."""
        return self.status(server, "VmRSS")

    def peak(self, server):
        return self.status(server, "VmHWM")

    def descriptor_count(self, server):
        return len(list(pathlib.Path(f"/proc/{server.process.pid}/fd").iterdir()))

    def wait_until(self, seconds, holds):
        """Whether it holds at the end."""
        end = time.monotonic() + seconds
        while not holds() and time.monotonic() < end:
            time.sleep(0.1)
        return holds()

    def at_once(self, count, work):
        """Runs `work` with 0, 1, ... on threads of their own, and returns what they return."""
        results = [None] * count

        def run(index):
            results[index] = work(index)

        threads = [threading.Thread(target=run, args=(index,)) for index in range(count)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        return results


class HealthWatch:
    """Asks an address for health again and again, until it ends. It is a process of its own: on a
    thread of the test it would wait for the test, which makes large messages meanwhile."""

    def __init__(self, address):
        self.seconds = []
        self.failures = []
        self._address = address
        self._process = None

    def __enter__(self):
        program = """
import json, sys, threading, time
import grpc
ends = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), ends.set()), daemon=True).start()
seconds, failures = [], []
with grpc.insecure_channel(sys.argv[1], (("grpc.enable_http_proxy", 0),)) as channel:
    check = channel.unary_unary("/grpc.health.v1.Health/Check")
    check(b"", timeout=60, wait_for_ready=True)
    print("watching", flush=True)
    while not ends.wait(0.01):
        start = time.monotonic()
        try:
            check(b"", timeout=10)
        except grpc.RpcError as error:
            failures.append(error.code().name)
        seconds.append(time.monotonic() - start)
json.dump([seconds, failures], sys.stdout)
"""
        self._process = subprocess.Popen([sys.executable, "-c", program, self._address], text=True,
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._process.stdout.readline()
        return self

    def __exit__(self, *unused):
        answer, _ = self._process.communicate()
        self.seconds, self.failures = json.loads(answer)

    def percentile(self, share):
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def hold_connections(address, count):
    """A process that holds so many connections that say nothing, from several addresses of this
    machine. Its standard output says when all are there; ends with its standard input."""
    program = """
import resource, socket, sys
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
host, port, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
held = []
for index in range(count):
    each = socket.socket()
    each.setblocking(False)
    each.bind((f"127.0.0.{2 + index // 20000}", 0))
    try:
        each.connect((host, port))
    except BlockingIOError:
        pass
    held.append(each)
print("held", flush=True)
sys.stdin.read()
"""
    host, port = address.split(":")
    holder = subprocess.Popen([sys.executable, "-c", program, host, port, str(count)],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    holder.stdout.readline()
    return holder
