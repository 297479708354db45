// The balance of Galvatron-BMW where it has most to do: data parallelism, pipelines and
// recomputation, without tensor parallelism and sharding, which make one stage the fastest plan.
// The command `parplan-study papers` asks it for its section `pipelines`, and `WalkRowOf`
// (walk_limits.h) for its question.

#ifndef PARPLAN_STUDIES_PAPERS_PIPELINES_ALONE_H_
#define PARPLAN_STUDIES_PAPERS_PIPELINES_ALONE_H_

#include <string>
#include <vector>

#include "planner/model/planning_problem.h"
#include "studies/papers/paper_models.h"

namespace parplan::papers {

// The rates of one question.
struct PipelineRow {
  // The name that `ModelName` (paper_models.h) gives.
  std::string model;
  // Memory of a device, in GiB.
  int memory_gb = 0;
  // Predicted samples a second of `galvatron-base` with even and with greedy stages and of
  // `galvatron-bmw` with even stages to start from, of `dp+pp` with its best stages, and of the
  // optimum of this space; six digits, 0 if nothing fits.
  double base = 0.0;
  double greedy_base = 0.0;
  double bmw = 0.0;
  double hybrid = 0.0;
  double optimum = 0.0;
  // The same of the memory-balanced partitions alone, without a walk: the best over all batches,
  // pipeline degrees, micro-batches, strategies with and without recomputation, and all
  // measures of memory (bmw_walk.h).
  double memory_balanced = 0.0;
  // Notes of `galvatron-bmw` on its balance (PlanFound::notes): those that name alpha_t, alpha_m or
  // the memory-balanced start.
  std::vector<std::string> notes;

  friend bool operator==(const PipelineRow&, const PipelineRow&) = default;
};

// Returns the question without tensor parallelism and sharding.
PlanningProblem PipelinesAlone(const PlanningProblem& problem);

// Plans a question (`PipelinesAlone` of it) with each of these planners. Aborts for a question that
// one of them does not take; a rate is 0 where nothing fits.
PipelineRow PipelineRowOf(const GridQuestion& question);

// Lists the questions: T5-512/4 and Swin-Huge, whose layers are unlike, with 32 layers, every
// budget of the grid, on 8 devices.
std::vector<GridQuestion> PipelineQuestions();

}  // namespace parplan::papers

#endif  // PARPLAN_STUDIES_PAPERS_PIPELINES_ALONE_H_
