// A transformer on devices with a data sheet, without measurements.

#ifndef PARPLAN_TESTS_SUPPORT_ESTIMATED_PROBLEM_H_
#define PARPLAN_TESTS_SUPPORT_ESTIMATED_PROBLEM_H_

#include <cstdint>

#include "planner/model/hardware.h"
#include "planner/model/plan.h"
#include "planner/model/planning_problem.h"

namespace parplan {

// The model and cluster. The default is GPT-3 175B (Brown et al., table 2.1) on 512 nodes of eight
// A100 of 80 GB, as one job.
struct EstimatedOptions {
  int device_count = 4096;
  int devices_per_node = 8;
  int decoder_count = 96;
  int hidden_size = 12288;
  int attention_head_count = 96;
  int sequence_length = 2048;
  int vocabulary_size = 51200;
  bool tied_embedding = true;
  int expert_count = 0;
  int64_t global_batch_size = 4096;
  // Factor on the rates of data sheets, for laws about faster hardware.
  double device_speed = 1.0;
  double link_speed = 1.0;
  // Factor on the links between nodes alone.
  double network_speed = 1.0;
  PlanningRules rules = {.schedule = Schedule::kOneForwardOneBackward, .allow_estimates = true};
};

Hardware EightA100Nodes(double device_speed = 1.0, double link_speed = 1.0,
                        double network_speed = 1.0);

// Ends the process when the options make no valid problem.
PlanningProblem EstimatedProblem(const EstimatedOptions& options = {});

// Returns the problem of an embedding, `layer_count` layers of `layer` and a head on as many
// devices of one node, all of it otherwise as `EstimatedProblem` has it.
PlanningProblem EstimatedProblemOf(const LayerDefinition& layer, int layer_count, int device_count,
                                   int64_t global_batch_size);

// Returns the problem on the devices of both as two node groups, `joined` and that of `first`
// before it. Model, batch and rules are those of `first`.
PlanningProblem JoinedProblem(const PlanningProblem& first, const PlanningProblem& joined);

// How to spread it: the decoders evenly over (virtual) stages, the embedding before
// the first and the head behind the last.
struct UniformPlan {
  int pipeline_parallel_degree = 1;
  int virtual_stage_count = 1;
  int64_t micro_batch_count = 1;
  Strategy strategy;
};
Plan PlanOf(const PlanningProblem& problem, const UniformPlan& uniform);

}  // namespace parplan

#endif  // PARPLAN_TESTS_SUPPORT_ESTIMATED_PROBLEM_H_
