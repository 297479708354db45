"""Servers that share a store, as whole programs at addresses of their own."""
import pathlib
import re
import socket
import sys
import threading
import time
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import parplan_process as parplan  # noqa: E402

# Nothing that must happen waits for less.
PATIENCE = 300
# Addresses of the loopback network, 127.0.0.0/8. The second half is for servers that move.
HOSTS = [f"127.0.77.{number}" for number in range(1, 7)]


class ReservedPort:
    """A port that is free at all of HOSTS, and that the system gives to nobody who asks for any.
    Servers that name it can listen there: the sockets that hold it never do."""

    def __init__(self):
        self.sockets = []
        while not self.sockets:
            try:
                self._bind()
            except OSError:
                # Somebody has it at another address.
                self.__exit__()

    def _bind(self):
        self.number = 0
        for host in HOSTS:
            holder = socket.socket()
            self.sockets.append(holder)
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            holder.bind((host, self.number))
            self.number = holder.getsockname()[1]

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        for holder in self.sockets:
            holder.close()
        self.sockets = []


class Replica(parplan.Server):
    """A server with an address of its own, which it keeps when it starts again."""

    def __init__(self, binary, folder, number, store, port):
        folder = pathlib.Path(folder) / f"replica-{number}"
        folder.mkdir()
        # The load counts every profile that was acknowledged, so none may be deleted for newer ones.
        super().__init__(binary, folder, "--data-dir", folder.parent / "keys", "--store", store,
                         "--workers", "2", "--drain-time", "120s", "--profiles-per-node", "0")
        self.own_flags = self.flags
        self.fixed_port = port.number
        self._be_at(HOSTS[number])

    def _be_at(self, host):
        self.host = host
        self.address = f"{host}:{self.fixed_port}"

    def move(self):
        """It starts at another address next time."""
        self._be_at(HOSTS[(HOSTS.index(self.host) + len(HOSTS) // 2) % len(HOSTS)])

    def start(self):
        self.flags = [*self.own_flags, "--listen", self.address]
        super().start()
        self._be_at(self.host)
        return self

    def metric(self, name):
        """The sum of a metric over its labels."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics") as page:
            text = page.read().decode()
        lines = re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", text, re.MULTILINE)
        return sum(float(value) for value in lines)


def start_all(replicas):
    """All at once."""
    starters = [threading.Thread(target=replica.start) for replica in replicas]
    for starter in starters:
        starter.start()
    for starter in starters:
        starter.join()
    # A thread that failed would not be noticed otherwise.
    for replica in replicas:
        assert replica.process is not None and replica.process.poll() is None, replica.log()
        assert hasattr(replica, "metrics_port"), replica.log()


def wait_for(condition, what, process=None):
    end = time.monotonic() + PATIENCE
    while not condition():
        assert process is None or process.poll() is None, f"ended instead of {what}"
        assert time.monotonic() < end, f"no {what}"
        time.sleep(0.02)


def say(text):
    print(text, flush=True)
