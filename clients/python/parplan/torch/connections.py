"""TCP connections between the ranks of a job, as the system shows them.

gloo waits for a message until its time limit, or until the connection breaks. `abort` of its groups
does nothing (PyTorch 2.15), so a rank that gives up breaks its own connections to other ranks, and each
of them stops waiting at once. A connection is one of these if both its ends are in lists of ranks; those
to other programs stay as they are.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
from collections.abc import Collection, Iterator, Mapping

_FOLDER = "/proc/self/fd"
_PEER = re.compile(r"\[([0-9A-Fa-f.:]+)\]:(\d+)")

# An address and a port, as gloo writes them: `[127.0.0.1]:4711`.
Address = str
# The own end and the other.
Ends = tuple[Address, Address]


def connections() -> list[Ends]:
    """Returns the TCP connections of this process; none on systems without /proc."""
    return [ends for ends, _ in _sockets()]


def break_connections(others: Collection[Ends], kept_ports: Collection[int]) -> int:
    """Breaks the connections of this process whose other end is in `others`, which lists those of
    other processes. Connections to or from a port of `kept_ports` stay. Returns how many broke."""
    theirs = set(others)
    kept = tuple(f"]:{port}" for port in kept_ports)
    count = 0
    for (own, other), handle in _sockets():
        if (other, own) in theirs and not (own.endswith(kept) or other.endswith(kept)):
            with contextlib.suppress(OSError):
                handle.shutdown(socket.SHUT_RDWR)
                count += 1
    return count


def rank_of_error(message: str, others: Mapping[int, Collection[Ends]]) -> int | None:
    """Returns the rank whose end of a connection an error of gloo names, or None. `others` has the
    lists of connections by rank."""
    for address, port in _PEER.findall(message):
        named = _text((address, port))
        for rank, ends in others.items():
            if any(own == named for own, _ in ends):
                return rank
    return None


def _sockets() -> Iterator[tuple[Ends, socket.socket]]:
    """Yields the connections of this process, with a handle that is closed afterwards."""
    try:
        numbers = [int(name) for name in os.listdir(_FOLDER)]
    except OSError:
        return
    for number in numbers:
        try:
            if not os.readlink(f"{_FOLDER}/{number}").startswith("socket:"):
                continue
            handle = _handle_of(number)
        except OSError:
            continue  # It was closed meanwhile.
        with handle:
            if handle.family not in (socket.AF_INET, socket.AF_INET6) \
                    or handle.type != socket.SOCK_STREAM:
                continue
            try:
                ends = (_text(handle.getsockname()), _text(handle.getpeername()))
            except OSError:
                continue  # It waits for connections, or lost its own.
            yield ends, handle


def _handle_of(number: int) -> socket.socket:
    """Returns a handle of its own. Raises OSError if the number is no socket any more."""
    # With a default timeout Python would make the connection itself stop blocking, also for whoever
    # else reads from it.
    timeout = socket.getdefaulttimeout()
    copy = os.dup(number)
    try:
        socket.setdefaulttimeout(None)
        return socket.socket(fileno=copy)
    except OSError:
        os.close(copy)
        raise
    finally:
        socket.setdefaulttimeout(timeout)


def _text(address: tuple[object, ...]) -> Address:
    host = str(address[0])
    # An end may use the other family's form of an address.
    return f"[{host.removeprefix('::ffff:')}]:{address[1]}"
