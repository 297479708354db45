"""Ray: a placement group as ShapePlan says, and its bundles in the order of ranks.

    planctl --format json shape ... >shape.json
    python3 ray_train.py shape.json
"""
import json
import sys


def option_to_ask_for(shape):
    """What ShapePlan recommends; LookupError where nothing fits."""
    if "recommended_option_index" not in shape:
        raise LookupError(shape["infeasible_reason"])
    return shape["options"][shape["recommended_option_index"]]


def bundles_of(option, devices_per_node):
    """One bundle a node: ranks that must share a node share a bundle, and bundle i holds the
    ranks i * devices_per_node and up."""
    on_a_node = min(option["device_count"], devices_per_node)
    if on_a_node % option["same_node_device_count"] != 0:
        raise ValueError(f"{option['same_node_device_count']} ranks must share a node, which has "
                         f"{on_a_node} devices")
    return [{"GPU": on_a_node, "CPU": on_a_node}] * (option["device_count"] // on_a_node)


def strategy_of(option, devices_per_node):
    """Ranks that should share a switch fill it: nodes are all different, and close where the
    cluster gives its nodes a resource for each switch."""
    return "STRICT_PACK" if option["device_count"] <= devices_per_node else "STRICT_SPREAD"


def main():
    import ray
    from ray.util.placement_group import placement_group

    with open(sys.argv[1], encoding="utf-8") as file:
        option = option_to_ask_for(json.load(file))
    ray.init()
    devices_per_node = 8
    group = placement_group(bundles_of(option, devices_per_node),
                            strategy=strategy_of(option, devices_per_node))
    ray.get(group.ready())
    # One actor for each bundle, in order: actor i runs `parplan-sidecar init --node-rank i`, then
    # starts the ranks of its node with the variables of rank-0.env, rank-1.env, ...


if __name__ == "__main__":
    main()
