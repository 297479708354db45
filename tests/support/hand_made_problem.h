// Problems small enough to be worked by hand: layers that take so many milliseconds, links
// that take so long a byte, and nothing else.

#ifndef PARPLAN_TESTS_SUPPORT_HAND_MADE_PROBLEM_H_
#define PARPLAN_TESTS_SUPPORT_HAND_MADE_PROBLEM_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/units.h"
#include "planner/model/planning_problem.h"

namespace parplan {

// Equal layers one after the other. They have 24 heads, 4 tokens a sample, and a hidden
// size of 48 unless said otherwise, so that 384 bytes in bf16 lie between two layers.
struct HandMadeLayers {
  int count = 1;
  LayerKind kind = LayerKind::kDecoder;
  int hidden_size = 48;
  // Forward pass of one sample; t tensor-parallel ranks take a t-th of it and `tensor_loss`
  // of that on top. The backward pass takes twice as long.
  double milliseconds = 1.0;
  double tensor_loss = 0.0;
  // Parameters of one layer; each of t tensor-parallel ranks has a t-th of them.
  int64_t parameter_count = 24'000;
  int64_t activation_bytes_per_sample = 24'000;
};

struct HandMadeOptions {
  // Each entry is a definition of its own.
  std::vector<HandMadeLayers> layers = {{.count = 4}};
  int device_count = 4;
  // 0: all of them.
  int devices_per_node = 0;
  // Time per byte of an all-reduce inside a node; other collectives follow from it. Messages
  // between stages take half as long.
  double seconds_per_byte = 1e-9;
  // So many times longer where a group leaves its node.
  double network_slowdown = 1.0;
  Bytes device_memory = Bytes::Of(1'000'000'000'000);
  Precision precision = Precision::kBf16;
  // Sequence length at which the profile was measured, if it is not the layers' 4.
  int measured_sequence_length = 4;
  bool sequence_parallel = false;
  int64_t global_batch_size = 8;
  PlanningRules rules = {.dimensions = DimensionSet()};
};

// Ends the process when the options make no valid problem.
PlanningProblem HandMadeProblem(const HandMadeOptions& options);

// The measurements alone.
ProfileSnapshot::Content HandMadeContent(const HandMadeOptions& options);

}  // namespace parplan

#endif  // PARPLAN_TESTS_SUPPORT_HAND_MADE_PROBLEM_H_
