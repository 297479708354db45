#!/usr/bin/python3
"""What a stranger does to the ports beside the server's main one, and what must hold afterwards.

    port_abuse_test.py SERVER AGENT SIDECAR [--long] [ARGUMENTS OF UNITTEST]

The ports are those of health and metrics of the server, the agent and the sidecar, and the Unix
socket on which a job reports to the sidecar. abuse_test.py attacks the server's main port.
After every attack all ports of the program, and what it is there for, must answer a proper client;
its memory must be bounded, and its descriptors must come back. With `--long`, as `./parplan-dev
abuse-test` runs it, the attacks have larger numbers.
"""
import http.client
import os
import pathlib
import random
import resource
import signal
import socket
import struct
import sys
import tempfile
import time
import unittest
import urllib.request

import grpc

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "clients" / "kubernetes"))
# pylint: disable=wrong-import-position
import abuse_lab as lab
import agent_process
import http2_client as http2
import parplan_process as parplan
import sidecar_case
from abuse_lab import HEALTH, MEBI, say

PROGRAMS = {}
EXECUTIONS = "/parplan.v1.ExecutionService/"
CANCEL = struct.pack(">I", 8)
# Closes a connection with a reset, without the usual goodbye.
ABRUPT = struct.pack("ii", 1, 0)


class GrpcPort:
    """A port that speaks HTTP/2: a number, or the path of a Unix socket."""
    speaks_http2 = True
    # A part of the connections of a flood that this port gets.
    share = 1

    def __init__(self, name, target, method=HEALTH, request=b"", code=grpc.StatusCode.OK):
        self.name = name
        self.target = target
        self.method = method
        self.request = request
        self.code = code

    def answer(self, seconds):
        """Calls as a proper client with a connection of its own, again while it is refused. Returns
        the last code."""
        end = time.monotonic() + seconds
        while True:
            code = self._call(max(0.1, end - time.monotonic()))
            if code == self.code or time.monotonic() > end:
                return code
            time.sleep(0.1)

    def _call(self, seconds):
        address = (f"127.0.0.1:{self.target}" if isinstance(self.target, int)
                   else f"unix:{self.target}")
        with grpc.insecure_channel(address, parplan.CHANNEL_OPTIONS) as channel:
            try:
                channel.unary_unary(self.method)(self.request, timeout=seconds,
                                                 wait_for_ready=True)
                return grpc.StatusCode.OK
            except grpc.RpcError as error:
                return error.code()

    def first_words(self):
        return http2.PREFACE + http2.frame(http2.SETTINGS, 0, 0)

    def endless_headers(self, count):
        """Pieces of 16 KB of headers of one request, without their end."""
        yield self.first_words()
        block = http2.headers(self.method) + b"\0\x04name\x7f\x81\x7f" + bytes(16256)
        yield http2.frame(http2.HEADERS, 0, 1, block[:16384])
        for _ in range(count):
            yield http2.frame(http2.CONTINUATION, 0, 1, bytes(16384))


class HttpPort:
    """A port of metrics, which speaks HTTP/1."""
    speaks_http2 = False
    code = 200
    # It serves 32 connections at a time and takes no more than 52, a second for a silent one.
    share = 1 / 3

    def __init__(self, name, target):
        self.name = name
        self.target = target

    def answer(self, seconds):
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(f"http://127.0.0.1:{self.target}/metrics", timeout=seconds) as page:
                text = page.read().decode()
                return page.status if "process_resident_memory_bytes" in text else text
        except (OSError, http.client.HTTPException) as error:
            return error

    def first_words(self):
        return b"GET /metrics HTTP/1.1\r\nHost: loc"

    def endless_headers(self, count):
        yield b"GET /"
        for _ in range(count):
            yield b"x" * 16384


