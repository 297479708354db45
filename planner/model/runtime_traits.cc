#include "planner/model/runtime_traits.h"

#include <algorithm>
#include <vector>

#include "absl/strings/match.h"

namespace parplan {
namespace {

// Bucket of programs that sum gradients in buckets: about 40 million gradients of 32 bits. In
// larger ones more layers share a latency. Not measured.
constexpr Bytes kUsualBucket = Bytes::Of(int64_t{160} << 20);

// Megatron-LM as of SC'21 and its successors with Apex: unfused attention with
// dropout, gradients all-reduced in one go after the last backward pass.
RuntimeTraits Megatron2021() {
  RuntimeTraits traits;
  traits.runtime_id = "megatron-2021";
  traits.logits_in_backward_pass = false;
  traits.regathers_embedding = true;
  traits.gradient_bucket = kUsualBucket;
  // This holds for fp16; bf16 training sums up in 32 bits (accumulate_allreduce_grads_in_fp32).
  traits.gradient_bytes = 2;
  traits.gradient_message_bytes = 2;
  traits.fused_gradient_accumulation = false;
  traits.widens_gradients_in_step = true;
  traits.sequence_parallel = false;
  traits.attention_kernel = AttentionKernel::kUnfused;
  // With --use-flash-attn its ParallelAttention does not ask for `checkpoint_core_attention`
  // (legacy/model/transformer.py).
  traits.repeats_fused_attention = false;
  traits.attention_dropout = true;
  traits.hidden_dropout = true;
  traits.overlap_gradient_sync = false;
  traits.overlap_parameter_gather = false;
  traits.blocking_pipeline_messages = true;
  traits.fused_cross_entropy = false;
  // Fitted together with the launch interval (docs/cost-model-time.md).
  traits.forward_launch_ratio = 8.0;
  traits.scattered_pipeline_messages = true;
  traits.loss_bytes_per_logit = 10;
  return traits;
}

// Megatron-LM 3.0, which measured Korthikanti et al.: backward collectives beside weight
// gradients (their section 4.2.2; LinearWithGradAccumulationAndAsyncCommunication).
RuntimeTraits Megatron2022() {
  RuntimeTraits traits = Megatron2021();
  traits.runtime_id = "megatron-2022";
  traits.tensor_parallel_overlap = TensorParallelOverlap::kWeightGradients;
  return traits;
}

// Megatron's layers on DeepSpeed's engine, with 16-bit gradients.
RuntimeTraits MegatronDeepSpeed() {
  RuntimeTraits traits = Megatron2021();
  traits.runtime_id = "megatron-deepspeed";
  traits.gradient_bytes = 2;
  traits.gradient_message_bytes = 2;
  traits.keep_stage_outputs = true;
  // TrainSchedule.steps (runtime/pipe/schedule.py) receives an activation, then sends a gradient;
  // the stage before sends the one, then receives the other.
  traits.serial_pipeline_messages = true;
  traits.all_reduces_sharded_gradients = true;
  traits.flatten_gradient_buckets = true;
  // 5e8 elements (reduce_bucket_size and MEMORY_OPT_ALLREDUCE_SIZE).
  traits.gradient_bucket = Bytes::Of(1'000'000'000);
  return traits;
}

// Megatron Core with Transformer Engine.
RuntimeTraits MegatronCore() {
  RuntimeTraits traits;
  traits.runtime_id = "megatron-core";
  traits.logits_in_backward_pass = false;
  traits.regathers_embedding = true;
  traits.gradient_bucket = kUsualBucket;
  traits.gradient_bytes = 4;
  traits.widens_gradients_in_step = true;
  traits.gradient_message_bytes = 4;
  traits.attention_output_copied = true;
  // Transformer Engine takes cuDNN's kernels from Hopper on.
  traits.flash_kernel = FlashKernel::kNative;
  traits.tensor_parallel_overlap = TensorParallelOverlap::kWeightGradients;
  traits.forward_launch_ratio = 5.0;
  // MoEAlltoAllTokenDispatcher.preprocess: a synchronization before the exchange of tokens.
  traits.reads_expert_counts = true;
  // From release 0.13 on TEGroupedMLP and SequentialMLP weigh what the activation function returns
  // (weighted_bias_swiglu_impl, moe/experts.py) and token dispatchers combine without weights, so
  // permutations and exchanges save row numbers only (moe/moe_utils.py, moe/token_dispatcher.py).
  traits.keeps_exchanged_tokens = false;
  // TransformerBlock.forward clones its input if it has no layers.
  traits.runs_empty_stages = true;
  traits.fused_gradient_accumulation = true;
  traits.keeps_placeholder_gradients = true;
  traits.attention_dropout = true;
  traits.hidden_dropout = true;
  return traits;
}

// Megatron Core with `--fp8-param-gather`.
RuntimeTraits MegatronCoreFp8() {
  RuntimeTraits traits = MegatronCore();
  traits.runtime_id = "megatron-core-fp8";
  traits.quantised_parameters = true;
  return traits;
}

// PyTorch FSDP: sharded parameters, 16-bit gradients scattered layer by layer.
RuntimeTraits Fsdp() {
  RuntimeTraits traits;
  traits.runtime_id = "fsdp";
  traits.logits_in_backward_pass = false;
  traits.regathers_embedding = true;
  traits.gradient_bucket = kUsualBucket;
  // torch.utils.checkpoint, use_reentrant=False.
  traits.recompute_stops_early = true;
  traits.fused_elementwise = false;
  traits.forward_launch_ratio = 5.0;
  traits.gradient_bytes = 4;
  traits.fused_gradient_accumulation = false;
  traits.sequence_parallel = false;
  traits.gradient_message_bytes = 2;
  traits.loss_bytes_per_logit = 10;
  traits.pad_vocabulary = false;
  traits.keep_16_bit_parameters = false;
  // `foreach_reduce` of PyTorch sums between replicas unless the trainer asks otherwise, by
  // `set_requires_all_reduce`.
  traits.sums_shards_each_pass = true;
  return traits;
}

// llm-foundry and Composer as of their published tables: `attn_impl: triton`, decoupled_adamw
// operation by operation, PyTorch 1.13 and 2.0, fused cross-entropy on 16-bit logits.
RuntimeTraits LlmFoundry() {
  RuntimeTraits traits = Fsdp();
  traits.runtime_id = "llm-foundry";
  traits.flash_kernel = FlashKernel::kFirst;
  traits.fused_optimizer = false;
  traits.recompute_stops_early = false;
  traits.fp32_logits = false;
  return traits;
}

// torchtitan: `mixed_precision_reduce` is float32. Its float8 gathers quantised parameters
// (`enable_fsdp_float8_all_gather`), and its selective checkpointing repeats operators
// (`SelectiveAC` in distributed/activation_checkpoint.py).
RuntimeTraits Torchtitan() {
  RuntimeTraits traits = Fsdp();
  traits.runtime_id = "torchtitan";
  traits.gradient_message_bytes = 4;
  traits.quantised_parameters = true;
  traits.selective_recompute = SelectiveRecompute::kOperators;
  return traits;
}

// NeMo AutoModel with Transformer Engine's norms, linear maps and attention (`TE` in its table).
RuntimeTraits NemoAutomodel() {
  RuntimeTraits traits = Fsdp();
  traits.runtime_id = "nemo-automodel";
  traits.flash_kernel = FlashKernel::kNative;
  traits.fused_elementwise = true;
  return traits;
}

// Megatron Core as Megatron-Bridge and NeMo configure it (src/megatron/bridge/recipes and
// training/mixed_precision.py): no dropout, grouped products of Transformer Engine, which are one
// kernel an expert, 8-bit parameters where the recipe has them (`fp8_param_gather`), and, as in all
// of its performance recipes, 16-bit gradients (`grad_reduce_in_fp32 = False`).
RuntimeTraits MegatronBridge() {
  RuntimeTraits traits = MegatronCore();
  traits.runtime_id = "megatron-bridge";
  traits.attention_dropout = false;
  traits.hidden_dropout = false;
  traits.launches_each_expert = true;
  traits.quantised_parameters = true;
  traits.gradient_bytes = 2;
  traits.gradient_message_bytes = 2;
  return traits;
}

// nanotron (huggingface/nanotron): FlashAttention-2 and Triton's norms, other operations one by
// one. `FP32GradientAccumulator` (optim/gradient_accumulator.py) adds the 16-bit gradients of all
// layers to a 32-bit buffer behind each backward pass, and frees them. Without ZeRO
// DistributedDataParallel reduces the buffer in buckets of 25 MiB (`ddp_bucket_cap_mb`) during the
// last pass; with ZeRO-1 there is none (`make_ddp` in trainer.py), and one all-reduce of the whole
// buffer follows that pass (`sync_gradients_across_dp` with `reduce_scatter=False`). ZeRO-1 gathers
// parameters behind its step, and `all_gather_coalesced` (distributed.py) copies each rank's part
// of each to its place. Its engine of stages waits for messages
// (parallel/pipeline_parallel/engine.py).
RuntimeTraits Nanotron() {
  RuntimeTraits traits = MegatronCore();
  traits.runtime_id = "nanotron";
  // Not known of it: no published run of it has experts.
  traits.reads_expert_counts = false;
  traits.keeps_exchanged_tokens = true;
  traits.runs_empty_stages = false;
  traits.flash_kernel = FlashKernel::kSecond;
  traits.attention_dropout = false;
  traits.hidden_dropout = false;
  traits.attention_output_copied = false;
  traits.fused_elementwise = false;
  traits.fused_cross_entropy = false;
  traits.loss_bytes_per_logit = 12;
  traits.fused_gradient_accumulation = false;
  traits.keeps_placeholder_gradients = false;
  traits.widens_gradients_in_step = false;
  traits.separate_gradient_buffer = true;
  traits.frees_gradients_after_pass = true;
  traits.all_reduces_sharded_gradients = true;
  traits.sums_sharded_states_at_end = true;
  traits.gradient_bucket = Bytes::Of(int64_t{25} << 20);
  traits.gathers_parameters_in_step = true;
  traits.copies_gathered_parts = true;
  traits.blocking_pipeline_messages = true;
  traits.pad_vocabulary = false;
  return traits;
}

// DeepSpeed 0.19 with models of PyTorch modules, which ds_config.json of the export configures
// (exports/deepspeed_plan_export.cc). docs/exports.md names the source of each trait.
RuntimeTraits DeepSpeed() {
  // Modules, attention, loss and checkpoints are PyTorch's.
  RuntimeTraits traits = Fsdp();
  traits.runtime_id = "deepspeed";
  // 16-bit weights beside fp32 masters; gradients are summed in 16 bits and widened in the step.
  traits.keep_16_bit_parameters = true;
  traits.gradient_bytes = 2;
  traits.widens_gradients_in_step = true;
  traits.flatten_gradient_buckets = true;
  traits.overlaps_only_sharded_states = true;
  // MiCS (`runtime/zero/mics.py`) sums between groups at the boundary of accumulation.
  traits.sums_shards_each_pass = false;
  traits.gathers_parameters_in_step = true;
  // Its hooks fetch and release the parameters of each module.
  traits.gathers_tables_late = true;
  // Layers that AutoTP replaces.
  traits.reduces_each_projection = true;
  traits.whole_untied_tables = true;
  // Its pipeline engine.
  traits.keep_stage_outputs = true;
  traits.blocking_pipeline_messages = true;
  traits.serial_pipeline_messages = true;
  return traits;
}

// Accelerate 1.15 with models of transformers, split by their own plans of tensors
// (`tp_plan="auto"`; integrations/tensor_parallel.py). docs/cost-model.md names the source of each
// trait.
RuntimeTraits Accelerate() {
  RuntimeTraits traits = Fsdp();
  traits.runtime_id = "accelerate";
  // Each `colwise` module makes its input a DTensor of its own, whose gradient is summed in it.
  traits.reduces_each_projection = true;
  // `lm_head` is `colwise_gather_output`, and the loss reads all logits behind it.
  traits.gathers_logits = true;
  // `embed_tokens` is in no plan unless it is tied, and `embedding_rowwise` then.
  traits.whole_untied_tables = true;
  return traits;
}

// `parplan.torch.apply` with eager modules (clients/python/parplan/torch): DTensor, `fully_shard`
// and torch.distributed.pipelining of PyTorch 2.15. docs/cost-model.md names the source of each
// trait.
RuntimeTraits Torch() {
  RuntimeTraits traits = Fsdp();
  traits.runtime_id = "torch";
  // One message a layer, in 32 bits.
  traits.gradient_bucket = Bytes();
  traits.gradient_message_bytes = 4;
  traits.widens_ring_gradients = true;
  traits.sums_whole_gradients_at_end = true;
  // It calls `set_requires_all_reduce` (clients/python/parplan/torch/data_parallel.py).
  traits.sums_shards_each_pass = false;
  traits.keeps_gathered_inputs = true;
  traits.repeats_last_sum = false;
  traits.gathers_logits = true;
  traits.sums_partial_gradients = true;
  traits.exchanges_layouts = true;
  traits.expert_exchange = ExpertExchange::kRows;
  traits.shards_tied_ends_as_one = true;
  traits.sums_loss = true;
  traits.loss_bytes_per_logit = 12;
  traits.measures_saved_tensors = true;
  traits.shards_parameters_between_steps = true;
  traits.makes_gradients_in_step = true;
  // In ten simulated plans of a GPT and a Llama (docs/measurements/gpu.md) free blocks are 0.55 to
  // 1.05 of the largest tensor. With 0.7 the worst peak among them is off by 2.3 %, with 0.6 or 0.8
  // by more.
  traits.free_block_share = 0.7;
  traits.recomputes_16_bit_parameters = true;
  // Embedding and head are units of `fully_shard` of their own.
  traits.gathers_tables_late = true;
  // `PipelineStage.fwd_cache`.
  traits.keep_stage_outputs = true;
  // `stage_backward_input` and `stage_backward_weight`, between which `retain_graph` keeps all.
  traits.splits_backward = true;
  return traits;
}

// The same with layers that torch.compile has compiled.
RuntimeTraits TorchCompile() {
  RuntimeTraits traits = Torch();
  traits.runtime_id = "torch-compile";
  // Inductor makes one kernel of neighbouring operations, and one node of autograd of a layer.
  traits.fused_elementwise = true;
  traits.splits_backward = false;
  return traits;
}

// `parplan-exec` on GPUs: its own arrays, gathers and scatters beside the passes
// (`TrainerSetting::communicates_ahead`), and cuDNN's attention.
RuntimeTraits ParplanExec() {
  RuntimeTraits traits = ExecutorTraits();
  traits.runtime_id = "parplan-exec";
  traits.flash_kernel = FlashKernel::kNative;
  traits.scatters_gradients_in_line = false;
  traits.scatters_beside_next_layer = true;
  traits.overlap_parameter_gather = true;
  return traits;
}

}  // namespace

absl::Span<const RuntimeTraits> KnownRuntimes() {
  static const auto* const runtimes = new std::vector<RuntimeTraits>{
      RuntimeTraits(), Megatron2021(),   Megatron2022(),  MegatronDeepSpeed(), MegatronCore(),
      Fsdp(),          DeepSpeed(),      Torch(),         TorchCompile(),      MegatronBridge(),
      Nanotron(),      Torchtitan(),     NemoAutomodel(), LlmFoundry(),        Accelerate(),
      ParplanExec(),   MegatronCoreFp8()};
  return *runtimes;
}

const RuntimeTraits* FindRuntime(absl::string_view runtime_id) {
  const absl::Span<const RuntimeTraits> runtimes = KnownRuntimes();
  const auto* const found = std::find_if(
      runtimes.begin(), runtimes.end(),
      [runtime_id](const RuntimeTraits& traits) { return traits.runtime_id == runtime_id; });
  return found == runtimes.end() ? nullptr : found;
}

RuntimeTraits ExecutorTraits() {
  RuntimeTraits traits;
  traits.reuses_activations = true;
  // Products add to sums of 32 bits, which are what ranks exchange
  // (executor/trainer/layer_state.h).
  traits.gradient_bytes = 4;
  traits.gradient_message_bytes = 4;
  traits.gathers_tables_late = true;
  traits.holds_messages_sent = true;
  traits.scatters_gradients_in_line = true;
  traits.overlap_parameter_gather = false;
  traits.fp32_logits = false;
  traits.pad_vocabulary = false;
  return traits;
}

RuntimeTraits TraitsOn(const RuntimeTraits& traits, absl::string_view device_kind) {
  if (!absl::StartsWith(device_kind, "CPU ")) return traits;
  if (traits == RuntimeTraits()) return ExecutorTraits();
  RuntimeTraits on_processors = traits;
  if (traits == ParplanExec()) {
    on_processors = ExecutorTraits();
    on_processors.runtime_id = traits.runtime_id;
  }
  on_processors.free_block_share = 0.0;
  return on_processors;
}

}  // namespace parplan
