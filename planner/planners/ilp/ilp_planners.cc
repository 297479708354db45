#include "planner/planners/ilp/ilp_planners.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "planner/cost/predict_plan.h"
#include "planner/model/device_memory.h"
#include "planner/planners/ilp/mesh_search.h"
#include "planner/planners/ilp/nearest_plan.h"

namespace parplan {
namespace {

constexpr double kGibibyte = 1024.0 * 1024.0 * 1024.0;

// A plan and the solution it was made from.
struct Candidate {
  PredictedPlan predicted;
  MeshSolution solution;
};

Bytes UpperOf(const Candidate& candidate) {
  return candidate.predicted.prediction.peak_memory_upper;
}

bool IsSmaller(const Candidate& a, const Candidate& b) {
  if (UpperOf(a) != UpperOf(b)) return UpperOf(a) < UpperOf(b);
  return IsBetterPlan(a.predicted, b.predicted);
}

bool IsFaster(const Candidate& a, const Candidate& b) {
  return IsBetterPlan(a.predicted, b.predicted);
}

// Returns the micro-batch sizes of the smallest and the largest batch for which every layer has a
// strategy, largest micro-batches first; among equal sizes the larger batch first.
std::vector<BatchCut> CutsOf(const PlanningProblem& problem, const CostModel& costs) {
  const std::vector<int64_t> batches = problem.GlobalBatchSizes();
  std::vector<BatchCut> cuts;
  const auto add = [&](int64_t batch, int64_t count) {
    const int64_t wanted = problem.rules().micro_batch_count;
    if (batch % count != 0 || (wanted != 0 && count != wanted)) return;
    if (count > kMaxForwardPassCount) return;
    const BatchCut cut{batch / count, count};
    const int definition_count = static_cast<int>(problem.model().layer_definitions().size());
    for (int index = 0; index < definition_count; ++index) {
      if (OneStageStrategies(problem, costs, index, cut.micro_batch_size).empty()) return;
    }
    cuts.push_back(cut);
  };
  for (const int64_t batch : {batches.front(), batches.back()}) {
    for (int64_t divisor = 1; divisor <= batch / divisor; ++divisor) {
      if (batch % divisor != 0) continue;
      add(batch, divisor);
      if (divisor != batch / divisor) add(batch, batch / divisor);
    }
  }
  std::sort(cuts.begin(), cuts.end(), [](const BatchCut& a, const BatchCut& b) {
    return std::pair(a.micro_batch_size, a.micro_batch_count) >
           std::pair(b.micro_batch_size, b.micro_batch_count);
  });
  cuts.erase(std::unique(cuts.begin(), cuts.end(),
                         [](const BatchCut& a, const BatchCut& b) {
                           return a.micro_batch_size == b.micro_batch_size;
                         }),
             cuts.end());
  return cuts;
}

// Returns the objective of the papers, (5), for a plan, in bytes.
double WeightOf(const Candidate& candidate, double alpha) {
  return UpperOf(candidate).as_double() + alpha * candidate.predicted.prediction.step.value();
}

std::vector<std::string> NotesOf(const MeshSolution& solution, const std::string& objective,
                                 double unit, const char* unit_name) {
  const GraphAnswer& answer = solution.answer;
  std::vector<std::string> notes;
  notes.push_back(absl::StrFormat(
      "program on a mesh of %s, %d micro-batch(es) of %d: %.3f GiB a device in all, %.3f GiB at "
      "the peak, %.1f ms a step",
      solution.mesh.ToString(), solution.cut.micro_batch_count, solution.cut.micro_batch_size,
      answer.totals.memory_bytes() / kGibibyte, answer.totals.peak_bytes / kGibibyte,
      answer.totals.seconds * 1e3));
  notes.push_back(
      absl::StrFormat("%s %.6g %s, proved not to be below %.6g %s (%s; relaxation %.6g, %d nodes)",
                      objective, answer.objective / unit, unit_name, answer.bound / unit, unit_name,
                      answer.is_proved ? "optimal for the mesh" : "not proved optimal",
                      answer.relaxed_bound / unit, answer.node_count));
  notes.insert(notes.end(), solution.choices.begin(), solution.choices.end());
  return notes;
}

// Nodes after which a programme under a cap ends with the best solution so far, since capped
// programmes are hard to prove and the nearest plan is what counts. Not measured for other values.
constexpr int kMaxNodesWithinCap = 40;

class IlpPlanner {
 public:
  enum class Goal { kLeastMemory, kLeastTime };

