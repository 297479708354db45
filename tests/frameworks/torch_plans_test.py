#!/usr/bin/env python3
"""Gives the files of random plans to PyTorch's schedules and to torchtitan's own classes.

usage: torch_plans_test.py --plans FOLDER

FOLDER is what exported_plans wrote. No process group is made: a schedule asks its stages for the
number of stages and ranks. Python must have torch and torchtitan.
"""

import argparse
import copy
import dataclasses
import logging
import os
import sys
import types
import unittest
from unittest import mock

import torch
from torch import nn
from torch.distributed.pipelining import Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B
from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime
from torch.distributed.tensor.experimental._context_parallel._attention import _cp_options
from torchtitan.config import ParallelismConfig
from torchtitan.config.manager import ConfigManager
from torchtitan.distributed import ParallelDims
from torchtitan.distributed.context_parallel import api as context_parallel
from torchtitan.distributed.pipeline_parallel import _split_module
from torchtitan.models.llama3.config_registry import llama3_debugmodel

from drawn_plans import drawn_plans

FLAGS = None
# The model of the plan that is read, by the names of torchtitan's configurations.
SIZES = types.SimpleNamespace()


def base():
    """Returns torchtitan's debug configuration with a model of the plan's sizes."""
    config = llama3_debugmodel()
    spec = copy.copy(config.model_spec)
    object.__setattr__(spec, "model", SIZES)
    return dataclasses.replace(config, model_spec=spec)


def set_sizes(plan):
    """Makes SIZES the configuration of the plan's model, as far as the exported module reads it."""
    definition = plan.definition(plan.decoders()[0].kind)
    heads = definition["attention_head_count"]
    SIZES.__dict__.update(
        dim=definition["hidden_size"],
        layers=[layer_of(plan.definition(layer.kind)) for layer in plan.decoders()],
        first_attention=types.SimpleNamespace(
            n_heads=heads, n_kv_heads=definition.get("key_value_head_count", heads),
            head_dim=definition.get("head_size")),
        vocab_size=plan.definition("embedding")["vocabulary_size"],
        enable_weight_tying=False)


def layer_of(definition):
    """Returns the parts of a layer by the names of torchtitan's TransformerBlock.Config and MoE."""
    part = types.SimpleNamespace

    def width(size):
        return part(w1=part(out_features=size)) if size else None

    if not definition.get("expert_count"):
        return part(feed_forward=width(definition["feed_forward_size"]), moe=None)
    moe = part(
        routed_experts=part(inner_experts=part(num_experts=definition["expert_count"],
                                               hidden_dim=definition["expert_feed_forward_size"])),
        router=part(top_k=definition["experts_per_token"]),
        shared_experts=width(definition.get("shared_expert_feed_forward_size")))
    return part(feed_forward=None, moe=moe)


def stages_of(plan, rank=0):
    """Returns what a schedule asks the stages of one rank for."""
    return [types.SimpleNamespace(stage_index=index, num_stages=plan.stage_count,
                                  group_size=plan.pipeline, group_rank=rank, has_backward=True,
                                  is_first=index == 0, is_last=index + 1 == plan.stage_count)
            for index in range(rank, plan.stage_count, plan.pipeline)]


def passes_of(order):
    """Returns the forward and backward passes of each rank as text."""
    return [[str(action) for action in order[rank] if action is not None and action.is_compute_op]
            for rank in sorted(order)]


def passes_by_torch(plan):
    """Returns the passes of each rank by PyTorch's own schedule of that name."""
    if plan.schedule == "INTERLEAVED":
        return passes_of(ScheduleInterleaved1F1B(stages_of(plan), plan.micro_batches)
                         .pipeline_order)
    made = ScheduleGPipe if plan.schedule == "GPIPE" else Schedule1F1B
    return [run_loops(made, plan, rank) for rank in range(plan.pipeline)]


