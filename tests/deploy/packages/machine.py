"""A folder with a Debian inside, booted: systemd is its first process, and the caller's network is
its own. Needs root, Debian's systemd-container, and control groups that may be written to.

Call `enclose` first: whatever happens to the caller then, nothing of the machine outlives it.
"""
import array
import fcntl
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import time

# Nothing that must happen waits for less.
PATIENCE_SECONDS = 600
ENVIRONMENT = ["env", "-i", "PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8",
               "SYSTEMD_PAGER=", "SYSTEMD_COLORS=0"]


def enclose():
    """Runs this program again, with processes, mounts and a network of its own, of which only the
    loopback device is there. Comes back in the second run."""
    if os.getpid() != 1:
        os.execvp("unshare", ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child",
                              "--mount-proc", sys.executable, "-B", *sys.argv])
    # The first of some processes gets only signals that it asked for.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = array.array("B", b"lo".ljust(16, b"\0") + b"\0" * 24)
        fcntl.ioctl(any_socket, 0x8913, request)  # SIOCGIFFLAGS
        request[16] |= 1  # IFF_UP
        fcntl.ioctl(any_socket, 0x8914, request)  # SIOCSIFFLAGS


def wait_for(what, condition, process=None):
    """The first value of `condition()` that is true, while `process` goes on."""
    end = time.monotonic() + PATIENCE_SECONDS
    while True:
        value = condition()
        if value:
            return value
        if process is not None and process.poll() is not None:
            raise AssertionError(f"{what}: ended with {process.returncode}")
        if time.monotonic() > end:
            raise AssertionError(f"waited in vain for {what}")
        time.sleep(0.1)


def cgroups_of_systemd():
    """Returns the place of this process in the hierarchies that systemd keeps its units in: the
    unified one and, where the machine has older ones as well, that of systemd's name."""
    where = {}
    for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
        number, controllers, path = line.split(":", 2)
        where["cgroup2" if number == "0" else controllers] = path
    for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
        mount, _, rest = line.partition(" - ")
        kind, _, options = rest.split(" ", 2)
        key = kind if kind == "cgroup2" else "name=systemd"
        if key in where and (kind == "cgroup2" or kind == "cgroup" and "name=systemd" in options):
            yield pathlib.Path(mount.split()[4] + where.pop(key))


class Machine:
    """Boots in `boot`, is gone at the latest with the `with` block."""

    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.console = self.root.with_name(f"{self.root.name}.console")
        self._process = None
        self._first = None  # Its first process, by the number that it has here.
        # A control group of its own, which is removed with all below.
        name = f"parplan-boot-{os.urandom(4).hex()}"
        self._cgroups = [path / name for path in cgroups_of_systemd()]
        self._reason = None if self._cgroups else "there are no control groups"

    def __enter__(self):
        try:
            for path in self._cgroups:
                path.mkdir()
        except OSError as error:
            self._reason = f"no control group can be made: {error}"
        return self

    def __exit__(self, *unused):
        if self._process is not None:
            for pid in (self._first, self._process.pid):
                if pid is not None:
                    try:
                        os.kill(pid, signal.SIGKILL)
                    except ProcessLookupError:
                        pass
            self._process.wait()
        for path in self._cgroups:
            wait_for(f"the processes in {path}", lambda path=path: self._remove(path))

    @staticmethod
    def _remove(path):
        folders = [pathlib.Path(name) for name, _, _ in os.walk(path, topdown=False)]
        try:
            for folder in folders:
                folder.rmdir()
        except OSError:
            return False
        return True

    def _start(self, *arguments):
        join = "".join(f"echo 0 >{path}/cgroup.procs; " for path in self._cgroups)
        with open(self.console, "ab") as console:
            return subprocess.Popen(
                ["sh", "-euc", join + 'exec "$@"', "sh",
                 "systemd-nspawn", "--quiet", "--directory", self.root, "--register=no",
                 "--keep-unit", "--resolv-conf=off", "--timezone=off", "--link-journal=no",
                 "--console=pipe", *arguments],
                stdin=subprocess.DEVNULL, stdout=console, stderr=console)

    def why_not(self):
        """Why nothing can be started in the folder on this machine; nothing where it can."""
        if shutil.which("systemd-nspawn") is None:
            return "there is no systemd-nspawn (Debian: systemd-container)"
        if self._reason is not None:
            return self._reason
        done = self._start("/bin/true").wait(PATIENCE_SECONDS)
        return None if done == 0 else f"systemd-nspawn: {self.shown()}"

    def shown(self):
        """Returns the text of the console."""
        return self.console.read_text(errors="replace").strip()

    def boot(self):
        """Comes back when all that starts at boot has been started."""
        self._process = self._start("--boot")
        self._first = wait_for("the first process", self._find_first, self._process)
        wait_for("systemd", lambda: self.run("systemctl", "is-system-running", "--wait",
                                             check=False).stdout.strip() in
                 ("running", "degraded"), self._process)

    def _find_first(self):
        """The one that is number 1 below what was started."""
        for entry in pathlib.Path("/proc").iterdir():
            try:
                fields = dict(line.split(":\t", 1) for line in
                              (entry / "status").read_text().splitlines())
            except (OSError, ValueError):
                continue
            numbers = fields["NSpid"].split()
            if int(fields["PPid"]) == self._process.pid and numbers[1:] == ["1"]:
                return int(entry.name)
        return None

    def power_off(self):
        self.run("systemctl", "poweroff", check=False)
        code = self._process.wait(PATIENCE_SECONDS)
        self._process = self._first = None
        if code != 0:
            raise AssertionError(f"the machine ended with {code}: {self.shown()}")

    def command(self, *command):
        """Returns the command line that runs a command in the machine, as its root."""
        return ["nsenter", "--target", str(self._first), "--mount", "--uts", "--ipc", "--pid",
                "--root", "--wd", *ENVIRONMENT, *map(str, command)]

    def run(self, *command, check=True):
        done = subprocess.run(self.command(*command), capture_output=True, text=True,
                              timeout=PATIENCE_SECONDS, check=False)
        if check and done.returncode != 0:
            raise AssertionError(f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done

    def property(self, unit, name):
        """Returns a value of `systemctl show`."""
        return self.run("systemctl", "show", "--property", name, "--value", unit).stdout.strip()

    def log(self, unit):
        """Returns the journal of a unit's programs, without what systemd says of them, a line
        each."""
        self.run("journalctl", "--sync")
        return self.run("journalctl", "--output=cat", f"_SYSTEMD_UNIT={unit}.service",
                        "_TRANSPORT=stdout", check=False).stdout.splitlines()