  IlpPlanner(const PlanningProblem& problem, const CostModel& costs, const SearchControl& control,
             Goal goal)
      : problem_(problem),
        costs_(costs),
        control_(control),
        goal_(goal),
        // A cap makes programmes hard: equal layers all choose alike. One percent is close enough,
        // because the nearest plan is what counts.
        search_(problem, costs,
                {.max_iteration_count = control.max_state_count,
                 .should_stop = control.should_stop,
                 .gap_ratio = goal == Goal::kLeastMemory ? 0.0 : 0.01,
                 .max_node_count = goal == Goal::kLeastMemory ? 0 : kMaxNodesWithinCap},
                goal == Goal::kLeastMemory ? Folding::kMiddle : Folding::kAll),
        evaluator_(problem, costs),
        cuts_(CutsOf(problem, costs)) {}

  std::optional<PlanningResult> Run() {
    if (cuts_.empty()) return std::nullopt;
    for (const BatchCut& cut : cuts_) {
      if (goal_ == Goal::kLeastMemory) {
        std::optional<MeshSolution> solution =
            alpha() ? search_.LeastWeighted(cut, *alpha()) : search_.LeastMemory(cut);
        if (solution) Add(*std::move(solution));
      } else {
        // One cap, halfway; the ends are solved in any case.
        constexpr int kCapCount = 1;
        for (const DeviceMesh& mesh : search_.meshes()) {
          for (MeshSolution& solution : search_.TimeLadder(mesh, cut, kCapCount)) {
            Add(std::move(solution));
          }
        }
      }
      if (search_.stopped()) break;
      ++done_count_;
      Report();
    }
    return Result();
  }

 private:
  std::optional<double> alpha() const { return problem_.rules().ilp_alpha_bytes_per_second; }

  // Returns whether `a` is preferred to `b`.
  bool ComesFirst(const Candidate& a, const Candidate& b) const {
    if (goal_ == Goal::kLeastTime) return IsFaster(a, b);
    if (!alpha()) return IsSmaller(a, b);
    const double weight_of_a = WeightOf(a, *alpha());
    const double weight_of_b = WeightOf(b, *alpha());
    return weight_of_a != weight_of_b ? weight_of_a < weight_of_b : IsSmaller(a, b);
  }

  std::vector<std::string> Notes(const MeshSolution& solution) const {
    if (goal_ == Goal::kLeastTime) return NotesOf(solution, "objective", 1.0, "s");
    if (!alpha()) return NotesOf(solution, "least memory", kGibibyte, "GiB");
    return NotesOf(solution,
                   absl::StrFormat("memory and time at %.6g GiB a second", *alpha() / kGibibyte),
                   kGibibyte, "GiB");
  }

  // Adds the nearest plan of a solution, unless it is already there.
  void Add(MeshSolution solution) {
    std::optional<Plan> plan = NearestPlan(problem_, costs_, solution.shares, solution.cut);
    if (!plan) return;
    if (std::any_of(candidates_.begin(), candidates_.end(), [&](const Candidate& candidate) {
          return candidate.predicted.plan == *plan;
        })) {
      return;
    }
    Prediction prediction = evaluator_.Predict(*plan);
    candidates_.push_back({{*std::move(plan), std::move(prediction)}, std::move(solution)});
  }

