"""Ray: starts torchrun on each node of a plan, by the files that `parplan-sidecar init` left there.

    python3 ray_train.py /plan pretrain_gpt.py ARGUMENTS...

Runs on any pod of the cluster that has the plan. Every node of the plan is a bundle of a placement
group, and bundle i holds the ranks i * devices of a node and up.
"""
import os
import pathlib
import subprocess
import sys


def plan_variables(folder):
    """Returns the variables of plan.env and of the program's own file."""
    script = ('. "$1/plan.env"; set -a; . "$PARPLAN_EXPORT_MEGATRON/megatron.env"; set +a; '
              'env --null')
    done = subprocess.run(["bash", "-euc", script, "bash", folder], capture_output=True, check=True,
                          env={"PATH": os.environ["PATH"]})
    pairs = (line.split("=", 1) for line in done.stdout.decode().split("\0") if line)
    return {name: value for name, value in pairs if name not in ("PATH", "PWD", "SHLVL", "_")}


def bundles_of(variables):
    """Returns one bundle for each node: ranks that must share a node share a bundle."""
    devices = int(variables["PARPLAN_NODE_DEVICE_COUNT"])
    return [{"GPU": devices, "CPU": 1}] * int(variables["PARPLAN_NODE_COUNT"])


def command_of(variables, node_rank, master, program):
    """Returns the command that starts the ranks of a node."""
    arguments = pathlib.Path(variables["PARPLAN_EXPORT_MEGATRON"], "megatron.args").read_text()
    return ["torchrun", "--nnodes", variables["PARPLAN_NODE_COUNT"], "--node-rank", str(node_rank),
            "--nproc-per-node", variables["PARPLAN_NODE_DEVICE_COUNT"],
            "--master-addr", master, "--master-port", variables["MASTER_PORT"],
            program[0], *arguments.splitlines(), *program[1:]]


class Node:
    """The actor of a node."""

    def address(self):
        import ray

        return ray.util.get_node_ip_address()

    def train(self, folder, node_rank, master, program):
        """Returns the exit code of torchrun."""
        variables = plan_variables(folder)
        # All pods fetched the plan as node 0.
        variables.pop("PARPLAN_NODE", None)
        variables.update(PARPLAN_NODE_RANK=str(node_rank), MASTER_ADDR=master)
        return subprocess.call(command_of(variables, node_rank, master, program),
                               env={**os.environ, **variables})


def main(folder, program):
    import ray
    from ray.util.placement_group import placement_group
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    bundles = bundles_of(plan_variables(folder))
    ray.init()
    group = placement_group(bundles, strategy="STRICT_SPREAD")
    ray.get(group.ready())
    # Bundles keep their order, actors do not: actor i goes to bundle i.
    nodes = [ray.remote(Node).options(
        num_gpus=bundle["GPU"], num_cpus=bundle["CPU"],
        scheduling_strategy=PlacementGroupSchedulingStrategy(
            placement_group=group, placement_group_bundle_index=index)).remote()
             for index, bundle in enumerate(bundles)]
    master = ray.get(nodes[0].address.remote())
    codes = ray.get([node.train.remote(folder, rank, master, program)
                     for rank, node in enumerate(nodes)])
    return max(codes, key=abs)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
