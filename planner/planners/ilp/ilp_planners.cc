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
#include "planner/planners/baselines/baselines.h"
#include "planner/planners/baselines/uniform_search.h"
#include "planner/planners/exact/least_memory_search.h"
#include "planner/planners/exact/memory/smallest_memory.h"
#include "planner/planners/ilp/mesh_search.h"
#include "planner/planners/ilp/nearest_plan.h"
#include "planner/planners/ilp/recomputed_plan.h"
#include "planner/search/base/search_meter.h"
#include "planner/search/space/strategy_space.h"

namespace parplan {
namespace {

constexpr double kGibibyte = 1024.0 * 1024.0 * 1024.0;

// A plan, and the solution it was made from; none if another search found it.
struct Candidate {
  PredictedPlan predicted;
  std::optional<MeshSolution> solution;
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

// Returns what takes the place of the objective (5') for a plan, in bytes: the upper
// bound of its peak plus alpha times its step.
double WeightOf(const Candidate& candidate, double alpha) {
  return UpperOf(candidate).as_double() + alpha * candidate.predicted.prediction.step.value();
}

std::vector<std::string> NotesOf(const MeshSolution& solution, const std::string& objective,
                                 double unit, const char* unit_name) {
  const GraphAnswer& answer = solution.answer;
  const double memory = answer.totals.memory_bytes();
  std::vector<std::string> notes;
  notes.push_back(absl::StrFormat(
      "program on a mesh of %s, %d micro-batch(es) of %d: %.3f GiB a device in all, %.3f GiB at "
      "the peak, %.1f ms a step",
      solution.mesh.ToString(), solution.cut.micro_batch_count, solution.cut.micro_batch_size,
      memory / kGibibyte, answer.totals.peak_bytes / kGibibyte, answer.totals.seconds * 1e3));
  notes.push_back(
      absl::StrFormat("%s %.6g %s, proved not to be below %.6g %s (%s; relaxation %.6g, %d nodes)",
                      objective, answer.objective / unit, unit_name, answer.bound / unit, unit_name,
                      answer.is_proved ? "optimal for the mesh" : "not proved optimal",
                      answer.relaxed_bound / unit, answer.node_count));
  notes.push_back(absl::StrFormat(
      "redundant in the program: %.3f GiB a device, which is its memory beyond an even share of "
      "%.3f GiB",
      (memory - solution.even_share_bytes) / kGibibyte, solution.even_share_bytes / kGibibyte));
  notes.insert(notes.end(), solution.choices.begin(), solution.choices.end());
  return notes;
}

// Candidates of the memory that the search for any plan visits whatever the limits say, so that a
// limit of milliseconds still has an answer. Each takes one table of options, and more time and
// memory the more layers differ: above so many definitions the limits hold here too (not measured
// for other numbers).
constexpr int64_t kPatientCandidates = 64;
constexpr size_t kPatientDefinitions = 128;

// Nodes after which a programme under a cap ends with the best solution so far, since capped
// programmes are hard to prove and the nearest plan is what counts. Not measured for other values.
constexpr int kMaxNodesWithinCap = 40;

class IlpPlanner {
 public:
  enum class Goal { kLeastMemory, kLeastTime, kLeastTimeRecomputed };

  IlpPlanner(const PlanningProblem& problem, const CostModel& costs, const SearchControl& control,
             Goal goal)
      : problem_(problem),
        costs_(costs),
        control_(control),
        goal_(goal),
        meter_(control),
        // A cap makes programmes hard: equal layers all choose alike. One percent is close enough,
        // because the nearest plan is what counts.
        search_(problem, costs,
                {.max_iteration_count = control.max_state_count,
                 .should_stop = control.should_stop,
                 .gap_ratio = goal == Goal::kLeastMemory ? 0.0 : 0.01,
                 .max_node_count = goal == Goal::kLeastMemory ? 0 : kMaxNodesWithinCap},
                goal == Goal::kLeastMemory ? Folding::kMiddle : Folding::kAll),
        evaluator_(problem, costs),
        cuts_(WantsVirtualStages(problem) ? std::vector<BatchCut>() : CutsOf(problem, costs)) {}

