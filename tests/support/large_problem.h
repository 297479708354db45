// Planning problems of models and clusters as large as users have them, for laws that hold at any
// size. Estimated from data sheets of nodes of eight A100.

#ifndef PARPLAN_TESTS_SUPPORT_LARGE_PROBLEM_H_
#define PARPLAN_TESTS_SUPPORT_LARGE_PROBLEM_H_

#include <cstdint>
#include <vector>

#include "base/units.h"
#include "planner/model/planning_problem.h"

namespace parplan {

// Equal transformer layers.
struct LargeRun {
  int layer_count = 1;
  int feed_forward_size = 0;
  // Experts in place of the feed-forward part, each of `feed_forward_size` / 4; 0 for none.
  int expert_count = 0;
  // As in `LayerDefinition`.
  int prediction_depth = 0;
};

// A model of an embedding, runs and a head, and its cluster.
struct LargeOptions {
  int device_count = 64;
  // On all devices of a node 80 GiB, unless less is given.
  Bytes device_memory = Bytes::Of(int64_t{80} << 30);
  int hidden_size = 4096;
  int attention_head_count = 32;
  int key_value_head_count = 8;
  int sequence_length = 4096;
  int64_t global_batch_size = 512;
  double network_speed = 1.0;
  std::vector<LargeRun> runs = {{.layer_count = 32, .feed_forward_size = 14336}};
  PlanningRules rules;
};

// Ends the process when the options make no valid problem.
PlanningProblem LargeProblem(const LargeOptions& options);

// Returns 8 to `max_layer_count` layers of one to four kinds, some with experts, on 8 to
// `max_device_count` devices; the same for one seed, in every run.
LargeOptions RandomLargeOptions(uint64_t seed, int max_layer_count, int max_device_count);

// Returns `count` layers that all differ.
std::vector<LargeRun> DifferentLayers(int count);

}  // namespace parplan

#endif  // PARPLAN_TESTS_SUPPORT_LARGE_PROBLEM_H_
