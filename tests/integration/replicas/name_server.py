"""A name server of one test: Debian's dnsmasq at a port of 127.0.0.1, which knows the names it
is told and asks nobody."""
import pathlib
import socket
import struct
import subprocess
import time

PROGRAM = "/usr/sbin/dnsmasq"
PATIENCE = 300


def _free_port():
    """Returns a port that is free for both TCP and UDP; another program may be quicker."""
    while True:
        with socket.socket(type=socket.SOCK_DGRAM) as datagrams, socket.socket() as stream:
            datagrams.bind(("127.0.0.1", 0))
            try:
                stream.bind(datagrams.getsockname())
            except OSError:
                continue
            return datagrams.getsockname()[1]


class NameServer:
    """Runs within the `with` block."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.hosts = self.folder / "hosts"
        self.hosts.write_text("")
        self.names = {}
        self.process = None

    def __enter__(self):
        end = time.monotonic() + PATIENCE
        while True:
            self.port = _free_port()
            self.address = f"127.0.0.1:{self.port}"
            with open(self.folder / "dnsmasq.log", "ab") as log:
                self.process = subprocess.Popen(
                    [PROGRAM, "--no-daemon", "--conf-file=/dev/null", "--no-resolv", "--no-hosts",
                     f"--addn-hosts={self.hosts}", "--local=/test/", "--cache-size=0",
                     "--listen-address=127.0.0.1", "--bind-interfaces", f"--port={self.port}"],
                    stdout=log, stderr=log)
            while self.process.poll() is None and self.ask("nobody.test") is None:
                assert time.monotonic() < end, "dnsmasq does not answer"
            if self.process.poll() is None:
                return self
            # The port was taken meanwhile.
            text = (self.folder / "dnsmasq.log").read_text(errors="replace")
            assert "in use" in text and time.monotonic() < end, text

    def __exit__(self, *unused):
        self.process.kill()
        self.process.wait()

    def set(self, name, addresses):
        """From now on these are the addresses of `name`; returns when it says so."""
        self.names[name] = addresses
        staged = self.folder / "hosts.new"
        staged.write_text("".join(f"{address} {name}\n" for name, addresses in self.names.items()
                                  for address in addresses))
        staged.rename(self.hosts)
        self.process.send_signal(1)  # SIGHUP: it reads the file again.
        end = time.monotonic() + PATIENCE
        while self.ask(name) != set(addresses):
            assert time.monotonic() < end, f"dnsmasq keeps the addresses of {name}"
            time.sleep(0.01)

    def ask(self, name):
        """The addresses of IPv4 that it gives; None where it does not answer."""
        question = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
        with socket.socket(type=socket.SOCK_DGRAM) as sock:
            sock.settimeout(1)
            sock.connect(("127.0.0.1", self.port))
            try:
                sock.send(struct.pack("!6H", 1, 0x0100, 1, 0, 0, 0) + question
                          + b"\0" + struct.pack("!2H", 1, 1))
                answer = sock.recv(4096)
            except OSError:
                time.sleep(0.01)
                return None
        # Each record is its name (a pointer of two bytes), type, class, time to live, length, data.
        records = answer[12 + len(question) + 5:]
        count = struct.unpack("!H", answer[6:8])[0]
        return {socket.inet_ntoa(records[16 * i + 12:16 * i + 16]) for i in range(count)}