  void Report() const {
    if (!control_.on_progress) return;
    SearchProgress progress;
    progress.done_candidate_count = done_count_;
    progress.total_candidate_count = static_cast<int64_t>(cuts_.size());
    progress.expanded_state_count = search_.iteration_count();
    for (const Candidate& candidate : candidates_) {
      const Prediction& prediction = candidate.predicted.prediction;
      if (!prediction.fits()) continue;
      if (!progress.incumbent || prediction.step < *progress.incumbent) {
        progress.incumbent = prediction.step;
      }
    }
    control_.on_progress(progress);
  }

  SearchSummary Summary() const {
    SearchSummary summary;
    summary.termination = Termination::kFeasible;
    summary.limit = SearchLimit::kMethod;
    if (search_.stopped()) {
      const bool asked = control_.should_stop && control_.should_stop();
      summary.limit = asked ? SearchLimit::kTime : SearchLimit::kStates;
    }
    summary.expanded_state_count = search_.iteration_count();
    summary.candidate_count =
        static_cast<int64_t>(cuts_.size()) * static_cast<int64_t>(search_.meshes().size());
    return summary;
  }

  PlanningResult Result() {
    if (candidates_.empty()) return StoppedEmpty{Summary()};
    std::sort(candidates_.begin(), candidates_.end(),
              [this](const Candidate& a, const Candidate& b) { return ComesFirst(a, b); });
    const auto fits = [](const Candidate& candidate) {
      return candidate.predicted.prediction.fits();
    };
    const auto found = std::find_if(candidates_.begin(), candidates_.end(), fits);
    if (found == candidates_.end()) {
      if (search_.stopped()) return StoppedEmpty{Summary()};
      const Candidate& least = *std::min_element(candidates_.begin(), candidates_.end(), IsSmaller);
      return NothingFits{.smallest_usable_memory = UpperOf(least),
                         .smallest_device_memory = DeviceMemoryFor(problem_, UpperOf(least)),
                         // Proved for these mappings only; others of the same programmes may need
                         // less.
                         .memory_is_proved = false,
                         .smallest_plan = least.predicted.plan,
                         .smallest_device_count = std::nullopt,
                         .search = Summary()};
    }
    PlanFound result;
    result.search = Summary();
    result.notes = Notes(found->solution);
    result.notes.push_back(absl::StrCat("nearest plan: ", PlanGist(found->predicted.plan)));
    for (auto other = found + 1; other != candidates_.end(); ++other) {
      if (static_cast<int>(result.alternatives.size()) + 1 >= problem_.rules().top_plan_count) {
        break;
      }
      if (fits(*other)) result.alternatives.push_back(other->predicted);
    }
    result.plan = std::move(found->predicted.plan);
    result.prediction = std::move(found->predicted.prediction);
    return result;
  }

  const PlanningProblem& problem_;
  const CostModel& costs_;
  const SearchControl& control_;
  const Goal goal_;
  MeshSearch search_;
  PlanEvaluator evaluator_;
  const std::vector<BatchCut> cuts_;
  std::vector<Candidate> candidates_;
  int64_t done_count_ = 0;
};

// Both planners make plans of one stage, which cannot be divided into virtual stages.
bool WantsVirtualStages(const PlanningProblem& problem) {
  return TraitsOf(problem.rules().schedule.value_or(kDefaultSchedule)).has_virtual_stages;
}

}  // namespace

std::optional<PlanningResult> SearchMinMemoryIlp(const PlanningProblem& problem,
                                                 const CostModel& costs,
                                                 const SearchControl& control) {
  if (WantsVirtualStages(problem)) return std::nullopt;
  return IlpPlanner(problem, costs, control, IlpPlanner::Goal::kLeastMemory).Run();
}

std::optional<PlanningResult> SearchAlpaLike(const PlanningProblem& problem, const CostModel& costs,
                                             const SearchControl& control) {
  if (WantsVirtualStages(problem)) return std::nullopt;
  return IlpPlanner(problem, costs, control, IlpPlanner::Goal::kLeastTime).Run();
}

}  // namespace parplan
