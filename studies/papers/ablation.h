// Ablations of Galvatron-BMW: its rate without one of its parts. The command `parplan-study papers`
// asks it for its section `ablations`.

#ifndef PARPLAN_STUDIES_PAPERS_ABLATION_H_
#define PARPLAN_STUDIES_PAPERS_ABLATION_H_

#include <string>
#include <vector>

#include "planner/model/planning_problem.h"
#include "studies/papers/paper_models.h"

namespace parplan::papers {

// One way of leaving a part out: the planner to ask, and the question that it is asked in place of
// the whole one.
struct Ablation {
  // Name for people; the planner's name (planner/find_plan.h); and the change of the question,
  // never null.
  std::string name;
  std::string planner;
  PlanningProblem (*change)(const PlanningProblem&);
};

// Returns the whole method first, then one part less each: layer-wise choice, recomputation,
// sharding, tensor parallelism, pipelines, balance of the two objectives, uneven stages, 1F1B.
const std::vector<Ablation>& Ablations();

// The rates of one question under all ablations.
struct AblationRow {
  // The name that `ModelName` (paper_models.h) gives.
  std::string model;
  // Memory of a device, in GiB.
  int memory_gb = 0;
  // [ablation, as in `Ablations`] predicted samples a second, six digits; 0 if nothing fits.
  std::vector<double> rates;

  friend bool operator==(const AblationRow&, const AblationRow&) = default;
};

// Plans a question with each of `Ablations()`, with even stages to start from.
AblationRow AblationRowOf(const GridQuestion& question);

// Lists the questions: every family with 32 layers and every budget of the grid, on 8 devices.
std::vector<GridQuestion> AblationQuestions();

}  // namespace parplan::papers

#endif  // PARPLAN_STUDIES_PAPERS_ABLATION_H_
