// The problems that `exact` is timed with: transformers, estimated for nodes of eight A100 of 80
// GB.

#ifndef PARPLAN_TESTS_BENCHMARKS_EXACT_CASES_H_
#define PARPLAN_TESTS_BENCHMARKS_EXACT_CASES_H_

#include <cstdint>
#include <vector>

#include "planner/model/planning_problem.h"

namespace parplan {

// Layers that cost alike.
struct DecoderShape {
  int feed_forward_size = 0;
  int layer_count = 0;
};

struct ExactCase {
  int device_count = 64;
  int64_t global_batch_size = 512;
  int64_t smallest_global_batch_size = 0;
  int64_t global_batch_size_step = 1;
  int hidden_size = 8192;
  int attention_head_count = 64;
  int key_value_head_count = 8;
  int sequence_length = 4096;
  int vocabulary_size = 32000;
  bool swiglu = true;
  std::vector<DecoderShape> decoders;
};

// Llama-2-70B (Touvron et al., table 1).
ExactCase Llama70B(int device_count, int64_t global_batch_size);
// GPT-3 175B (Brown et al., table 2.1) on 4,096 devices.
ExactCase Gpt3();
// So many layers, in equal runs of `kind_count` kinds of decoders between embedding and
// head, of 50 million parameters each or a little more.
ExactCase ManyLayers(int layer_count, int kind_count, int device_count);

// Ends the process when it makes no valid problem.
PlanningProblem ProblemOf(const ExactCase& exact_case, PlanningRules rules = {});

}  // namespace parplan

#endif  // PARPLAN_TESTS_BENCHMARKS_EXACT_CASES_H_
