#!/usr/bin/env python3
"""Gives arguments of random plans to megatron-core's own configuration classes.

usage: megatron_config_test.py --plans FOLDER

FOLDER is what exported_plans wrote. Runs in a virtual environment with megatron-core and PyTorch.
TransformerConfig checks every argument that it has against the others, and reads the layout with
PipelineParallelLayerLayout.from_str; RankGenerator makes the groups of ranks, and
ConstantNumMicroBatchesCalculator counts micro-batches. megatron-core has no parser of arguments:
`RENAMED` are those whose field has another name (megatron/training/arguments.py).
"""

import argparse
import dataclasses
import sys
import unittest
import warnings

import torch
from megatron.core.distributed import DistributedDataParallelConfig
from megatron.core.num_microbatches_calculator import ConstantNumMicroBatchesCalculator
from megatron.core.parallel_state import RankGenerator
from megatron.core.transformer.transformer_config import MLATransformerConfig, TransformerConfig

from drawn_plans import drawn_plans

FLAGS = None
RENAMED = {
    "swiglu": "gated_linear_unit", "num-experts": "num_moe_experts",
    "microbatch-group-size-per-virtual-pipeline-stage": "microbatch_group_size_per_vp_stage",
}
# Arguments of the training script, none of which these classes have.
OF_THE_SCRIPT = {
    "seq-length", "max-position-embeddings", "vocab-size", "optimizer", "micro-batch-size",
    "global-batch-size", "untie-embeddings-and-output-weights", "group-query-attention",
    "ckpt-format", "disable-bias-linear", "grad-reduce-in-bf16", "accumulate-allreduce-grads-in-fp32",
}
MODULES = {"core_attn": "CORE_ATTENTION", "moe_act": "EXPERT_ACTIVATION", "layernorm": "NORMS",
           "mla_up_proj": "LATENT_UP_PROJECTION", "mlp": "FEED_FORWARD", "moe": "EXPERTS",
           "shared_experts": "SHARED_EXPERTS"}
STRATEGIES = {"optim_grads": 2, "optim_grads_params": 3}
CONTEXT_KINDS = {"p2p": "RING", "a2a": "ULYSSES", "allgather": "ALL_GATHER", "a2a+p2p": "RING"}


def arguments_of(text):
    """Returns name and value of each argument: a text, or a list of them, or None."""
    found, last = {}, None
    for line in text.splitlines():
        if not line.startswith("--"):
            found[last] = [*(found[last] or []), line]
            continue
        last, has_value, value = line.removeprefix("--").partition("=")
        if last in found:
            raise AssertionError(f"--{last} is written twice")
        found[last] = value if has_value else None
    return found


def typed(field, value):
    """Returns a value as the parser of the script would, by the type of its field."""
    if value is None:
        return True
    if isinstance(value, list):
        return [int(one) if one.isdigit() else one for one in value]
    if field == "recompute_modules":
        return [value]
    if field == "window_size":
        return tuple(int(one) for one in value.split(","))
    if field in ("moe_layer_freq", "window_attn_skip_freq"):
        return eval(value)  # pylint: disable=eval-used
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            pass
    return value


def fields_of(made):
    return {field.name for field in dataclasses.fields(made)}


def configurations(arguments):
    """Returns the model's configuration, that of data parallelism, and the names neither has."""
    is_latent = "multi-latent-attention" in arguments
    made = MLATransformerConfig if is_latent else TransformerConfig
    model, data, left = {"add_bias_linear": "disable-bias-linear" not in arguments}, {}, set()
    for name, value in arguments.items():
        field = RENAMED.get(name, name.replace("-", "_"))
        if field in fields_of(made):
            model[field] = typed(field, value)
        elif field in fields_of(DistributedDataParallelConfig):
            data[field] = typed(field, value)
        else:
            left.add(name)
    model["params_dtype"] = (torch.bfloat16 if "bf16" in arguments else
                             torch.float16 if "fp16" in arguments else torch.float32)
    model["pipeline_dtype"] = model["params_dtype"]
    if is_latent and "q-lora-rank" not in arguments:
        # The script's default; that of the class compresses queries.
        model["q_lora_rank"] = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return made(**model), DistributedDataParallelConfig(**data), left


