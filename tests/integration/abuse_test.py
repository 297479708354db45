#!/usr/bin/python3
"""What a stranger on the network does to a server, and what must hold meanwhile and afterwards.

    abuse_test.py SERVER [ARGUMENTS OF UNITTEST]

Every attack is of one process on this machine, once on a server without TLS and once on one with
mutual TLS, where the attacker has a certificate if it gets so far. Where this user may make one, a
control group limits the memory of the server. abuse_long_test.py has the same attacks in their full
size, and those that take minutes.
"""
import ctypes
import os
import pathlib
import resource
import signal
import socket
import struct
import sys
import threading
import time
import unittest
import zlib

import grpc

import abuse_lab as lab
import http2_client as http2
import parplan_process as parplan
from abuse_lab import CAPABILITIES, CONNECT_AGENT, HEALTH, MEBI, PROMPT_SECONDS, UPLOAD, say

PTRACE_SEIZE, PTRACE_INTERRUPT = 0x4206, 0x4207
WAIT_ALL = 0x40000000
CANCEL = struct.pack(">I", 8)


def gzip_of_zeros(size):
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    block = bytes(MEBI)
    return b"".join(packer.compress(block) for _ in range(size // MEBI)) + packer.flush()


def varint(value):
    data = b""
    while value >= 128:
        data += bytes([value % 128 + 128])
        value //= 128
    return data + bytes([value])


def field(number, content):
    """A field of protobuf with bytes."""
    return bytes([number << 3 | 2]) + varint(len(content)) + content


def upload_header(node):
    """An UploadProfileRequest with a header."""
    return field(1, field(1, f"clusters/lab/nodes/{node}".encode()) + field(2, b"request-1"))


def wait_for_task(task):
    try:
        while not os.WIFSIGNALED(status := os.waitpid(task, WAIT_ALL)[1]) and \
                not os.WIFEXITED(status):
            pass
    except ChildProcessError:
        pass


class Attacks:
    # Sizes of attacks, small enough for every run of the tests.
    upload_count = 12
    stream_count = 1000
    reset_count = 20_000
    # Seconds in which silent streams are to be gone; as good as none where others use the machine.
    longest_silence = 300

    def flood(self, server, count, first_bytes=b""):
        sockets = []
        self.addCleanup(lambda: [each.close() for each in sockets])
        for _ in range(count):
            each = socket.socket()
            each.setblocking(False)
            try:
                each.connect(("127.0.0.1", server.port))
            except BlockingIOError:
                pass
            sockets.append(each)
        if first_bytes:
            time.sleep(0.5)
            for each in sockets:
                try:
                    each.send(first_bytes)
                except OSError:
                    pass
        return sockets

    def test_silent_connections_leave_room(self):
        server = self.serve(descriptors=1024, memory=2048 * MEBI)
        before = self.descriptor_count(server)
        sockets = self.flood(server, 1100)
        # While they are held, too.
        held = self.assert_serves(server)
        time.sleep(1.1)
        for each in sockets:
            each.close()
        after = self.assert_serves(server, PROMPT_SECONDS)
        self.assertTrue(self.wait_until(30, lambda: self.descriptor_count(server) <= before + 8))
        say(f"{self.kind}: 1,100 silent connections at nofile 1,024: a new call took {held:.2f} s "
            f"while they were held and {after:.2f} s afterwards")

    def test_connections_that_speak_and_stay_leave_room(self):
        server = self.serve(descriptors=1024)
        self.flood(server, 1100, b"\x16\x03\x01" if self.mutual else
                   http2.PREFACE + http2.frame(http2.SETTINGS, 0, 0))
        time.sleep(2)
        took = self.assert_serves(server)
        say(f"{self.kind}: 1,100 connections that spoke and stay: a new call took {took:.2f} s")

    def test_half_a_preface_is_not_waited_for(self):
        server = self.serve()
        with socket.create_connection(("127.0.0.1", server.port)) as half:
            half.send(http2.PREFACE[:5])
            half.settimeout(40)
            try:
                while half.recv(4096):
                    pass
            except ConnectionResetError:
                pass

    def test_compressed_messages_are_not_inflated(self):
        server = self.serve(memory=512 * MEBI)
        bomb = gzip_of_zeros(1024 * MEBI)
        before = self.memory(server)

        def throw(_):
            connection = self.connect(server)
            connection.open(1, CAPABILITIES, grpc_encoding="gzip")
            connection.send(1, bomb, end=True, compressed=True)
            connection.wait_for_end(1)
            connection.close()
            return connection.status_of(1)

        self.assertEqual(set(self.at_once(100, throw)), {b"12"})
        say(f"{self.kind}: 100 gzip bombs of {len(bomb)} bytes in 512 MiB: physical memory "
            f"{before // MEBI} MiB before, {self.peak(server) // MEBI} at most, "
            f"{self.memory(server) // MEBI} afterwards")
        self.assertLessEqual(self.peak(server) - before, 20_000_000)
        self.assert_serves(server, PROMPT_SECONDS)

    def test_requests_of_empty_messages_are_not_decoded(self):
        """Two million definitions of layers of two bytes each: 330 MB for a request, decoded."""
        server = self.serve(memory=1024 * MEBI)

        def field(number, content):
            size, bytes_ = len(content), bytes([number << 3 | 2])
            while size > 127:
                bytes_ += bytes([size & 127 | 128])
                size >>= 7
            return bytes_ + bytes([size]) + content

        model = field(2, b"") * 2_000_000
        request = field(1, b"clusters/lab") + field(2, field(1, model))
        before = self.memory(server)

        def ask(_):
            with parplan.Client(server.address, self.credentials()) as client:
                with self.assertRaises(grpc.RpcError) as raised:
                    client.channel.unary_unary("/parplan.v1.PlanService/CreatePlan")(
                        request, timeout=60, wait_for_ready=True)
            return raised.exception.code()

        self.assertEqual(set(self.at_once(24, ask)), {grpc.StatusCode.UNIMPLEMENTED})
        say(f"{self.kind}: 24 requests of {len(request)} bytes: physical memory "
            f"{before // MEBI} MiB before, {self.peak(server) // MEBI} at most")
        # 24 times what a request takes on its way, as bytes.
        self.assertLess(self.peak(server) - before, 256 * MEBI + self.overhead)
        self.assert_serves(server, PROMPT_SECONDS)

    def test_streams_without_a_first_message_end(self):
        server = self.serve()
        connections = [self.connect(server) for _ in range(self.stream_count // 250)]
        count = 250
        for connection in connections:
            for index in range(count):
                connection.open(2 * index + 1, CONNECT_AGENT if index % 2 else UPLOAD)
        start = time.monotonic()
        for connection in connections:
            for index in range(count):
                self.assertTrue(connection.wait_for_end(2 * index + 1))
            connection.close()
        took = time.monotonic() - start
        say(f"{self.kind}: {self.stream_count} silent streams were ended after {took:.1f} s")
        self.assertLess(took, self.longest_silence)
        self.assert_serves(server)

    def serve_warm(self):
        """A server that has answered a hundred callers: first calls take memory that stays."""
        server = self.serve(memory=2048 * MEBI)

        def ask(_):
            connection = self.connect(server)
            connection.open(1, CAPABILITIES)
            connection.send(1, b"", end=True)
            self.assertTrue(connection.wait_for_end(1))
            connection.close()

        self.at_once(100, ask)
        return server, self.memory(server)

    def is_back(self, server, before):
        """Whether the memory of before an attack, and a fifth more, is enough again."""
        return self.wait_until(30, lambda: self.memory(server) < 1.2 * before + self.overhead)

    def test_uploads_held_open_are_bounded_and_end(self):
        server, before = self.serve_warm()
        # Messages that hold nothing take the most memory once they are decoded.
        piece = field(2, b"\x12\x00" * (MEBI // 2))
        connections = []

        def hold(index):
            connection = self.connect(server, timeout=120)
            connections.append(connection)
            connection.open(1, UPLOAD)
            connection.send(1, upload_header(f"node-{index}"))
            for _ in range(62):
                if not connection.send(1, piece):
                    return False
            return True

        whole = sum(self.at_once(self.upload_count, hold))
        most = self.memory(server)
        for connection in connections:
            self.assertTrue(connection.wait_for_end(1) or connection.is_closed())
            connection.close()
        refused = sum(b"8" == connection.status_of(1) for connection in connections)
        is_back = self.is_back(server, before)
        say(f"{self.kind}: {self.upload_count} uploads of 62 MB held open: {whole} were taken "
            f"whole, {refused} refused, physical memory {before // MEBI} MiB before, {most // MEBI} while "
            f"they were held, {self.memory(server) // MEBI} afterwards")
        self.assertLess(self.peak(server), 1024 * MEBI)
        self.assertGreater(refused, 0)
        self.assertTrue(is_back, self.memory(server))
        self.assert_serves(server, PROMPT_SECONDS)

    def reset_calls(self, server, count, method, message):
        """Opens and resets calls on one connection, no more than `count`, until it is cut off.
        Returns how many, and whether it was."""
        connection = self.connect(server, timeout=20)
        block = http2.headers(method)
        step = 100
        sent = 0
        try:
            while sent < count:
                connection.socket.sendall(b"".join(
                    http2.frame(http2.HEADERS, http2.END_HEADERS, stream, block)
                    + http2.frame(http2.DATA, http2.END_STREAM, stream, message)
                    + http2.frame(http2.RST_STREAM, 0, stream, CANCEL)
                    for stream in range(2 * sent + 1, 2 * (sent + step), 2)))
                sent += step
                connection.read_what_is_there()
            # A fast client has sent everything before the server sees the first call.
            return sent, connection.is_closed()
        except OSError:
            return sent, True
        finally:
            connection.close()

    def test_clients_that_reset_calls_are_cut_off(self):
        self.reset_many(CAPABILITIES)

    def test_clients_that_reset_calls_of_health_are_cut_off(self):
        # gRPC answers them itself; with a message none of them is undecodable.
        self.reset_many(HEALTH, message=bytes(5))

    def reset_many(self, method, message=b""):
        server, before = self.serve_warm()
        sent = connections = 0
        while sent < self.reset_count:
            count, is_cut_off = self.reset_calls(server, self.reset_count - sent, method, message)
            # A thousand are allowed at once, and a hundred more each second.
            self.assertTrue(is_cut_off or count < 4000, count)
            sent += count
            connections += 1
        took = self.assert_serves(server, 30)
        is_back = self.is_back(server, before)
        say(f"{self.kind}: {sent} calls of {method} were reset over {connections} connections: physical memory "
            f"{before // MEBI} MiB before, {self.peak(server) // MEBI} at most, "
            f"{self.memory(server) // MEBI} afterwards; a new call took {took:.2f} s")
        self.assertLess(self.peak(server), 1024 * MEBI)
        self.assertTrue(is_back, self.memory(server))

    def test_half_requests_do_not_hold_up_metrics(self):
        server = self.serve()
        held = []
        for _ in range(30):
            each = socket.create_connection(("127.0.0.1", server.metrics_port))
            self.addCleanup(each.close)
            each.send(b"GET /metr")
            held.append(each)
        start = time.monotonic()
        with socket.create_connection(("127.0.0.1", server.metrics_port), 20) as scrape:
            scrape.send(b"GET /metrics HTTP/1.0\r\n\r\n")
            self.assertIn(b"200 OK", scrape.recv(4096))
        say(f"{self.kind}: metrics beside 30 half requests took {time.monotonic() - start:.2f} s")

    def test_a_deaf_server_says_so_and_ends(self):
        port_file = self.folder / "health-port"
        server = self.serve("--health-listen", "127.0.0.1:0", "--health-port-file", port_file)
        health = parplan.Client(f"127.0.0.1:{port_file.read_text().strip()}")
        self.addCleanup(health.__exit__)
        self.assertTrue(parplan.is_serving(health))
        tasks = pathlib.Path(f"/proc/{server.process.pid}/task")
        gate = next(int(task.name) for task in tasks.iterdir()
                    if (task / "comm").read_text().strip() == "parplan-gate")
        libc = ctypes.CDLL(None, use_errno=True)
        libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
        if libc.ptrace(PTRACE_SEIZE, gate, None, None) != 0:
            self.skipTest("this user may not stop a thread of another process")
        libc.ptrace(PTRACE_INTERRUPT, gate, None, None)
        # The process has ended once whoever stopped the thread has seen its end.
        threading.Thread(target=wait_for_task, args=(gate,), daemon=True).start()
        start = time.monotonic()
        self.assertTrue(self.wait_until(25, lambda: not parplan.is_serving(health)))
        told = time.monotonic() - start
        self.assertEqual(server.process.wait(60), 1)
        say(f"{self.kind}: the thread that accepts was stopped: NOT_SERVING after {told:.1f} s, "
            f"exit code 1 after {time.monotonic() - start:.1f} s")
        self.assertIn('"event":"deaf"', server.log())


class PlainAbuse(Attacks, lab.Lab):
    kind = "plain"
    # Memory that a server takes for its first calls.
    overhead = 24 * MEBI


class MutualTlsAbuse(Attacks, lab.Lab):
    kind = "mutual TLS"
    mutual = True
    # And for handshakes.
    overhead = 40 * MEBI


def run():
    """The tests of the program that is run, with the server of the first argument."""
    lab.SERVER = sys.argv.pop(1)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(8192, hard), hard))
    unittest.main()


if __name__ == "__main__":
    run()