  std::optional<PlanningResult> Run() {
    if (goal_ != Goal::kLeastMemory && cuts_.empty()) return std::nullopt;
    AddQuickPlans();
    if (goal_ == Goal::kLeastMemory) AddLeastMemoryPlans();
    nothing_fits_ |= is_least_ && FindFitting() == candidates_.end();
    // Then nothing that programmes find can fit or need less.
    if (nothing_fits_ && is_least_) return Result();
    for (const BatchCut& cut : cuts_) {
      if (search_.stopped() || meter_.stopped()) break;
      if (goal_ == Goal::kLeastMemory) {
        std::optional<MeshSolution> solution =
            alpha() ? search_.LeastWeighted(cut, *alpha()) : search_.LeastMemory(cut);
        if (solution) Add(*std::move(solution));
      } else {
        AddLadder(search_, cut);
      }
      if (search_.stopped()) break;
      ++done_count_;
      Report();
    }
    if (candidates_.empty() && !stopped()) return std::nullopt;
    return Result();
  }

 private:
  std::optional<double> alpha() const { return problem_.rules().ilp_alpha_bytes_per_second; }
  bool stopped() const { return search_.stopped() || meter_.stopped(); }

  // Returns whether `a` is preferred to `b`.
  bool ComesFirst(const Candidate& a, const Candidate& b) const {
    if (goal_ != Goal::kLeastMemory) return IsFaster(a, b);
    if (!alpha()) return IsSmaller(a, b);
    const double weight_of_a = WeightOf(a, *alpha());
    const double weight_of_b = WeightOf(b, *alpha());
    return weight_of_a != weight_of_b ? weight_of_a < weight_of_b : IsSmaller(a, b);
  }

  // Adds plans that need no search, whatever the limits say: of one stage, each definition with
  // the strategy of least memory, without recomputation and with all of it. If none fits, the
  // first of any plans that does.
  void AddQuickPlans() {
    if (!cuts_.empty()) {
      const std::vector<LayerShare> nothing(problem_.model().layer_definitions().size());
      if (std::optional<Plan> plan = NearestPlan(problem_, costs_, nothing, cuts_.back())) {
        // Least memory does not depend on the budget.
        AddRecomputed(*plan, std::nullopt,
                      goal_ == Goal::kLeastMemory ? Bytes::Of(1) : problem_.usable_memory());
        Add(*std::move(plan), std::nullopt);
      }
    }
    if (goal_ != Goal::kLeastMemory || FindFitting() != candidates_.end()) return;
    SearchControl patient{.max_state_count = kPatientCandidates};
    if (problem_.model().layer_definitions().size() > kPatientDefinitions) {
      patient.should_stop = control_.should_stop;
    }
    SearchMeter meter(patient);
    FittingPlan fitting = FindPlanThatFits(StrategySpace(problem_, costs_), costs_, meter);
    if (fitting.plan) Add(*std::move(fitting.plan), std::nullopt);
    nothing_fits_ = fitting.none_fits;
  }

  // Adds the plan of least memory of the whole space. Where that is not proved, also the smallest
  // plans of the rivals it is compared with, so that none of them is below the answer.
  void AddLeastMemoryPlans() {
    std::optional<LeastMemoryPlan> least = FindLeastMemoryPlan(problem_, costs_, meter_);
    if (least) {
      is_least_ = least->memory_is_proved;
      Add(std::move(least->predicted), std::nullopt);
    }
    if (is_least_) return;
    const PlanningProblem without_room = problem_.WithUsableMemory(Bytes::Of(1));
    SearchControl quiet = control_;
    quiet.on_progress = nullptr;
    for (const UniformGrid& grid : {MegatronGrid(), FsdpGrid()}) {
      if (!meter_.ShouldContinue()) return;
      std::optional<PlanningResult> result = SearchUniform(without_room, costs_, grid, quiet);
      auto* const nothing = result ? std::get_if<NothingFits>(&*result) : nullptr;
      if (nothing != nullptr && nothing->smallest_plan) {
        Add(*std::move(nothing->smallest_plan), std::nullopt);
      }
    }
    MeshSearch ladders(problem_, costs_, LadderLimits(), Folding::kAll);
    for (const BatchCut& cut : cuts_) {
      if (ladders.stopped() || !meter_.ShouldContinue()) return;
      AddLadder(ladders, cut);
    }
  }