def run_loops(made, plan, rank):
    """Returns the passes that the loops of a schedule of one stage a rank run on that rank."""
    ran = []
    stage = mock.MagicMock(stage_index=rank)
    for name in ("get_fwd_recv_ops", "get_fwd_send_ops", "get_bwd_recv_ops", "get_bwd_send_ops"):
        getattr(stage, name).side_effect = lambda *_: []
    stage.forward_one_chunk.side_effect = lambda index, *_, **__: ran.append(f"{rank}F{index}")
    stage.backward_one_chunk.side_effect = lambda index, **__: ran.append(f"{rank}B{index}")
    schedule = made.__new__(made)
    count = plan.micro_batches
    schedule.__dict__.update(
        _stage=stage, _num_stages=plan.stage_count, _n_microbatches=count, scale_grads=False,
        _finalize_gradients=True, _check_inputs=lambda *_: ([()] * count, [{}] * count),
        _initialize_stage=mock.MagicMock(), _maybe_compute_loss=mock.MagicMock(),
        _maybe_get_loss=mock.MagicMock(), _update_losses=mock.MagicMock())
    schedule._step_microbatches([()] * count, [{}] * count)
    return ran


class SchedulesTest(unittest.TestCase):
    def test_pytorch_reads_the_passes_of_every_random_plan(self):
        for program in ("torch-pipelining", "fsdp2", "torchtitan"):
            counts = {}
            plans = drawn_plans(FLAGS.plans, program)
            for plan in plans:
                with self.subTest(program=program, plan=plan.folder.name):
                    self.assertEqual(plan.has("schedule.csv"), plan.pipeline > 1)
                    if plan.pipeline == 1:
                        continue
                    schedule = _PipelineScheduleRuntime(stages_of(plan), plan.micro_batches)
                    # It adds messages, and would find ranks that wait for each other.
                    schedule._load_csv(str(plan.folder / "schedule.csv"))
                    self.assertEqual(
                        schedule.stage_index_to_group_rank,
                        {stage: stage % plan.pipeline for stage in range(plan.stage_count)})
                    self.assertEqual(passes_of(schedule.pipeline_order), passes_by_torch(plan))
                    counts[plan.schedule] = counts.get(plan.schedule, 0) + 1
            print(f"torch.distributed.pipelining: {sum(counts.values())} schedules of "
                  f"{len(plans)} plans of {program} read: {counts}", flush=True)
            self.assertGreaterEqual(len(counts), 2 if program == "torchtitan" else 3)


