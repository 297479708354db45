// A small transformer on made-up devices, with every measurement it needs.

#ifndef PARPLAN_TESTS_SUPPORT_SYNTHETIC_PROBLEM_H_
#define PARPLAN_TESTS_SUPPORT_SYNTHETIC_PROBLEM_H_

#include <cstdint>
#include <memory>
#include <string>

#include "base/units.h"
#include "planner/model/planning_problem.h"

namespace parplan {

// The problem to build. The default is 8 devices on one node of 8, 8 decoders between an embedding
// and a head, 16 samples in a step, and memory that binds.
struct SyntheticOptions {
  int device_count = 8;
  int devices_per_node = 8;
  int decoder_count = 8;
  // The decoders as one run, or one run each.
  bool split_runs = false;
  // Names of model, layers, node group and cluster start with this.
  std::string name = "synthetic";
  int hidden_size = 1024;
  int attention_head_count = 16;
  int sequence_length = 512;
  int vocabulary_size = 32000;
  int64_t global_batch_size = 16;
  Bytes device_memory = Bytes::Of(int64_t{6} << 30);
  // Links are so many times faster.
  double link_speed = 1.0;
  // All sizes of layers are so many times larger.
  int64_t memory_scale = 1;
  Bytes context_memory = Bytes::Of(int64_t{1} << 28);
  bool sequence_parallel = false;
  PlanningRules rules;
};

// Sizes, batches and memories around the point where memory binds; the same for one seed, in every
// run.
SyntheticOptions RandomSyntheticOptions(uint64_t seed);

// The model alone, and the measurements alone. Both are valid by construction
// and end the process when they are not.
std::shared_ptr<const ModelSpec> SyntheticModel(const SyntheticOptions& options);
std::shared_ptr<const Topology> SyntheticTopology(const SyntheticOptions& options);
ProfileSnapshot::Content SyntheticProfileContent(const SyntheticOptions& options);

// The whole question.
PlanningProblem SyntheticProblem(const SyntheticOptions& options = {});

}  // namespace parplan

#endif  // PARPLAN_TESTS_SUPPORT_SYNTHETIC_PROBLEM_H_
