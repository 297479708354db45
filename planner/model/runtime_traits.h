// The properties of a training program on which time and memory depend. Questions name a program
// (`PlanningRules::runtime`), and planner/cost and planner/check ask its traits.

#ifndef PARPLAN_PLANNER_MODEL_RUNTIME_TRAITS_H_
#define PARPLAN_PLANNER_MODEL_RUNTIME_TRAITS_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/units.h"

namespace parplan {

// The form in which attention is computed.
enum class AttentionKernel {
  // Scores, softmax and dropout are matrices of sequence x sequence in memory.
  kUnfused = 1,
  // FlashAttention and its kin: scores never leave the chip.
  kFlash = 2,
};

// Generations of fused attention, which reach different shares of the matrix units' rate.
enum class FlashKernel {
  // FlashAttention 1 and the first kernel in Triton.
  kFirst = 1,
  // FlashAttention-2, and with it PyTorch's scaled_dot_product_attention.
  kSecond = 2,
  // Written for the device: FlashAttention-3, cuDNN (Transformer Engine).
  kNative = 3,
};

// The operations that selective recomputation repeats.
enum class SelectiveRecompute {
  // Attention from the scores to their product with the values (Korthikanti et al.).
  kAttention = 1,
  // All but fused attention and every second linear map (torchtitan, `selective` with `op`: the
  // outputs of attention and of the 1st, 3rd, 5th, ... product are saved).
  kOperators = 2,
};

// How tokens reach experts that ranks share.
enum class ExpertExchange {
  // Each rank sends a copy of a token to each of its experts, and no numbers are priced.
  kTokens = 1,
  // Tensor-parallel ranks first make tokens, numbers of experts and weights whole. Ranks then
  // exchange how many tokens they send, the numbers of the experts, and the tokens
  // (clients/python/parplan/torch/experts.py). The gradients of an expert that one rank of its
  // layer has alone travel with the rest of the layer.
  kRows = 2,
  // A token travels once to each rank that has some of its experts, which copies and sorts the
  // tokens in the same kernel (DeepEP and HybridEP: DeepSeek-V3, arXiv 2412.19437, section 3.2.2).
  kOnceARank = 3,
};

// The computation that tensor-parallel collectives run beside. Each value includes those before it.
enum class TensorParallelOverlap : uint8_t {
  kNone,
  // In the backward pass the products for weight gradients.
  kWeightGradients,
  // In both passes of sequence-parallel dense layers, part by part, the products that read what is
  // gathered or write what is scattered (Transformer Engine's user buffers).
  kProducts,
};

// The traits of one training program. The defaults are those of parplan's own executor on GPUs,
// except for gradients in bf16, which it sums and sends in 4 bytes, and for the logits
// (docs/adr/0031-what-the-review-of-cuda-left.md).
struct RuntimeTraits {
  // The name by which questions and profiles name the program.
  std::string runtime_id = "parplan";

  AttentionKernel attention_kernel = AttentionKernel::kFlash;
  FlashKernel flash_kernel = FlashKernel::kSecond;
  // Dropout of attention scores and of the residual stream; each keeps a mask of one byte per
  // element.
  bool attention_dropout = false;
  bool hidden_dropout = false;
  // Bias, activation function, dropout and residual addition are one kernel each
  // instead of one for every operation.
  bool fused_elementwise = true;
  // Scale, mask and softmax are one kernel (unfused attention only).
  bool fused_softmax = true;
  // The loss is two kernels each way instead of one for every operation.
  bool fused_cross_entropy = true;
  // The head computes its logits at the beginning of its backward pass instead of keeping them
  // since the forward pass; two of their sums are then all-reduced together.
  bool logits_in_backward_pass = true;
  // The optimizer updates a parameter in one kernel instead of one for every operation.
  bool fused_optimizer = true;
  SelectiveRecompute selective_recompute = SelectiveRecompute::kAttention;
  // `SelectiveRecompute::kAttention` runs fused attention again, with the ring around it, and frees
  // what it keeps for its backward pass. Otherwise it leaves fused attention alone.
  bool repeats_fused_attention = true;
  // Full recomputation ends with the last tensor the backward pass needs, so the layer's last
  // linear map is not repeated (PyTorch's non-reentrant checkpoints since 2.1).
  bool recompute_stops_early = false;
  // Products add weight gradients to the buffer themselves.
  bool fused_gradient_accumulation = true;
  // Such products return to autograd a tensor of the same shape that nothing reads
  // (memory only). One is kept for each shape of a linear map (Transformer Engine, module/base.py,
  // `get_dummy_wgrad`); the head's exists while it runs (Megatron Core, tensor_parallel/layers.py,
  // `LinearWithGradAccumulationAndAsyncCommunication`).
  bool keeps_placeholder_gradients = false;

