#!/usr/bin/python3
"""What a stranger on the network does to a server, and what must hold meanwhile and afterwards.

    abuse_test.py SERVER

Every attack is of one process on this machine without a certificate, on the server with its
default settings but for the number of descriptors. Memory is that of the server's process; it is
read, never limited, so that a failure shows how much it was.
"""
import pathlib
import resource
import socket
import sys
import tempfile
import threading
import time
import unittest
import zlib

import grpc

import http2_client as http2
import parplan_process as parplan

SERVER = None
PLANS = "parplan.v1.PlanService"
CAPABILITIES = f"/{PLANS}/GetCapabilities"
MEBI = 1 << 20

# gRPC waits up to 5 s between attempts to connect; 12 s after an attack a new call is to be
# answered within this time.
PROMPT_SECONDS = 5


def gzip_of_zeros(size):
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    block = bytes(MEBI)
    return b"".join(packer.compress(block) for _ in range(size // MEBI)) + packer.flush()


class Abuse(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def serve(self, descriptors=None):
        binary = SERVER
        if descriptors is not None:
            binary = pathlib.Path(self.folder.name) / "limited-server"
            binary.write_text(f'#!/bin/sh\nulimit -n {descriptors}\nexec "{SERVER}" "$@"\n')
            binary.chmod(0o755)
        server = parplan.Server(binary, self.folder.name).start()
        self.addCleanup(server.__exit__)
        self.assert_serves(server)
        return server

    def assert_serves(self, server, seconds=60):
        """A client that knows nothing of the attack is answered."""
        with grpc.insecure_channel(server.address, parplan.CHANNEL_OPTIONS) as channel:
            call = channel.unary_unary(CAPABILITIES, lambda x: x, lambda x: x)
            self.assertTrue(call(b"", timeout=seconds, wait_for_ready=True))

    def memory(self, server):
        """Bytes of physical memory."""
        status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) * 1024

    def peak(self, server):
        status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) * 1024

    def descriptor_count(self, server):
        return len(list(pathlib.Path(f"/proc/{server.process.pid}/fd").iterdir()))

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
        server = self.serve(descriptors=1024)
        before = self.descriptor_count(server)
        sockets = self.flood(server, 1100)
        # While they are held, too.
        self.assert_serves(server)
        time.sleep(1.1)
        for each in sockets:
            each.close()
        self.assert_serves(server, PROMPT_SECONDS)
        end = time.monotonic() + 30
        while self.descriptor_count(server) > before + 8 and time.monotonic() < end:
            time.sleep(0.05)
        self.assertLessEqual(self.descriptor_count(server), before + 8)

    def test_connections_that_speak_and_stay_leave_room(self):
        server = self.serve(descriptors=1024)
        self.flood(server, 1100, http2.PREFACE + http2.frame(http2.SETTINGS, 0, 0))
        time.sleep(2)
        self.assert_serves(server)

    def test_half_a_preface_is_not_waited_for(self):
        server = self.serve()
        with socket.create_connection(("127.0.0.1", server.port)) as half:
            half.send(http2.PREFACE[:5])
            half.settimeout(40)
            while half.recv(4096):
                pass

    def test_compressed_messages_are_not_inflated(self):
        server = self.serve()
        bomb = gzip_of_zeros(256 * MEBI)
        before = self.memory(server)

        def throw():
            connection = http2.Connection(server.port)
            connection.begin()
            connection.open(1, CAPABILITIES, grpc_encoding="gzip")
            connection.send(1, bomb, end=True, compressed=True)
            connection.wait_for_end(1)
            connection.close()

        throwers = [threading.Thread(target=throw) for _ in range(40)]
        for each in throwers:
            each.start()
        for each in throwers:
            each.join()
        self.assertLess(self.peak(server) - before, 60 * MEBI)
        self.assert_serves(server)

    def test_streams_without_a_first_message_end(self):
        server = self.serve()
        connections = [http2.Connection(server.port) for _ in range(4)]
        count = 250
        for connection in connections:
            connection.begin()
            for index in range(count):
                connection.open(2 * index + 1, "/parplan.v1.AgentService/ConnectAgent"
                                if index % 2 else "/parplan.v1.ProfileService/UploadProfile")
        for connection in connections:
            for index in range(count):
                self.assertTrue(connection.wait_for_end(2 * index + 1))
            connection.close()
        self.assert_serves(server)


def main():
    global SERVER
    SERVER = sys.argv.pop(1)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(8192, hard), hard))
    unittest.main()


if __name__ == "__main__":
    main()