class MegatronConfigTest(unittest.TestCase):
    def test_understands_every_random_plan(self):
        counts = {"layouts": 0, "interleaved": 0, "latent": 0, "modules": 0, "block": 0}
        read = 0
        for plan in drawn_plans(FLAGS.plans, "megatron"):
            with self.subTest(plan=plan.folder.name):
                arguments = arguments_of(plan.text("megatron.args"))
                config, data, left = configurations(arguments)
                self.assertLessEqual(left, OF_THE_SCRIPT)
                self.expect_model(config, plan)
                self.expect_stages(config, plan)
                self.expect_batch(arguments, plan)
                self.expect_groups(config, plan)
                self.expect_strategy(config, data, plan)
                self.expect_recomputation(config, plan)
                counts["layouts"] += config.pipeline_model_parallel_layout is not None
                counts["interleaved"] += plan.virtual_stages > 1
                counts["latent"] += config.multi_latent_attention
                counts["modules"] += plan.decoders()[0].recompute == "MODULES"
                counts["block"] += config.recompute_method == "block"
                read += 1
        print(f"megatron-core: {read} plans read: {counts}", flush=True)
        for feature, count in counts.items():
            self.assertGreaterEqual(count, 15, feature)

    def expect_model(self, config, plan):
        decoders = [layer for layer in plan.decoders() if not layer.kind.startswith("prediction")]
        self.assertEqual(config.num_layers, len(decoders))
        self.assertEqual(config.mtp_num_layers or 0, len(plan.decoders()) - len(decoders))
        has_experts = [layer.kind.startswith("experts") for layer in decoders]
        if not any(has_experts):
            self.assertIsNone(config.num_moe_experts)
        elif all(has_experts):
            self.assertEqual(config.moe_layer_freq, 1)
        else:
            self.assertEqual(config.moe_layer_freq, [int(has) for has in has_experts])
        windows = [layer.kind.endswith("-window") for layer in decoders]
        self.assertEqual(config.window_size is not None, any(windows))
        if any(windows) and not all(windows):
            self.assertEqual(config.window_attn_skip_freq, [int(has) for has in windows])
        self.assertEqual(config.bf16, plan.precision == "bf16")
        self.assertEqual(config.fp16, plan.precision == "fp16")
        definition = plan.definition(decoders[0].kind)
        self.assertEqual(config.hidden_size, definition["hidden_size"])
        self.assertEqual(config.num_attention_heads, definition["attention_head_count"])

    def expect_stages(self, config, plan):
        self.assertEqual(config.pipeline_model_parallel_size, plan.pipeline)
        layout = config.pipeline_model_parallel_layout
        if plan.pipeline == 1:
            self.assertIsNone(layout)
            return
        self.assertEqual(layout.virtual_pipeline_model_parallel_size, plan.virtual_stages)
        names = {"embedding": "embedding", "head": "loss"}
        for stage in range(plan.stage_count):
            expected = [names.get(layer.kind, "mtp" if layer.kind.startswith("prediction")
                                  else "decoder")
                        for layer in plan.layers if layer.stage == stage]
            theirs = layout.layout[stage % plan.pipeline][stage // plan.pipeline]
            self.assertEqual([layer.name for layer in theirs], expected, stage)
        if plan.virtual_stages > 1:
            self.assertEqual(config.microbatch_group_size_per_vp_stage,
                             plan.group or plan.pipeline)

    def expect_batch(self, arguments, plan):
        layer = plan.layers[0]
        calculator = ConstantNumMicroBatchesCalculator(
            int(arguments["global-batch-size"]), int(arguments["micro-batch-size"]), layer.data,
            decrease_batch_size_if_needed=False, rank=0)
        self.assertEqual(calculator.get(), plan.micro_batches)
        self.assertEqual(calculator.get_current_global_batch_size(), plan.batch)
        self.assertEqual(calculator.get_micro_batch_size(), plan.micro_batch_per_rank())

    def expect_groups(self, config, plan):
        """The default order of ranks makes the groups that the plan has."""
        tensor, context = config.tensor_model_parallel_size, config.context_parallel_size
        pipeline = config.pipeline_model_parallel_size
        width = plan.devices // pipeline
        data = width // tensor // context
        layer = plan.decoders()[0]
        self.assertEqual((tensor, context, data), (layer.tensor, layer.context, layer.data))
        dense = RankGenerator(tp=tensor, ep=1, dp=data, pp=pipeline, cp=context,
                              order="tp-cp-ep-dp-pp")
        self.assertEqual(dense.get_ranks("tp")[0], list(range(tensor)))
        self.assertEqual(dense.get_ranks("cp")[0], list(range(0, tensor * context, tensor)))
        self.assertEqual(dense.get_ranks("dp")[0], list(range(0, width, tensor * context)))
        self.assertEqual(dense.get_ranks("pp")[0], list(range(0, plan.devices, width)))
        spread = max(layer.experts for layer in plan.layers)
        self.assertEqual(config.expert_model_parallel_size, spread)
        if config.num_moe_experts is None:
            return
        folded = max(layer.expert_tensor for layer in plan.layers) or tensor
        self.assertEqual(config.expert_tensor_parallel_size, folded)
        experts = RankGenerator(tp=folded, ep=spread, dp=width // folded // spread, pp=pipeline,
                                cp=1, order="tp-cp-ep-dp-pp")
        self.assertEqual(experts.world_size, plan.devices)
        self.assertEqual(experts.get_ranks("ep")[0], list(range(0, folded * spread, folded)))

    def expect_strategy(self, config, data, plan):
        layer = plan.decoders()[0]
        self.assertEqual(config.sequence_parallel, layer.sequence and layer.tensor > 1)
        zero = (STRATEGIES[data.data_parallel_sharding_strategy] if data.use_megatron_fsdp
                else int(data.use_distributed_optimizer))
        self.assertEqual(zero, layer.zero)
        groups = layer.data * layer.context // layer.shards if layer.shards else 1
        self.assertEqual(data.num_distributed_optimizer_instances, groups)
        if layer.context == 1:
            return
        self.assertEqual(CONTEXT_KINDS[config.cp_comm_type], layer.context_kind)
        sizes = config.hierarchical_context_parallel_sizes
        self.assertEqual(config.cp_comm_type == "a2a+p2p", layer.exchange > 1)
        if layer.exchange > 1:
            self.assertEqual(sizes, [layer.exchange, layer.context // layer.exchange])

    def expect_recomputation(self, config, plan):
        granularity = config.recompute_granularity
        first = plan.decoders()[0]
        if granularity is None:
            self.assertTrue(all(layer.recompute == "NONE" for layer in plan.layers))
        elif granularity == "selective":
            modules = [MODULES[name] for name in config.recompute_modules]
            if first.recompute == "SELECTIVE":
                self.assertEqual(modules, ["CORE_ATTENTION"])
            else:
                self.assertEqual(first.recompute, "MODULES")
                self.assertEqual(sorted(modules), sorted(first.modules))
        else:
            count = config.recompute_num_layers if config.recompute_method == "block" else None
            for stage in range(plan.stage_count):
                own = [layer for layer in plan.decoders() if layer.stage == stage]
                recomputed = [layer.recompute == "FULL" for layer in own]
                expected = [count is None or
                            (place < count and not layer.kind.startswith("prediction"))
                            for place, layer in enumerate(own)]
                self.assertEqual(recomputed, expected, stage)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--plans", required=True)
    FLAGS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])
