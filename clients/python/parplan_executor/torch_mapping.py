"""Turns a plan into process groups and wrappers of torch.

    groups = make_groups(plan)
    rank = plan.rank(torch.distributed.get_rank())
    layers = [wrap_layer(module[index], plan, rank, index, groups)
              for index in local_layers(plan, rank)]

torch is imported when a function needs it, and owns all groups. Tensor parallelism is the model's
task: `rank.layer_groups(index).tensor` is the group that its column- and row-parallel matrices
need. Where layers have other numbers of replicas than the layer before, so is `gradient_scale`.
Error is raised for what torch cannot do as the plan says.
"""

from .library import Error, Recompute, Sharding


def make_groups(plan):
    """Returns torch's process groups by Group. All ranks of the job call it, after
    torch.distributed.init_process_group with the plan's number of ranks."""
    import torch.distributed as dist
    if dist.get_world_size() != plan.device_count:
        raise Error(0, "TOPOLOGY_MISMATCH", f"the plan is for {plan.device_count} ranks, the job "
                    f"has {dist.get_world_size()}")
    # new_group is collective: every rank makes all groups in one order, also those it is not in.
    return {group: dist.new_group(ranks=list(group.ranks)) for group in plan.groups()}


def local_layers(plan, rank):
    """Returns the numbers of this rank's layers, in order; those of a stage are consecutive."""
    return [index for index in range(plan.layer_count) if _is_on(plan.layer(index), rank.rank)]


def _is_on(layer, rank):
    return layer.first_rank <= rank < layer.first_rank + layer.rank_count


def gradient_scale(plan, index):
    """Returns the factor by which the gradient of the input of layer `index` is multiplied on its
    way back to the layer before.

    DDP and FSDP average over the ranks of their own layer. Without this factor layers with fewer
    replicas get a multiple of their gradient, which Adam hides, and clipping and SGD do not."""
    if index == 0:
        return 1.0
    before, layer = plan.layer(index - 1), plan.layer(index)
    return ((before.data_parallel_degree * before.context_parallel_degree) /
            (layer.data_parallel_degree * layer.context_parallel_degree))


def wrap_layer(module, plan, rank, index, process_groups, device_id=None):
    """Wraps the module of layer `index` for the recomputation and data parallelism of the plan.

    ZeRO-1 shards the optimizer, which is not part of a module: see `needs_sharded_optimizer`. FSDP
    needs `device_id` where it finds no accelerator (`torch.device("cpu")`)."""
    layer = plan.layer(index)
    if layer.recompute == Recompute.SELECTIVE:
        raise Error(0, "SPEC_INVALID",
                    f"layer {index}: selective recomputation must be done by the model")
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
    options = {} if device_id is None else {"device_id": device_id}
    return FullyShardedDataParallel(module, process_group=group, sharding_strategy=strategy,
                                    use_orig_params=True, **options)


def needs_sharded_optimizer(plan, index):
    """Returns whether torch.distributed.optim.ZeroRedundancyOptimizer must hold the layer's
    states."""
    return plan.layer(index).sharding == Sharding.OPTIMIZER