  SolveLimits LadderLimits() const {
    return {.max_iteration_count = control_.max_state_count,
            .should_stop = control_.should_stop,
            .gap_ratio = 0.01,
            .max_node_count = kMaxNodesWithinCap};
  }

  // Adds the plans of `alpa-like` for one micro-batch size.
  void AddLadder(MeshSearch& search, const BatchCut& cut) {
    // One cap, halfway; the ends are solved in any case.
    constexpr int kCapCount = 1;
    for (const DeviceMesh& mesh : search.meshes()) {
      for (MeshSolution& solution : search.TimeLadder(mesh, cut, kCapCount)) {
        // Each takes some 0.1 s for a thousand unlike layers, and there is a plan to answer with.
        const bool must_stop = control_.should_stop && control_.should_stop();
        if (must_stop && FindFitting() != candidates_.end()) return;
        Add(std::move(solution));
      }
    }
  }

  std::vector<std::string> Notes(const MeshSolution& solution) const {
    if (goal_ != Goal::kLeastMemory) return NotesOf(solution, "objective", 1.0, "s");
    if (!alpha()) return NotesOf(solution, "least memory", kGibibyte, "GiB");
    return NotesOf(solution,
                   absl::StrFormat("memory and time at %.6g GiB a second", *alpha() / kGibibyte),
                   kGibibyte, "GiB");
  }

  // Adds a plan, unless it is already there. A plan that is there without a solution gets it.
  void Add(PredictedPlan predicted, std::optional<MeshSolution> solution) {
    const auto same = std::find_if(
        candidates_.begin(), candidates_.end(),
        [&](const Candidate& candidate) { return candidate.predicted.plan == predicted.plan; });
    if (same == candidates_.end()) {
      candidates_.push_back({std::move(predicted), std::move(solution)});
    } else if (!same->solution) {
      same->solution = std::move(solution);
    }
  }
  void Add(Plan plan, std::optional<MeshSolution> solution) {
    Prediction prediction = evaluator_.Predict(plan);
    Add({std::move(plan), std::move(prediction)}, std::move(solution));
  }

  // Adds the nearest plan of a solution, and with recomputation where the planner chooses it.
  void Add(MeshSolution solution) {
    std::optional<Plan> plan = NearestPlan(problem_, costs_, solution.shares, solution.cut);
    if (!plan) return;
    if (goal_ == Goal::kLeastTimeRecomputed) {
      AddRecomputed(*plan, solution, problem_.usable_memory());
    }
    Add(*std::move(plan), std::move(solution));
  }

  // Adds the plan with as little recomputation as makes it fit into `usable` bytes, or with all of
  // it.
  void AddRecomputed(const Plan& plan, std::optional<MeshSolution> solution, Bytes usable) {
    if (goal_ == Goal::kLeastTime) return;
    std::optional<Plan> recomputed =
        RecomputedToFit(problem_, costs_, plan, usable, evaluator_, control_);
    if (recomputed) Add(*std::move(recomputed), std::move(solution));
  }

  void Report() const {
    if (!control_.on_progress) return;
    SearchProgress progress;
    progress.done_candidate_count = done_count_;
    progress.total_candidate_count = static_cast<int64_t>(cuts_.size());
    progress.expanded_state_count = StateCount();
    for (const Candidate& candidate : candidates_) {
      const Prediction& prediction = candidate.predicted.prediction;
      if (!prediction.fits()) continue;
      if (!progress.incumbent || prediction.step < *progress.incumbent) {
        progress.incumbent = prediction.step;
      }
    }
    control_.on_progress(progress);
  }

  int64_t StateCount() const { return search_.iteration_count() + meter_.expanded_state_count(); }

  SearchSummary Summary() const {
    SearchSummary summary;
    summary.termination = Termination::kFeasible;
    summary.limit = SearchLimit::kMethod;
    if (stopped()) {
      const bool asked = control_.should_stop && control_.should_stop();
      summary.limit = asked ? SearchLimit::kTime : SearchLimit::kStates;
    }
    summary.expanded_state_count = StateCount();
    summary.candidate_count =
        static_cast<int64_t>(cuts_.size()) * static_cast<int64_t>(search_.meshes().size());
    return summary;
  }

  std::vector<Candidate>::iterator FindFitting() {
    return std::find_if(candidates_.begin(), candidates_.end(), [](const Candidate& candidate) {
      return candidate.predicted.prediction.fits();
    });
  }

