// The problems on which the tests of strategy spaces ask for strategies.

#ifndef PARPLAN_TESTS_PLANNER_SEARCH_SPACE_SPACE_OPTIONS_H_
#define PARPLAN_TESTS_PLANNER_SEARCH_SPACE_SPACE_OPTIONS_H_

#include "tests/support/estimated_problem.h"

namespace parplan {

// Two decoders on one node, small enough that every combination of fields is tried. Selective
// recomputation saves memory, because attention keeps its scores.
inline EstimatedOptions TwoDecoderOptions(int device_count) {
  EstimatedOptions options;
  options.device_count = device_count;
  options.devices_per_node = device_count;
  options.decoder_count = 2;
  options.hidden_size = 768;
  options.attention_head_count = 12;
  options.sequence_length = 96;
  options.global_batch_size = 12;
  options.rules = {.allow_estimates = true};
  options.rules.runtime.attention_kernel = AttentionKernel::kUnfused;
  return options;
}

// Decoders on one node for `--target megatron`, which Megatron Core runs.
inline EstimatedOptions MegatronOptions(int decoder_count, int device_count) {
  EstimatedOptions options{.device_count = device_count,
                           .devices_per_node = device_count,
                           .decoder_count = decoder_count,
                           .hidden_size = 1024,
                           .attention_head_count = 16,
                           .sequence_length = 1024,
                           .global_batch_size = 16};
  options.rules = {.target = Target::kMegatron, .allow_estimates = true};
  options.rules.runtime = *FindRuntime("megatron-core");
  return options;
}

}  // namespace parplan

#endif  // PARPLAN_TESTS_PLANNER_SEARCH_SPACE_SPACE_OPTIONS_H_
