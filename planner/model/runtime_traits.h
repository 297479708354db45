// How the program that trains does its work, as far as time and memory depend on
// it.

#ifndef PARPLAN_PLANNER_MODEL_RUNTIME_TRAITS_H_
#define PARPLAN_PLANNER_MODEL_RUNTIME_TRAITS_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/units.h"

namespace parplan {

enum class AttentionKernel {
  // Scores, softmax and dropout are matrices of sequence x sequence in memory.
  kUnfused = 1,
  // FlashAttention and its kin: scores never leave the chip.
  kFlash = 2,
};

// Fused attention by how much of the matrix units it uses.
enum class FlashKernel {
  // FlashAttention 1 and the first kernel in Triton.
  kFirst = 1,
  // FlashAttention-2, and with it PyTorch's scaled_dot_product_attention.
  kSecond = 2,
  // Written for the device: FlashAttention-3, cuDNN (Transformer Engine).
  kNative = 3,
};

// What selective recomputation does again.
enum class SelectiveRecompute {
  // Attention from the scores to their product with the values (Korthikanti et al.).
  kAttention = 1,
  // All but fused attention and every other linear map (torchtitan, `selective` with
  // `op`: outputs of attention and of the 1st, 3rd, 5th, ... product are saved).
  kOperators = 2,
};

// One kind of runtime. The defaults are those of this house's executor.
struct RuntimeTraits {
  std::string runtime_id = "parplan";

  AttentionKernel attention_kernel = AttentionKernel::kFlash;
  FlashKernel flash_kernel = FlashKernel::kSecond;
  // Dropout keeps a mask of one byte an element, of attention scores and of the
  // residual stream.
  bool attention_dropout = false;
  bool hidden_dropout = false;
  // Bias, activation function, dropout and residual addition are one kernel each
  // instead of one for every operation.
  bool fused_elementwise = true;
  // Scale, mask and softmax are one kernel (unfused attention only).
  bool fused_softmax = true;
  // The loss is two kernels each way instead of one for every operation.
  bool fused_cross_entropy = true;
  // The head's logits are made when its backward pass begins, and not kept from a forward
  // pass to then; two sums of theirs are added up over ranks together.
  bool logits_in_backward_pass = true;
  // The optimizer updates a parameter in one kernel instead of one for every operation.
  bool fused_optimizer = true;
  SelectiveRecompute selective_recompute = SelectiveRecompute::kAttention;
  // Full recomputation ends with the last tensor the backward pass needs and leaves the
  // layer's last linear map out (PyTorch's non-reentrant checkpoints since 2.1).
  bool recompute_stops_early = false;
  // Products add weight gradients to the buffer themselves.
  bool fused_gradient_accumulation = true;

  // Bytes of one element of the buffer gradients are summed up in: 2 or 4.
  int gradient_bytes = 2;
  // The optimizer makes fp32 copies of 16-bit gradients before it steps.
  bool widens_gradients_in_step = false;
  // Gradients exist twice, once as the layer made them and once in the buffer.
  bool separate_gradient_buffer = false;
  // Bytes of one element of the message that makes gradients equal: 2 or 4.
  int gradient_message_bytes = 2;
  // Gradients are exchanged while the backward pass still runs.
  bool overlap_gradient_sync = true;
  // Those that are kept in parts are not: each layer's backward pass ends with scattering them.
  bool scatters_gradients_in_line = false;
  // Tensor-parallel collectives of the backward pass run beside the products for
  // weight gradients.
  bool overlap_tensor_parallel = false;
  // With sharded optimizer states gradients are still made equal on all ranks, each
  // of which then uses its part (DeepSpeed's first level).
  bool all_reduces_sharded_gradients = false;
  // Sharded parameters are fetched one layer ahead.
  bool overlap_parameter_gather = true;
  // They are fetched for the backward pass of the embedding too, though nothing reads them
  // there.
  bool regathers_embedding = false;
  // Strategies the planner makes use sequence parallelism with tensor parallelism,
  // where no measurement says otherwise.
  bool sequence_parallel = true;
  // Gradients are exchanged in messages of about this size.
  // 0: those of a layer in one.
  Bytes gradient_bucket;

  // Logits are turned into 32-bit numbers before the loss.
  bool fp32_logits = true;
  // A stage waits for its tensors to arrive before it works on (no overlap of
  // pipeline messages with computation).
  bool blocking_pipeline_messages = false;
  // Kernels are launched one by one from the host, not by CUDA graphs.
  bool eager = true;
  // The host waits for every kernel (CUDA_LAUNCH_BLOCKING=1).
  bool blocking_launches = false;
  // Host time per kernel of a forward pass over that of a backward pass: modules in
  // Python launch the one, the library's C++ the other.
  double forward_launch_ratio = 4.0;
  // Each tensor-parallel rank sends its part of a pipeline message; the receivers
  // gather the parts (Narayanan et al., SC'21, section 4.1).
  bool scattered_pipeline_messages = false;

  // Memory only. Attention's output is copied into another layout and both are kept
  // (fused attention only).
  bool attention_output_copied = false;
  // Bytes a logit takes when the loss needs most. 6: fp32 softmax and 16-bit gradient
  // (Megatron Core, in place). 10: 16-bit logits, fp32 logits and their exponentials.
  int loss_bytes_per_logit = 6;
  // The vocabulary is padded to a multiple of 128 times the tensor-parallel degree.
  bool pad_vocabulary = true;
  // A stage keeps what it sent until the backward pass (DeepSpeed); otherwise it is
  // freed once sent.
  bool keep_stage_outputs = false;
  // 16-bit weights exist besides fp32 masters all the time, and not only while their
  // layer runs.
  bool keep_16_bit_parameters = true;
  // Gradients are copied into a flat bucket for every message.
  bool flatten_gradient_buckets = false;
  // A layer's backward pass puts gradients where what it has used was, and frees the rest as it
  // goes; logits, which only the head's backward pass has, become their gradients. Token numbers
  // are not on the device.
  bool reuses_activations = false;
  // Sharded tables are whole only while their layer runs, as other layers' parameters are.
  bool gathers_tables_late = false;
  // A stage holds what it sent until it sends the next of its kind; what comes is received into
  // its place. Otherwise one message is coming and one going.
  bool holds_messages_sent = false;
  // The allocator can use freed memory for tensors of any size (PyTorch's
  // expandable_segments).
  bool expandable_segments = false;

  friend bool operator==(const RuntimeTraits&, const RuntimeTraits&) = default;
};

// The runtimes this house knows, `parplan` first: `megatron-2021`, `megatron-2022`,
// `megatron-deepspeed`, `megatron-core`, `fsdp`. Static.
absl::Span<const RuntimeTraits> KnownRuntimes();

// One of them, or null.
const RuntimeTraits* FindRuntime(absl::string_view runtime_id);

// `parplan` as the executor runs today, of which memory is known array by array
// (executor/trainer). The defaults above are what it is meant to be on GPUs, and what
// published runs are compared with.
RuntimeTraits ExecutorTraits();

// The traits a runtime has on devices of a kind: on processors (`CPU ...`) `parplan` is the
// executor as it runs today; all else is what it is.
RuntimeTraits TraitsOn(const RuntimeTraits& traits, absl::string_view device_kind);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_MODEL_RUNTIME_TRAITS_H_