class PortAttacks:
    """Attacks on every port of one program, which a class below starts once."""
    # Sizes of attacks, small enough for every run of the tests.
    descriptors = 256
    connection_count = 300
    reset_count = 1000
    header_count = 1000
    # Seconds in which a proper client is answered beside the attackers and once they are gone: far
    # more than it takes, where others use the machine.
    patience = 60
    # Physical memory that an attack may take for a time.
    overhead = 128 * MEBI

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(dir="/tmp")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.start()
        cls.before = cls.descriptor_count()

    @classmethod
    def program(cls, name):
        """The program with few descriptors, also as its hard limit."""
        folder = cls.folder / "bin"
        folder.mkdir(exist_ok=True)
        path = folder / name
        path.write_text(f'#!/bin/sh\nulimit -n {cls.descriptors}\nexec "{PROGRAMS[name]}" "$@"\n')
        path.chmod(0o755)
        return path

    @classmethod
    def descriptor_count(cls):
        return len(os.listdir(f"/proc/{cls.process.pid}/fd"))

    def memory(self, field="VmRSS"):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split(f"{field}:")[1].split()[0]) * 1024

    def answers(self, seconds):
        """Asks every port. Returns the seconds of the slowest."""
        slowest = 0
        for port in self.ports:
            start = time.monotonic()
            self.assertEqual(port.answer(seconds), port.code, (port.name, self.last_log()))
            slowest = max(slowest, time.monotonic() - start)
        return slowest

    def last_log(self):
        return self.log()[-2000:]

    def each_port(self, attack):
        """Runs an attack, a function of a port and a list to which it appends what it holds open,
        on every port in turn, and checks what must hold."""
        for port in self.ports:
            with self.subTest(port=port.name):
                held = []
                # The peak is counted anew from here.
                pathlib.Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")
                memory = self.memory()
                start = time.monotonic()
                try:
                    attack(port, held)
                    attack_took = time.monotonic() - start
                    while_held = self.answers(self.patience) if held else 0
                finally:
                    for each in held:
                        each.close()
                after = self.answers(self.patience)
                self.assertIsNone(self.process.poll(), self.last_log())
                say(f"{port.name}, {self._testMethodName}: the attack took {attack_took:.2f} s, all "
                    f"ports answered within {while_held:.2f} s beside it and {after:.2f} s "
                    f"afterwards; physical memory {memory / MEBI:.1f} MiB before, "
                    f"{self.memory('VmHWM') / MEBI:.1f} at most")
                self.assertLess(self.memory("VmHWM") - memory, self.overhead)
        self.assertTrue(lab.Lab.wait_until(
            self, 60, lambda: self.descriptor_count() <= self.before + 8), self.descriptor_count())

    def test_connections_that_are_held(self):
        """More than the program has descriptors: a third silent, a third with half a first line, and
        a third that begin and stop."""
        def flood(port, held):
            words = (b"", port.first_words()[:5], port.first_words())
            is_path = not isinstance(port.target, int)
            for _ in range(int(port.share * self.connection_count)):
                each = socket.socket(socket.AF_UNIX if is_path else socket.AF_INET)
                each.setblocking(False)
                held.append(each)
                try:
                    each.connect(str(port.target) if is_path else ("127.0.0.1", port.target))
                except OSError:
                    # On its way, or the queue of a Unix socket is full.
                    continue
            time.sleep(0.5)
            for number, each in enumerate(held):
                try:
                    each.send(words[number % 3])
                except OSError:
                    continue

        self.each_port(flood)

    def test_garbage(self):
        source = random.Random(7)

        def throw(port, _):
            for number in range(self.reset_count // 10):
                with http2.connect(port.target, 60) as each:
                    try:
                        # Half of them begin as they should.
                        each.sendall(port.first_words() * (number % 2) +
                                     source.randbytes(source.randrange(1, 20_000)))
                    except OSError:
                        pass

        self.each_port(throw)

    def test_endless_headers(self):
        def pour(port, _):
            with http2.connect(port.target, 60) as each:
                try:
                    for piece in port.endless_headers(self.header_count):
                        each.sendall(piece)
                except OSError:
                    pass

        self.each_port(pour)

    def test_connections_that_are_reset(self):
        def reset(port, _):
            for number in range(self.reset_count):
                each = http2.connect(port.target, 60)
                try:
                    each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, ABRUPT)
                    each.send(port.first_words()[:number % 40])
                except OSError:
                    pass
                each.close()

        self.each_port(reset)

    def test_calls_that_are_reset(self):
        def reset(port, _):
            if not port.speaks_http2:
                return
            most = 20 * self.reset_count
            sent = connections = 0
            # Once it is cut off it comes again.
            while sent < most and connections < 20:
                sent += self.reset_calls(port, most - sent)
                connections += 1
            say(f"{port.name}: {sent} calls were reset over {connections} connections")

        self.each_port(reset)

    def reset_calls(self, port, count):
        """Resets calls on one connection until it is cut off; returns how many."""
        block = http2.headers(port.method)
        connection = http2.Connection(port.target, 20)
        sent = 0
        try:
            connection.begin()
            while sent < count:
                connection.socket.sendall(b"".join(
                    http2.frame(http2.HEADERS, http2.END_HEADERS, stream, block) +
                    http2.frame(http2.RST_STREAM, 0, stream, CANCEL)
                    for stream in range(2 * sent + 1, 2 * (sent + 100), 2)))
                sent += 100
                connection.read_what_is_there()
        except OSError:
            pass
        connection.close()
        return sent

    def test_calls_without_a_message(self):
        def open_calls(port, held):
            if not port.speaks_http2:
                return
            for _ in range(8):
                connection = http2.Connection(port.target, 20)
                held.append(connection)
                connection.begin()
                for stream in range(1, 65, 2):
                    connection.open(stream, self.stream_method(port))

        self.each_port(open_calls)

    def stream_method(self, port):
        return port.method