  // Bytes of one element of the buffer in which gradients are summed up: 2 or 4. Under fp32 it is 4
  // whatever this says, and so are the bytes of messages below.
  int gradient_bytes = 2;
  // The optimizer makes fp32 copies of 16-bit gradients before it steps.
  bool widens_gradients_in_step = false;
  // Under mixed precision gradients exist twice: as the backward pass wrote them, and in the
  // buffer.
  bool separate_gradient_buffer = false;
  // Overrides `separate_gradient_buffer` for what the backward pass wrote: each pass makes these
  // gradients layer by layer, where it frees activations, and all of them are freed at its end.
  // Layers that shard no states have messages of the same size beside them, all the time.
  bool frees_gradients_after_pass = false;
  // Bytes of one element of the messages that reduce gradients: 2 or 4.
  int gradient_message_bytes = 2;
  // Gradients are exchanged while the backward pass still runs.
  bool overlap_gradient_sync = true;
  // Overrides `overlap_gradient_sync` for layers that shard nothing: their gradients are summed
  // behind the last backward pass.
  bool sums_whole_gradients_at_end = false;
  // Overrides `overlap_gradient_sync` for layers that shard their optimizer states: their gradients
  // are summed behind the last backward pass.
  bool sums_sharded_states_at_end = false;
  // Overrides `overlap_gradient_sync` for sharded gradients: they are exchanged at the end of each
  // layer's backward pass, without overlap.
  bool scatters_gradients_in_line = false;
  // Sharded gradients, as products add to them, are exchanged while the backward pass of the next
  // layer runs, so those of two layers are whole at once. Only without
  // `scatters_gradients_in_line`.
  bool scatters_beside_next_layer = false;
  // If groups of ranks share gradients (`Strategy::sharding_degree`), each micro-batch sums its own
  // between the groups. Otherwise the last one of a step sums those of all of them (MiCS, "2-hop
  // gradient synchronization").
  bool sums_shards_each_pass = false;
  // Gradients of keys and values are summed, and sent, in 32 bits while they go round a ring.
  // Otherwise they have the type of activations.
  bool widens_ring_gradients = false;
  TensorParallelOverlap tensor_parallel_overlap = TensorParallelOverlap::kNone;
  // With sharded optimizer states gradients are still all-reduced, and each rank uses its part
  // (DeepSpeed's first level).
  bool all_reduces_sharded_gradients = false;
  // Only gradients of sharded optimizer states, in plans of one stage, are exchanged while the
  // backward pass runs; the others follow the last backward pass (DeepSpeed's engines).
  bool overlaps_only_sharded_states = false;
  // If optimizer states are sharded and parameters are not, the updated parameters are gathered at
  // the end of the optimizer's step, without overlap.
  bool gathers_parameters_in_step = false;
  // Behind such a gather the host copies the part of every rank of every parameter, each in a
  // launch of its own, and launches these copies while the gather is on its way. Only with `eager`.
  bool copies_gathered_parts = false;
  // Sharded parameters are fetched one layer ahead.
  bool overlap_parameter_gather = true;
  // Sharded parameters are also fetched for the backward pass of the embedding, which does not read
  // them.
  bool regathers_embedding = false;
  // Strategies with tensor parallelism use sequence parallelism unless memory was measured without
  // it.
  bool sequence_parallel = true;
  // Each tensor-parallel projection that reads the whole input sums the gradient of that input
  // itself: queries, keys and values, gate and up. Otherwise projections of one input share a sum.
  bool reduces_each_projection = false;
  // Sequence-parallel layers keep the gathered inputs of their matrices. Otherwise the backward
  // pass gathers them again for the gradients of the weights.
  bool keeps_gathered_inputs = false;
  // Full recomputation repeats the last tensor-parallel sum of a layer.
  bool repeats_last_sum = true;
  // Tensor-parallel ranks gather the logits for a loss function of the user. Otherwise the loss
  // sums up over parts of the vocabulary.
  bool gathers_logits = false;
  // Sequence-parallel layers sum the gradients of the parameters that all tensor-parallel ranks
  // have, such as norms, in one message a step. Otherwise these few bytes are not priced.
  bool sums_partial_gradients = false;
  // A change of layout between two layers is one all-to-all of the stage's ranks in each pass.
  // Otherwise tensor- and context-parallel groups gather and exchange.
  bool exchanges_layouts = false;
  ExpertExchange expert_exchange = ExpertExchange::kTokens;
  // Tokens travel to their experts while another micro-batch computes (Megatron Core,
  // overlap_moe_expert_parallel_comm; DeepSeek-V3's DualPipe).
  bool overlap_expert_exchange = false;
  // Each expert's products, and the quantisation of their operands, are kernels of their own
  // instead of one grouped kernel.
  bool launches_each_expert = false;
  // The host reads how many tokens each expert gets before it launches what depends on them, so the
  // device has nothing to do until it has. Captured graphs read nothing: only with `eager`.
  bool reads_expert_counts = false;
  // The backward pass of experts reads tokens as they are sent and as they come back, for example
  // because the router's weights apply to what comes back. Otherwise these weights apply within the
  // experts, before their last product, and only tokens in the experts' order are kept.
  bool keeps_exchanged_tokens = true;
  // Fused attention multiplies operands of 8 bits. Only with precisions that quantise, and on
  // devices that multiply such operands.
  bool quantised_attention = false;
  // Weights of linear maps exist quantised only, beside 32-bit ones in the optimizer, with recipes
  // that have such parameters (`Quantisation::has_parameters`); otherwise 16-bit weights exist in
  // addition.
  bool quantised_parameters = false;
  // Bytes of one of the optimizer's moments: 4, or 2 if it keeps them in 16 bits.
  int moment_bytes = 4;
  // If embedding and head share a table on one rank, all their sharded parameters are one message,
  // which counts as the embedding's.
  bool shards_tied_ends_as_one = false;
  // The loss of a step is summed over all ranks.
  bool sums_loss = false;
  // Tensor-parallel ranks hold all of an embedding's table unless a head shares it.
  bool whole_untied_tables = false;
  // Approximate size of the messages in which layers that shard neither gradients nor parameters
  // exchange gradients and gather parameters. 0 stands for one message per layer, which the other
  // layers have in any case.
  Bytes gradient_bucket;

