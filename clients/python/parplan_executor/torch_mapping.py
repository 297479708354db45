"""A plan in torch's words. torch is imported where it is used, and owns all groups.

Tensor parallelism is the model's: `layer_groups(...).tensor` is the group its column- and
row-parallel matrices need. What torch cannot do as the plan says is refused.
"""

from .library import Error, Recompute, Sharding


def make_groups(plan):
    """torch's process group of every group of the plan, by Group. All ranks of the job call it,
    after torch.distributed.init_process_group with the plan's number of ranks."""
    import torch.distributed as dist
    if dist.get_world_size() != plan.device_count:
        raise Error(0, "TOPOLOGY_MISMATCH", f"the plan is for {plan.device_count} ranks, the job "
                    f"has {dist.get_world_size()}")
    # Every rank makes all groups in one order, also those it is not in.
    return {group: dist.new_group(ranks=list(group.ranks)) for group in plan.groups()}


def local_layers(plan, rank):
    """Layers of this rank, in order; those of each stage follow one another."""
    return [index for index in range(plan.layer_count) if _is_on(plan.layer(index), rank.rank)]


def _is_on(layer, rank):
    return layer.first_rank <= rank < layer.first_rank + layer.rank_count


def wrap_layer(module, plan, rank, index, process_groups):
    """The module of layer `index` on this rank, recomputed and data-parallel as the plan says.

    ZeRO-1 shards the optimizer, which is not the module's: see `needs_sharded_optimizer`."""
    layer = plan.layer(index)
    if layer.recompute == Recompute.SELECTIVE:
        raise Error(0, "SPEC_INVALID", f"layer {index}: attention alone is recomputed by the model")
    if layer.recompute == Recompute.FULL:
        from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
            CheckpointImpl, checkpoint_wrapper)
        module = checkpoint_wrapper(module, checkpoint_impl=CheckpointImpl.NO_REENTRANT)
    gradient = rank.layer_groups(index).gradient
    if gradient is None:
        return module
    group = process_groups[gradient]
    if layer.sharding in (Sharding.NONE, Sharding.OPTIMIZER):
        from torch.nn.parallel import DistributedDataParallel
        return DistributedDataParallel(module, process_group=group)
    from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy
    strategy = (ShardingStrategy.FULL_SHARD if layer.sharding == Sharding.PARAMETERS else
                ShardingStrategy.SHARD_GRAD_OP)
    return FullyShardedDataParallel(module, process_group=group, sharding_strategy=strategy,
                                    use_orig_params=True)


def needs_sharded_optimizer(plan, index):
    """Whether torch.distributed.optim.ZeroRedundancyOptimizer is to hold the layer's states."""
    return plan.layer(index).sharding == Sharding.OPTIMIZER
