"""Hosts of one test: network, PID, host and mount namespaces of their own on a bridge, which is in
a namespace of the test itself. Nothing outside is touched, and all of it ends with the test.

    lab.enter("network_test")          # Runs this program again in a namespace of its own.
    with lab.Lab(folder) as lab:
        host = lab.add("h1", 11)
        with host.run(["parplan-server", ...], log) as process:
            host.cut()                 # No packet comes or goes, and nobody is told.
"""
import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import time

import slow_cable

PREFIX = "10.77.0"
_INSIDE = "PARPLAN_NETWORK_TEST_INSIDE"
_PROGRAMS = ("ip", "iptables", "unshare", "nsenter")
PATIENCE = 180


def _run(*command):
    return subprocess.run([str(part) for part in command], check=True, capture_output=True,
                          text=True).stdout


def why_not():
    """Returns why this machine allows no such test; empty if it does."""
    for program in _PROGRAMS:
        if not any((pathlib.Path(folder) / program).exists()
                   for folder in os.environ["PATH"].split(":") + ["/usr/sbin"]):
            return f"there is no program `{program}` (packages iproute2, iptables, util-linux)"
    script = ("ip link add br0 type bridge && ip link add try1 type veth peer name try2 && "
              "ip link set try1 master br0 && iptables -A INPUT -s 10.77.0.9 -j DROP")
    tried = subprocess.run(["unshare", "--net", "--mount", "--uts", "--pid", "--fork", "sh", "-c",
                            script], capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        return ("this user may not make network namespaces, bridges and packet filters here "
                f"(CAP_NET_ADMIN and CAP_SYS_ADMIN): {tried.stderr.strip()}")
    return ""


def enter():
    """Runs the program again in network and mount namespaces of its own, unless it is there."""
    if os.environ.get(_INSIDE) == "1":
        return
    os.environ[_INSIDE] = "1"
    os.execvp("unshare", ["unshare", "--net", "--mount", "--", sys.executable, *sys.argv])


def wait_for(condition, what, patience=PATIENCE):
    """Returns the first true value of `condition`."""
    end = time.monotonic() + patience
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < end, f"no {what} within {patience} s"
        time.sleep(0.02)


class Process:
    """A program on a host. A context manager that kills it at its end."""

    def __init__(self, entry, log):
        self.entry = entry
        self.log_path = log
        self.start = time.monotonic()
        # The program is a child of the one that entered the namespaces.
        children = f"/proc/{entry.pid}/task/{entry.pid}/children"

        def child():
            with contextlib.suppress(OSError):
                return pathlib.Path(children).read_text().split()
            return None

        self.pid = int((wait_for(lambda: child() or entry.poll() is not None and [entry.pid],
                                 "program"))[0])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.send(signal.SIGKILL)
        self.entry.kill()
        self.entry.wait()

    def send(self, number):
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)
            # The one that entered the namespaces stops and goes on with its child.
            if number == signal.SIGCONT:
                self.entry.send_signal(number)

    def is_running(self):
        return self.entry.poll() is None

    def wait(self, timeout=PATIENCE):
        """Returns the exit code."""
        return self.entry.wait(timeout)

    def log(self):
        return self.log_path.read_text(errors="replace")


