// One search of the study: a planner's answer to a question, in the few figures that the page has.
// The other files of this folder search with it.

#ifndef PARPLAN_STUDIES_PAPERS_PAPER_SEARCH_H_
#define PARPLAN_STUDIES_PAPERS_PAPER_SEARCH_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/units.h"
#include "planner/model/plan.h"
#include "planner/model/planning_problem.h"
#include "planner/model/planning_result.h"

namespace parplan::papers {

// The planner that searches the space of `galvatron-bmw` and proves its answer.
inline constexpr char kTreeOptimum[] = "tree-optimum";
// States after which the proof of the tree's optimum ends, so that the answer does not depend on a
// clock. The cells of the grid that keep a gap with this number are marked in
// docs/measurements/papers.md; other numbers were not tried.
inline constexpr int64_t kMaxOptimumStates = 3'000'000;

// The planners of the study, in the order of its tables: pure baselines, hybrid ones, those of the
// papers, their methods alone, the optimum of their space.
inline constexpr const char* kPurePlanners[] = {"dp", "sdp", "tp", "pp"};
inline constexpr const char* kHybridPlanners[] = {"dp+tp", "dp+pp", "deepspeed-3d"};
inline constexpr const char* kPaperPlanners[] = {"galvatron", "galvatron-base", "galvatron-bmw"};

// The methods of the second paper without the baselines and the partitioners whose plans the
// answers of `galvatron-base` and `galvatron-bmw` also contain: the dynamic program with even
// stages, and the walk from balanced memory to balanced time, for one stage the program alone.
inline constexpr char kBaseAlone[] = "base-alone";
inline constexpr char kBmwAlone[] = "bmw-alone";
// Returns the names of all planners of the study, in the order of its tables.
std::vector<std::string> StudyPlanners();

// The plan that a planner found, and its figures. Without a plan the texts are empty.
struct Answer {
  // Whether there is a plan.
  bool fits = false;
  // Absent if nothing fits.
  std::optional<Plan> plan;
  // Predicted samples a second; 0 if nothing fits.
  double rate = 0.0;
  int64_t batch = 0;
  int64_t micro_batch_count = 0;
  int pipeline_degree = 0;
  // Layers of each stage, `11|21`.
  std::string stages;
  // The plan in one line (`PlanGist`).
  std::string gist;
  // Memory that a device must have for the plan, the upper end of its range; 0 if nothing fits.
  Bytes memory;
  // Share of the time a sample by which the planner has not proved its plan to be the fastest of
  // its space; 1 if it proves nothing.
  double gap = 1.0;
  // Whether `SearchControl::should_stop` ended the search, or any limit before there was a plan. A
  // limit of states that ended it with a plan does not count.
  bool stopped = false;
  std::vector<std::string> notes;
};

// Returns the question in the space of `galvatron-bmw`: the decision tree with recomputation,
// uneven stages, 1F1B (or the schedule of the rules).
PlanningProblem InTree(const PlanningProblem& problem);

// Returns the question with another partitioner.
PlanningProblem WithPartitioner(const PlanningProblem& problem, Partitioner partitioner);

// Answers `problem` with a planner of `PlannerNames`, with `exact` over `InTree` for
// `kTreeOptimum`, or with a method for `kBaseAlone` and `kBmwAlone`, which no `control` ends.
// `kTreeOptimum` ends after `kMaxOptimumStates` unless `control` has a number of states. No plan
// for these degrees counts as nothing that fits. REQUIRES: a known planner and a question that it
// takes; aborts otherwise.
Answer Ask(const PlanningProblem& problem, absl::string_view planner,
           const SearchControl& control = {});

// Answers `problem` with the dynamic program of the papers' planners over their whole tree and
// nothing beside it: no baselines, and stages of the partitioner, or adjusted ones as in
// `galvatron-bmw` alone if `adjusts`. An answer without a plan if no degrees suit the question.
// REQUIRES: a cost model can be made of it (`CostModel::Create`); aborts otherwise.
Answer AskDynamicProgram(const PlanningProblem& problem, bool adjusts = false);

// Returns `value` with six significant digits: what the stored results have.
double SixDigits(double value);

}  // namespace parplan::papers

#endif  // PARPLAN_STUDIES_PAPERS_PAPER_SEARCH_H_
