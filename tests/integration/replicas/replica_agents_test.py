#!/usr/bin/python3
"""Agents of a cluster come together at one of three servers, which know nothing of each other:
by a name that a real name server (dnsmasq) knows, with real agents that measure links under
leases. They go together to another server when theirs is killed, and back when it is there
again, and to a new one that goes before it.

    replica_agents_test.py --server parplan-server --agent parplan-agent

Prints its figures. Waits for events only; how long things take is told, not judged.
"""
import argparse
import contextlib
import pathlib
import sys
import tempfile
import time

import grpc

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import parplan_process as parplan  # noqa: E402
from agent_process import Agent  # noqa: E402
from name_server import NameServer  # noqa: E402
from postgres_server import PostgresServer  # noqa: E402
from replica import Replica, ReservedPort, say, start_all, wait_for  # noqa: E402

NAME = "parplan.test"
CLUSTER = "fleet"
FLAGS = ["--cluster", CLUSTER, "--ranks", "1", "--max-message-bytes", "4096",
         "--look-interval", "1s"]


def weight(address):
    """Returns the weight that docs/replicas.md defines."""
    ones = (1 << 64) - 1
    state = 0xcbf29ce484222325
    for byte in f"{CLUSTER} {address}".encode():
        state = (state ^ byte) * 0x100000001b3 & ones
    state = (state ^ state >> 30) * 0xbf58476d1ce4e5b9 & ones
    state = (state ^ state >> 27) * 0x94d049bb133111eb & ones
    return state ^ state >> 31


def listed(replica):
    """The nodes whose agents are connected to a server."""
    with parplan.Client(replica.address) as client:
        try:
            answer = client.call("parplan.v1.AgentService", "ListAgents",
                                 {"parent": f"clusters/{CLUSTER}"})
        except grpc.RpcError:
            return set()
        return {agent.node.rsplit("/", 1)[1] for agent in answer.agents}


class Test:
    def __init__(self, options, folder, postgres, names, port):
        self.options = options
        self.folder = pathlib.Path(folder)
        self.names = names
        self.target = f"dns://{names.address}/{NAME}:{port.number}"
        self.replicas = [Replica(options.server, folder, number, postgres.uri(), port)
                         for number in range(3)]

    def run(self):
        with contextlib.ExitStack() as stack:
            for replica in self.replicas:
                stack.callback(replica.__exit__)
            start_all(self.replicas)
            self.tell_name_server()
            self.check_agents(stack)

    def tell_name_server(self):
        self.names.set(NAME, [replica.host for replica in self.replicas])

    def order(self):
        """Returns the servers in the order in which agents choose them."""
        return sorted(self.replicas, key=lambda replica: -weight(replica.address))

    def start_agent(self, stack, node, *others):
        """An agent that measures the links between its node and others."""
        links = [flag for name in (node, *others) for flag in ("--link-node", name)]
        return stack.enter_context(Agent(self.options.agent, self.folder / node, self.target,
                                         *FLAGS, *(links if others else []), node=node))

    def await_agents(self, replica, nodes, what):
        start = time.monotonic()
        wait_for(lambda: listed(replica) == nodes, f"{nodes} at {replica.address}")
        say(f"{what}: {len(nodes)} agents at {replica.address} after "
            f"{time.monotonic() - start:.1f} s")
        for other in self.replicas:
            if other is not replica and other.process.poll() is None:
                wait_for(lambda: not listed(other), f"server without agents at {other.address}")

    def check_agents(self, stack):
        first, second, _ = self.order()
        n2 = self.start_agent(stack, "n2")
        n2.wait_for_event("measured")
        n1 = self.start_agent(stack, "n1", "n2")
        n1.wait_for_event("measured links")
        assert n2.events("measuring links for another node")
        self.await_agents(first, {"n1", "n2"}, "a name with three servers")

        first.kill()
        self.await_agents(second, {"n1", "n2"}, "theirs killed")
        n3 = self.start_agent(stack, "n3", "n1")
        n3.wait_for_event("measured links")
        everybody = {"n1", "n2", "n3"}
        self.await_agents(second, everybody, "one more, and another lease")

        first.start()
        self.await_agents(first, everybody, "theirs back")

        # The server moves like a pod that is replaced: another address, hence another order.
        first.end(timeout=300)
        first.move()
        first.start()
        self.tell_name_server()
        self.await_agents(self.order()[0], everybody, "theirs moved to a new address")
        for agent in (n1, n2, n3):
            assert agent.end() == 0, agent.log()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--server", required=True)
    parser.add_argument("--agent", required=True)
    options = parser.parse_args()
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, PostgresServer() as postgres, \
            NameServer(folder) as names, ReservedPort() as port:
        Test(options, folder, postgres, names, port).run()
    say(f"all in {time.monotonic() - start:.0f} s")


if __name__ == "__main__":
    main()
