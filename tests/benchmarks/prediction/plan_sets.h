// Plans whose predictions are compared with what they take.

#ifndef PARPLAN_TESTS_BENCHMARKS_PREDICTION_PLAN_SETS_H_
#define PARPLAN_TESTS_BENCHMARKS_PREDICTION_PLAN_SETS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "planner/model/model_spec.h"
#include "planner/model/plan.h"

namespace parplan {

struct NamedPlan {
  std::string name;
  Plan plan;
};

// One model on some ranks, and plans of it.
struct PlanSet {
  ModelSpec model;
  int device_count;
  // Nodes of so many devices, where links between nodes are made slow.
  int devices_per_node;
  int64_t global_batch_size;
  std::vector<NamedPlan> plans;
  // Pace of the ranks' kernels (paced_device.h): above 1 if ranks share cores.
  double pace = 1.0;
};

// `a`: a GPT on two ranks. `b`: another shape, a Llama, kept aside: nothing was chosen by it.
// `shaped`: a GPT on four ranks, two nodes of two. `overlap`: a wide GPT of few tokens on two
// ranks, for the slow-down of overlapping work.
PlanSet MakePlanSet(const std::string& name);

}  // namespace parplan

#endif  // PARPLAN_TESTS_BENCHMARKS_PREDICTION_PLAN_SETS_H_
