#include "planner/model/runtime_traits.h"

#include <algorithm>
#include <vector>

namespace parplan {
namespace {

// Megatron-LM as of SC'21 and its successors with Apex: unfused attention with
// dropout, gradients all-reduced in one go after the last backward pass.
RuntimeTraits Megatron2021() {
  RuntimeTraits traits;
  traits.runtime_id = "megatron-2021";
  traits.attention_kernel = AttentionKernel::kUnfused;
  traits.attention_dropout = true;
  traits.hidden_dropout = true;
  traits.overlap_gradient_sync = false;
  traits.overlap_parameter_gather = false;
  traits.separate_gradient_buffer = false;
  traits.blocking_pipeline_messages = true;
  traits.fused_cross_entropy = false;
  traits.launch_interval_ratio = 3.0;
  traits.scattered_pipeline_messages = true;
  return traits;
}

// DeepSpeed's engine below Megatron's layers: 16-bit gradients.
RuntimeTraits MegatronDeepSpeed() {
  RuntimeTraits traits = Megatron2021();
  traits.runtime_id = "megatron-deepspeed";
  traits.gradient_bytes = 2;
  traits.gradient_message_bytes = 2;
  return traits;
}

// Megatron Core with Transformer Engine.
RuntimeTraits MegatronCore() {
  RuntimeTraits traits;
  traits.runtime_id = "megatron-core";
  traits.fused_gradient_accumulation = true;
  traits.attention_dropout = true;
  traits.hidden_dropout = true;
  return traits;
}

// PyTorch FSDP: parameters sharded, 16-bit gradients of the layers scattered as
// they come.
RuntimeTraits Fsdp() {
  RuntimeTraits traits;
  traits.runtime_id = "fsdp";
  traits.gradient_message_bytes = 2;
  return traits;
}

}  // namespace

absl::Span<const RuntimeTraits> KnownRuntimes() {
  static const auto* const runtimes = new std::vector<RuntimeTraits>{
      RuntimeTraits(), Megatron2021(), MegatronDeepSpeed(), MegatronCore(), Fsdp()};
  return *runtimes;
}

const RuntimeTraits* FindRuntime(absl::string_view runtime_id) {
  const absl::Span<const RuntimeTraits> runtimes = KnownRuntimes();
  const auto* const found = std::find_if(
      runtimes.begin(), runtimes.end(),
      [runtime_id](const RuntimeTraits& traits) { return traits.runtime_id == runtime_id; });
  return found == runtimes.end() ? nullptr : found;
}

}  // namespace parplan