class Host:
    """A host with one link to the bridge. All hosts read the same names of hosts, unless one was
    added with its own."""

    def __init__(self, lab, name, number, hosts_file):
        self.lab, self.name, self.number = lab, name, number
        self.hosts_file = hosts_file
        self.address = f"{PREFIX}.{number}"
        self.link = f"v{name}"
        self._cable = None
        self._begin()

    def _begin(self):
        ready = self.lab.folder / f"{self.name}.ready"
        ready.unlink(missing_ok=True)
        script = (f"hostname {self.name} && mount --bind {self.hosts_file} /etc/hosts && "
                  f"ip link set lo up && touch {ready} && exec sleep infinity")
        self._keeper = subprocess.Popen(
            ["unshare", "--net", "--uts", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c",
             script])
        wait_for(ready.exists, f"host {self.name}")
        self._pid = int(pathlib.Path(
            f"/proc/{self._keeper.pid}/task/{self._keeper.pid}/children").read_text().split()[0])
        self._plug_in()

    def _plug_in(self):
        _run("ip", "link", "add", self.link, "type", "veth", "peer", "name", "eth0", "netns",
             self._pid)
        self._bring_up()

    def _bring_up(self):
        _run("ip", "link", "set", self.link, "master", "br0", "up")
        self.command("ip", "address", "add", f"{self.address}/24", "dev", "eth0")
        self.command("ip", "link", "set", "eth0", "up")

    def _enter(self):
        return ["nsenter", "-t", str(self._pid), "-n", "-u", "-m", "-p", "--"]

    def command(self, *command):
        return _run(*self._enter(), *command)

    def run(self, command, log, environment=None, limits=()):
        """Starts a program whose output goes to the file `log`. `limits`: arguments of prlimit."""
        prefix = ["prlimit", *limits] if limits else []
        log = pathlib.Path(log)
        with open(log, "ab") as output:
            entry = subprocess.Popen(
                [*self._enter(), *prefix, *(str(part) for part in command)], stdout=output,
                stderr=output, stdin=subprocess.DEVNULL, env={**os.environ, **(environment or {})})
        return Process(entry, log)

    def slow_down(self, seconds):
        """Replaces the link by one on which every packet takes so long each way."""
        _run("ip", "link", "delete", self.link)
        device = slow_cable.make_device(self.link)
        self._cable = subprocess.Popen(
            ["nsenter", "-t", str(self._pid), "-n", "--", sys.executable, slow_cable.__file__,
             str(device), str(seconds)], pass_fds=(device,), stdout=subprocess.PIPE)
        os.close(device)
        self._cable.stdout.readline()
        self._bring_up()

    def speed_up(self):
        """Gives the host its first link again, unless it has it."""
        if self._cable is None:
            return
        self._cable.kill()
        self._cable.wait()
        self._cable.stdout.close()
        self._cable = None
        wait_for(lambda: self.link not in _run("ip", "link", "show"), "end of a link")
        self._plug_in()

    def cut(self):
        _run("ip", "link", "set", self.link, "down")

    def heal(self):
        _run("ip", "link", "set", self.link, "up")

    def block(self, other):
        """Swallows all packets from and to another host."""
        for chain, flag in (("INPUT", "-s"), ("OUTPUT", "-d")):
            self.command("iptables", "-A", chain, flag, other.address, "-j", "DROP")

    def unblock(self):
        self.command("iptables", "-F")

    def lose(self):
        """The host is gone with all its programs, which nobody hears."""
        _run("ip", "link", "delete", self.link)
        self._keeper.kill()
        self._keeper.wait()

    def boot(self):
        """The host is there again, without programs."""
        self._begin()

    def end(self):
        if self._cable is not None:
            self._cable.kill()
            self._cable.wait()
        self._keeper.kill()
        self._keeper.wait()


class Lab:
    """The bridge and the hosts. This program has the address of number 1."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.hosts_file = self.folder / "hosts"
        self.hosts_file.write_text("127.0.0.1 localhost\n")
        self.hosts = {}

    def __enter__(self):
        _run("ip", "link", "set", "lo", "up")
        _run("ip", "link", "add", "br0", "type", "bridge")
        _run("ip", "address", "add", f"{PREFIX}.1/24", "dev", "br0")
        _run("ip", "link", "set", "br0", "up")
        return self

    def __exit__(self, *_):
        for host in self.hosts.values():
            host.end()

    def add(self, name, number, hosts_file=None):
        with open(self.hosts_file, "a", encoding="utf-8") as file:
            file.write(f"{PREFIX}.{number} {name}\n")
        self.hosts[name] = Host(self, name, number, hosts_file or self.hosts_file)
        return self.hosts[name]
