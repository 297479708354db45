"""Helpers of tests for the machine they run on: time, ports, and processes that end."""
import ctypes
import pathlib
import random
import signal
import socket
import time

# Nothing that must happen waits for less.
PATIENCE_SECONDS = 300
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)


def wait_for(what, condition, patience=PATIENCE_SECONDS):
    """The first value of `condition()` that is true."""
    end = time.monotonic() + patience
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"waited in vain for {what}")
        time.sleep(0.02)


def free_ports(count):
    """Outside the range from which the system takes ports, so that nobody gets them meanwhile."""
    text = pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii")
    first = int(text.split()[0])
    ports = []
    for port in random.sample(range(min(10000, first // 2), first), min(500, first // 2)):
        with socket.socket() as one:
            try:
                one.bind(("127.0.0.1", port))
            except OSError:
                continue
            ports.append(port)
        if len(ports) == count:
            return ports
    raise AssertionError(f"no {count} free ports below {first}")


def die_with_parent():
    """For `preexec_fn`: the child ends when this process does, whatever that dies of."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def children(pid):
    """Processes whose parent is `pid`."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
        except (OSError, ValueError, IndexError):
            continue
        if parent == pid:
            found.append(int(entry.name))
    return found


def is_there(pid):
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"