  // Logits are widened to 32 bits before the loss.
  bool fp32_logits = true;
  // A stage waits until its messages have arrived before it continues, so pipeline messages do not
  // overlap computation.
  bool blocking_pipeline_messages = false;
  // If two stages have messages for each other, the gradient begins its way when the activation has
  // arrived. Otherwise both travel at the same time. Only with
  // `blocking_pipeline_messages`.
  bool serial_pipeline_messages = false;
  // The gradients of weights can be computed in a pass of their own after those of inputs, so that
  // schedules with `BackwardSplit::kInputsThenWeights` can run. Everything that the forward pass
  // kept stays until then, and so do the gradients of the outputs of linear maps.
  bool splits_backward = false;
  // Kernels are launched one by one from the host, not by CUDA graphs.
  bool eager = true;
  // The host waits for every kernel (CUDA_LAUNCH_BLOCKING=1).
  bool blocking_launches = false;
  // Host time per kernel of a forward pass, which Python modules launch, divided by that of a
  // backward pass, which the library's C++ launches. Only with `eager`.
  double forward_launch_ratio = 4.0;
  // Each tensor-parallel rank sends its part of a pipeline message; the receivers
  // gather the parts (Narayanan et al., SC'21, section 4.1).
  bool scattered_pipeline_messages = false;
  // Stages without layers hand on what they receive, and keep it from the forward to the backward
  // pass. Otherwise each stage of a plan has a layer.
  bool runs_empty_stages = false;

  // The remaining traits affect memory only.