  // Returns the solution to report beside an answer: its own, or that of the first candidate with
  // one; null if there is none.
  const MeshSolution* SolutionBeside(const Candidate& answer) const {
    if (answer.solution) return &*answer.solution;
    for (const Candidate& candidate : candidates_) {
      if (candidate.solution) return &*candidate.solution;
    }
    return nullptr;
  }

  std::vector<std::string> NotesBeside(const Candidate& answer) const {
    std::vector<std::string> notes;
    const MeshSolution* const solution = SolutionBeside(answer);
    if (solution != nullptr) notes = Notes(*solution);
    notes.push_back(absl::StrCat(answer.solution ? "nearest plan: " : "plan of another search: ",
                                 PlanGist(answer.predicted.plan)));
    if (goal_ == Goal::kLeastMemory && !alpha()) {
      notes.push_back(is_least_ ? "no plan of the space has a smaller peak, proved"
                                : "not proved that no plan of the space has a smaller peak");
    }
    return notes;
  }

  PlanningResult Result() {
    if (candidates_.empty()) return StoppedEmpty{Summary()};
    std::stable_sort(candidates_.begin(), candidates_.end(),
                     [this](const Candidate& a, const Candidate& b) { return ComesFirst(a, b); });
    const auto found = FindFitting();
    if (found == candidates_.end()) {
      if (stopped() && !nothing_fits_) return StoppedEmpty{Summary()};
      const Candidate& least = *std::min_element(candidates_.begin(), candidates_.end(), IsSmaller);
      return NothingFits{.smallest_usable_memory = UpperOf(least),
                         .smallest_device_memory = DeviceMemoryFor(problem_, UpperOf(least)),
                         // Otherwise found for these mappings only; others of the same programmes
                         // may need less.
                         .memory_is_proved = is_least_,
                         .smallest_plan = least.predicted.plan,
                         .smallest_device_count = std::nullopt,
                         .search = Summary()};
    }
    PlanFound result;
    result.search = Summary();
    result.notes = NotesBeside(*found);
    for (auto other = found + 1; other != candidates_.end(); ++other) {
      if (static_cast<int>(result.alternatives.size()) + 1 >= problem_.rules().top_plan_count) {
        break;
      }
      if (other->predicted.prediction.fits()) result.alternatives.push_back(other->predicted);
    }
    result.plan = std::move(found->predicted.plan);
    result.prediction = std::move(found->predicted.prediction);
    return result;
  }

  // Programmes make plans of one stage, which cannot be divided into virtual stages.
  static bool WantsVirtualStages(const PlanningProblem& problem) {
    return TraitsOf(problem.rules().schedule.value_or(kDefaultSchedule)).has_virtual_stages;
  }

  const PlanningProblem& problem_;
  const CostModel& costs_;
  const SearchControl& control_;
  const Goal goal_;
  // Counts the states of searches over plans; `search_` counts steps of the simplex method.
  SearchMeter meter_;
  MeshSearch search_;
  PlanEvaluator evaluator_;
  const std::vector<BatchCut> cuts_;
  std::vector<Candidate> candidates_;
  // Whether a candidate has the least memory of the space, proved.
  bool is_least_ = false;
  // Whether it is proved that no plan of the space fits.
  bool nothing_fits_ = false;
  int64_t done_count_ = 0;
};

}  // namespace

std::optional<PlanningResult> SearchMinMemoryIlp(const PlanningProblem& problem,
                                                 const CostModel& costs,
                                                 const SearchControl& control) {
  return IlpPlanner(problem, costs, control, IlpPlanner::Goal::kLeastMemory).Run();
}

std::optional<PlanningResult> SearchAlpaLike(const PlanningProblem& problem, const CostModel& costs,
                                             const SearchControl& control) {
  return IlpPlanner(problem, costs, control, IlpPlanner::Goal::kLeastTime).Run();
}

std::optional<PlanningResult> SearchColossalAutoLike(const PlanningProblem& problem,
                                                     const CostModel& costs,
                                                     const SearchControl& control) {
  return IlpPlanner(problem, costs, control, IlpPlanner::Goal::kLeastTimeRecomputed).Run();
}

}  // namespace parplan
