"""The part of Ray that deploy/examples/schedulers/ray_train.py uses, in one process: actors run on
nodes of the test's making, and each call happens when it is made."""
import sys
import types


class Cluster:
    """`nodes` maps the address of a node to its devices. Keeps what actors were started with."""

    def __init__(self, nodes):
        self.nodes = dict(nodes)
        self.started = []
        self.is_connected = False
        self._here = None

    def modules(self):
        """Returns what `import ray` and its parts find."""
        ray = types.ModuleType("ray")
        ray.util = types.ModuleType("ray.util")
        ray.util.placement_group = types.ModuleType("ray.util.placement_group")
        ray.util.scheduling_strategies = types.ModuleType("ray.util.scheduling_strategies")
        ray.init, ray.get, ray.remote = self._init, self._get, self._remote
        ray.util.get_node_ip_address = lambda: self._here
        ray.util.placement_group.placement_group = self._place
        ray.util.scheduling_strategies.PlacementGroupSchedulingStrategy = \
            lambda placement_group, placement_group_bundle_index: \
            (placement_group, placement_group_bundle_index)
        return {"ray": ray, "ray.util": ray.util,
                "ray.util.placement_group": ray.util.placement_group,
                "ray.util.scheduling_strategies": ray.util.scheduling_strategies}

    def _init(self):
        self.is_connected = True

    def _get(self, values):
        return values

    def _place(self, bundles, strategy):
        if not self.is_connected:
            raise RuntimeError("ray.init comes first")
        if strategy != "STRICT_SPREAD":
            raise ValueError(f"{strategy} may put two bundles on one node")
        if len(bundles) > len(self.nodes):
            raise TimeoutError("so many nodes never come")
        for bundle, devices in zip(bundles, self.nodes.values()):
            if bundle["GPU"] > devices:
                raise TimeoutError("no node has so many devices")
        group = types.SimpleNamespace(bundles=bundles, addresses=list(self.nodes))
        group.ready = lambda: group
        return group

    def _remote(self, kind):
        cluster = self

        class Actor:
            def __init__(self, address):
                self._instance, self._address = kind(), address

            def __getattr__(self, name):
                def call(*arguments):
                    cluster._here = self._address
                    return getattr(self._instance, name)(*arguments)
                return types.SimpleNamespace(remote=call)

        class Options:
            def __init__(self, num_gpus, num_cpus, scheduling_strategy):
                group, self._index = scheduling_strategy
                if {"GPU": num_gpus, "CPU": num_cpus} != group.bundles[self._index]:
                    raise ValueError("the actor does not fill its bundle")
                self._address = group.addresses[self._index]

            def remote(self):
                cluster.started.append(self._index)
                return Actor(self._address)

        return types.SimpleNamespace(options=Options)


def installed(cluster):
    """Returns a patch of sys.modules that makes `cluster` the one of `import ray`."""
    from unittest import mock

    return mock.patch.dict(sys.modules, cluster.modules())