  // The output of fused attention is copied into another layout, and both are kept.
  bool attention_output_copied = false;
  // Bytes per logit when the loss needs the most memory: 2 for 16-bit logits that become their
  // gradients (Transformer Engine's fused cross-entropy), 6 for fp32 softmax and 16-bit gradient in
  // place (Megatron Core), 10 for 16-bit logits, fp32 logits and their exponentials, 12 for
  // logarithms of probabilities and the gradients of these and of logits, in fp32 (PyTorch). Only
  // with `fp32_logits`; without it these are two elements of the model's storage format.
  int loss_bytes_per_logit = 6;
  // Profiles of this runtime measure what autograd saves for the backward pass, logarithms of
  // probabilities included: gradients inside a layer and those of the loss come in addition.
  // Otherwise measured activations are assumed to include them.
  bool measures_saved_tensors = false;
  // The vocabulary is padded to a multiple of 128 times the tensor-parallel degree.
  bool pad_vocabulary = true;
  // A stage keeps its outputs until the backward pass (DeepSpeed); otherwise they are freed once
  // sent.
  bool keep_stage_outputs = false;
  // 16-bit weights exist all the time in addition to fp32 masters, and not only while their layer
  // runs.
  bool keep_16_bit_parameters = true;
  // If 16-bit weights exist only during passes: full recomputation makes those of a layer again for
  // its backward pass, so that they exist only while the layer runs. Otherwise autograd keeps them
  // from the forward pass on.
  bool recomputes_16_bit_parameters = false;
  // With sharded optimizer states a rank holds its shard of 32-bit parameters all the time, and the
  // whole ones only from the first forward to the last backward pass. Otherwise it holds the whole
  // ones all the time, unless they are sharded too.
  bool shards_parameters_between_steps = false;
  // Gradients have memory from the backward pass of their layer on, and none when a step begins
  // (zero_grad of PyTorch). Otherwise they have it all the time.
  bool makes_gradients_in_step = false;
  // Gradients are copied into a flat bucket for every message.
  bool flatten_gradient_buckets = false;
  // A layer's backward pass writes gradients into the memory of activations that it has used, and
  // frees other activations as soon as it has used them. Logits exist only in the head's backward
  // pass, and their gradients take their place. Token ids are not on the device.
  bool reuses_activations = false;
  // Sharded tables are whole only while their layer runs, like the parameters of other layers.
  bool gathers_tables_late = false;
  // A stage holds a sent message until it sends the next of its kind, and receives into one place.
  // Otherwise one message is arriving and one is leaving.
  bool holds_messages_sent = false;
  // Free blocks between the tensors of an allocator of GPUs, as a share of the largest tensor of a
  // layer (`LayerMemory::largest_tensor`). An allocation takes memory from the driver if it fits
  // into no free block, so each of them is smaller than that. 0 if the coefficient `fragmentation`
  // stands for them.
  double free_block_share = 0.0;
  // The allocator can use freed memory for tensors of any size (PyTorch's
  // expandable_segments).
  bool expandable_segments = false;

  // Returns whether selective recomputation computes scores, softmax and their product with the
  // values again.
  bool RepeatsCoreAttention() const {
    return attention_kernel == AttentionKernel::kUnfused ||
           (selective_recompute == SelectiveRecompute::kAttention && repeats_fused_attention);
  }

  friend bool operator==(const RuntimeTraits&, const RuntimeTraits&) = default;
};

// Returns the known runtimes, `parplan` first: `megatron-2021`, `megatron-2022`,
// `megatron-deepspeed`, `megatron-core`, `fsdp`, `deepspeed`, `torch`, `torch-compile`,
// `megatron-bridge`, `nanotron`, `torchtitan`, `nemo-automodel`, `llm-foundry`, `accelerate`,
// `parplan-exec`, `megatron-core-fp8`. The table is static.
absl::Span<const RuntimeTraits> KnownRuntimes();

// Returns the runtime of that name, a row of `KnownRuntimes`, or null.
const RuntimeTraits* FindRuntime(absl::string_view runtime_id);

// Returns the traits of the executor as it runs today on processors, whose memory is known array by
// array (executor/trainer). The defaults above are meant for GPUs, and published runs are compared
// with them; the executor as it runs on GPUs is `parplan-exec`.
RuntimeTraits ExecutorTraits();

// Returns the traits of a runtime on devices of kind `device_kind`. On processors (kinds that begin
// with `CPU `) they are `ExecutorTraits()` for the runtimes `parplan` and `parplan-exec` with
// unchanged traits, under their own name, and others have no allocator of GPUs
// (`free_block_share`). Else they are `traits` itself. `PlanningProblem` applies it to the runtime
// of its rules.
RuntimeTraits TraitsOn(const RuntimeTraits& traits, absl::string_view device_kind);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_MODEL_RUNTIME_TRAITS_H_