class TorchtitanTest(unittest.TestCase):
    def load(self, folder):
        """Returns the configuration that torchtitan makes of the exported module."""
        sys.modules.pop("parplan_config", None)
        sys.path.insert(0, str(folder))
        try:
            return ConfigManager().parse_args(["--module", "parplan_config", "--config", "plan"])
        finally:
            sys.path.remove(str(folder))

    def test_torchtitan_gathers_keys_and_values(self):
        """FlexAttention by a function of that name, other attention by PyTorch's default, which no
        setting of this release changes."""
        self.assertTrue(callable(context_parallel.flex_cp_allgather))
        self.assertEqual(_cp_options.rotate_method.name, "ALL_GATHER")
        names = [field.name for field in dataclasses.fields(ParallelismConfig)]
        self.assertIn("context_parallel_degree", names)
        self.assertFalse([name for name in names if "rotate" in name])

    def test_torchtitan_understands_every_random_plan(self):
        logging.disable(logging.WARNING)
        self.addCleanup(logging.disable, logging.NOTSET)
        os.environ["PARPLAN_TORCHTITAN_BASE"] = f"{__name__}:base"
        self.addCleanup(os.environ.pop, "PARPLAN_TORCHTITAN_BASE")
        counts = {"pipelines": 0, "sharded": 0, "context": 0, "experts": 0, "recomputed": 0}
        read = 0
        for plan in drawn_plans(FLAGS.plans, "torchtitan"):
            with self.subTest(plan=plan.folder.name):
                set_sizes(plan)
                config = self.load(plan.folder)
                # A model of another feed-forward width is refused.
                part = SIZES.layers[0].feed_forward
                if part is not None:
                    part.w1.out_features += 1
                    with self.assertRaisesRegex(ValueError, "the plan is for a model of"):
                        self.load(plan.folder)
                self.compare(config, plan)
                layer = plan.decoders()[0]
                counts["pipelines"] += plan.pipeline > 1
                counts["sharded"] += layer.zero > 0
                counts["context"] += layer.context > 1
                counts["experts"] += max(each.experts for each in plan.layers) > 1
                counts["recomputed"] += layer.recompute == "FULL"
                read += 1
        print(f"torchtitan: {read} plans read: {counts}", flush=True)
        for feature, count in counts.items():
            self.assertGreaterEqual(count, 5, feature)

    def compare(self, config, plan):
        layer = plan.decoders()[0]
        kinds = {(each.tensor, each.data, each.context, each.zero) for each in plan.layers}
        self.assertEqual(len(kinds), 1)
        parallelism, training = config.parallelism, config.training
        dims = ParallelDims.from_config(parallelism, plan.devices)
        self.assertEqual((dims.pp, dims.tp, dims.cp, dims.ep),
                         (plan.pipeline, layer.tensor, layer.context,
                          max(each.experts for each in plan.layers)))
        groups = layer.data * layer.context // layer.shards if layer.shards else 1
        self.assertEqual((dims.dp_replicate, dims.dp_shard),
                         (groups, layer.data // groups) if layer.zero > 0 else (layer.data, 1))
        self.assertEqual(parallelism.enable_sequence_parallel, layer.sequence)
        if layer.context > 1:
            self.assertEqual(layer.context_kind, "ALL_GATHER")
        self.assertEqual(parallelism.fsdp_reshard_after_forward,
                         "always" if layer.zero == 3 else "never")
        # A pipeline reduces gradients once a step, FSDP alone after each backward pass.
        if layer.zero > 0:
            self.assertIn(layer.zero, (1,) if plan.pipeline > 1 else (2, 3))
        # torchtitan takes a batch of each replica, and accumulates up to the whole one (trainer.py).
        replicas = dims.dp_replicate * dims.dp_shard
        self.assertEqual(training.global_batch_size, plan.batch)
        accumulated = plan.batch // (training.local_batch_size * replicas)
        in_pipeline = 1
        if plan.pipeline > 1:
            in_pipeline = (training.local_batch_size //
                           parallelism.pipeline_parallel_microbatch_size)
        self.assertEqual(accumulated * in_pipeline, plan.micro_batches)
        name = type(config.activation_checkpoint).__qualname__
        self.assertEqual(name, "FullAC.Config" if layer.recompute == "FULL" else "NoneType")
        self.assertEqual(training.mixed_precision_param,
                         "bfloat16" if plan.precision == "bf16" else "float32")
        if plan.pipeline > 1:
            self.expect_parts(parallelism.module_fqns_per_model_part, plan)

    def expect_parts(self, names, plan):
        """Its own function cuts a model of these modules into the stages of the plan."""
        model = nn.Module()
        model.tok_embeddings = nn.Identity()
        model.layers = nn.ModuleDict({str(i): nn.Identity() for i in range(len(plan.decoders()))})
        model.norm, model.lm_head = nn.Identity(), nn.Identity()
        layer = 0
        self.assertEqual(len(names), plan.stage_count)
        for own, count in zip(names, plan.stage_layer_counts()):
            part = _split_module(model, own)
            kinds = [each.kind for each in plan.layers[layer:layer + count]]
            decoders = [place - 1 for place in range(layer, layer + count)
                        if not plan.layers[place].is_end]
            self.assertEqual([int(key) for key in part.layers], decoders)
            self.assertEqual(part.tok_embeddings is not None, "embedding" in kinds)
            self.assertEqual(part.lm_head is not None, "head" in kinds)
            self.assertEqual(part.norm is not None, "head" in kinds)
            layer += count


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--plans", required=True)
    FLAGS, rest = parser.parse_known_args()
    torch.set_num_threads(1)
    unittest.main(argv=[sys.argv[0], *rest])
