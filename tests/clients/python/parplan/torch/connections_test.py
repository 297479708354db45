"""Connections of this process are found, and those to listed ends are broken."""

import os
import socket

import pytest

from parplan.torch import connections


def connected(family, host):
    with socket.socket(family) as waiting:
        try:
            waiting.bind((host, 0))
        except OSError:
            pytest.skip(f"{host} is not there")
        waiting.listen()
        client = socket.create_connection(waiting.getsockname()[:2])
        server, _ = waiting.accept()
    return client, server


def ends_of(one):
    own, other = one.getsockname(), one.getpeername()
    return f"[{own[0]}]:{own[1]}", f"[{other[0]}]:{other[1]}"


@pytest.mark.parametrize("family, host", [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_listed_connections_break_and_others_stay(family, host):
    pairs = [connected(family, host) for _ in range(3)]
    try:
        found = connections.connections()
        for pair in pairs:
            assert ends_of(pair[0]) in found and ends_of(pair[1]) in found
        # The other ends of the first and the third pair's clients, as another process lists them.
        listed = [ends_of(pairs[0][1]), ends_of(pairs[2][1])]
        kept = pairs[2][1].getsockname()[1]
        assert connections.break_connections(listed, [kept]) == 1
        assert pairs[0][1].recv(1) == b""
        for client, server in pairs[1:]:
            client.send(b"x")
            assert server.recv(1) == b"x"
    finally:
        for pair in pairs:
            for one in pair:
                one.close()


def test_connections_go_on_blocking_for_those_who_read_from_them():
    client, server = connected(socket.AF_INET, "127.0.0.1")
    with client, server:
        socket.setdefaulttimeout(5)
        try:
            assert ends_of(client) in connections.connections()
            assert socket.getdefaulttimeout() == 5
        finally:
            socket.setdefaulttimeout(None)
        assert os.get_blocking(client.fileno()) and os.get_blocking(server.fileno())


def test_an_error_names_a_rank_by_its_end():
    ends = {1: [("[10.0.0.1]:70", "[10.0.0.3]:9")], 2: [("[10.0.0.2]:70", "[10.0.0.3]:7")]}
    text = "Connection closed by peer [10.0.0.2]:70. This is typical"
    assert connections.rank_of_error(text, ends) == 2
    assert connections.rank_of_error("closed by peer [::ffff:10.0.0.1]:70", ends) == 1
    assert connections.rank_of_error("no address", ends) is None