class ServerPorts(PortAttacks, unittest.TestCase):
    @classmethod
    def start(cls):
        health = cls.folder / "health-port"
        server = parplan.Server(cls.program("parplan-server"), cls.folder, "--health-listen",
                                "127.0.0.1:0", "--health-port-file", health)
        cls.addClassCleanup(server.__exit__)
        server.start()
        cls.process, cls.log = server.process, staticmethod(server.log)
        cls.ports = [GrpcPort("the server's health", int(health.read_text())),
                     HttpPort("the server's metrics", server.metrics_port)]


class AgentPorts(PortAttacks, unittest.TestCase):
    @classmethod
    def start(cls):
        # Without a server it keeps trying; ranks that end at once leave the cores to others.
        agent = agent_process.Agent(cls.program("parplan-agent"), cls.folder, "127.0.0.1:1",
                                    "--probe-program", "/bin/false")
        cls.addClassCleanup(agent.__exit__)
        agent.__enter__()
        cls.process, cls.log = agent.process, staticmethod(agent.log)
        cls.ports = [GrpcPort("the agent's health", agent.port),
                     HttpPort("the agent's metrics", agent.metrics_port)]


class SidecarPorts(PortAttacks, unittest.TestCase):
    @classmethod
    def start(cls):
        programs = cls.program("parplan-sidecar").parent
        sidecar_case.FLAGS.bin = programs
        server = parplan.Server(PROGRAMS["parplan-server"], cls.folder)
        cls.addClassCleanup(server.__exit__)
        server.start()
        case = sidecar_case.SidecarTest()
        case.folder, case.plan = cls.folder, cls.folder / "plan"
        case.trust = cls.folder / "data" / "trust-bundle.jwks.json"
        case.upload(server)
        plan = case.create(server)
        done = case.init("--server", server.address, "--plan", plan.name)
        assert done.returncode == 0, done.stderr
        sidecar = sidecar_case.Sidecar(cls.folder, server.address)
        cls.addClassCleanup(sidecar.__exit__)
        sidecar.start()
        cls.process, cls.log = sidecar.process, staticmethod(sidecar.log)
        name = b"clusters/lab/plans/none/executions/none"
        cls.ports = [GrpcPort("the sidecar's health", sidecar.port),
                     HttpPort("the sidecar's metrics", sidecar.metrics_port),
                     GrpcPort("the sidecar's socket", sidecar.socket, EXECUTIONS + "GetExecution",
                              bytes([10, len(name)]) + name, grpc.StatusCode.NOT_FOUND)]

    def stream_method(self, port):
        return EXECUTIONS + "ReportMetrics" if port.code != grpc.StatusCode.OK else port.method


def run():
    for name in ("parplan-server", "parplan-agent", "parplan-sidecar"):
        PROGRAMS[name] = os.path.abspath(sys.argv.pop(1))
    if "--long" in sys.argv:
        sys.argv.remove("--long")
        PortAttacks.descriptors, PortAttacks.connection_count = 1024, 1100
        PortAttacks.reset_count, PortAttacks.header_count = 6000, 20_000
        HttpPort.share = 1
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(8192, hard), hard))
    unittest.main()


if __name__ == "__main__":
    run()
