#include "studies/papers/search_times.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/check.h"
#include "planner/find_plan.h"
#include "studies/papers/grid.h"
#include "studies/papers/paper_search.h"

namespace parplan::papers {
namespace {

constexpr int kMaxRuns = 5;
constexpr double kEnoughSeconds = 0.1;
constexpr char kA100[] = "a100-sxm-80gb";

// Axes of the grid's cells: `grid-NAME-N`.
constexpr absl::string_view kGrid = "grid-";

std::string GridAxis(Family family, int layer_count, int device_count) {
  return absl::StrCat(kGrid, ModelName(family, layer_count), "-", device_count);
}

// Planners that solve integer programs, of which a build may have none.
constexpr absl::string_view kPrograms[] = {"min-memory-ilp", "alpa-like", "colossal-auto-like"};

// Returns the processor time since `start`. It is that of a search, because the study has one
// thread; a machine that others keep busy makes it hardly longer, and wall time much.
double SecondsSince(std::clock_t start) {
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

PlanningProblem InPartOfTree(const PlanningProblem& problem, int strategy_count) {
  PlanningRules rules = InTree(problem).rules();
  rules.allow_recompute = strategy_count > 22;
  if (strategy_count < 22) {
    rules.dimensions = rules.dimensions.Without(SearchDimension::kTensor);
    rules.allow_sharded_data_parallel = strategy_count > 4;
  }
  return problem.WithRules(rules);
}

}  // namespace

double LimitOfAxis(absl::string_view axis) {
  if (absl::StartsWith(axis, kLong)) return kLongSearchSeconds;
  if (!absl::StartsWith(axis, kOther)) return kSearchSeconds;
  return absl::StartsWith(QuestionAxis(axis), kGrid) ? kGridSearchSeconds : kOtherSearchSeconds;
}

TimedSearch TimeSearch(const PlanningProblem& problem, const std::string& planner,
                       double limit_seconds) {
  TimedSearch timed{.planner = planner};
  double total = 0.0;
  for (int run = 0; run < kMaxRuns && total < kEnoughSeconds; ++run) {
    const std::clock_t start = std::clock();
    SearchControl control;
    control.should_stop = [start, limit_seconds] { return SecondsSince(start) > limit_seconds; };
    const Answer answer = Ask(problem, planner, control);
    const double seconds = SecondsSince(start);
    total += seconds;
    timed.seconds = run == 0 ? seconds : std::min(timed.seconds, seconds);
    timed.rate = SixDigits(answer.rate);
    timed.stopped = answer.stopped;
    timed.gap = answer.rate > 0.0 ? SixDigits(answer.gap) : 1.0;
    timed.memory_gib = SixDigits(answer.memory.as_double() / (1 << 30));
  }
  return timed;
}

std::vector<std::pair<int, PlanningProblem>> QuestionsOfAxis(const std::string& axis) {
  std::vector<std::pair<int, PlanningProblem>> questions;
  if (absl::StartsWith(axis, kGrid)) {
    for (const GridQuestion& cell : GridQuestions()) {
      if (axis != GridAxis(cell.family, cell.layer_count, cell.device_count)) continue;
      questions.emplace_back(cell.memory_gb, ProblemOf(cell));
    }
    PARPLAN_CHECK(!questions.empty());
  } else if (axis == "layers") {
    for (const int layers : {32, 100, 320, 1000, 3200, 10000}) {
      questions.emplace_back(layers, ProblemOf(ModelOf(Family::kBert, layers),
                                               {.kind = kA100, .count = 64, .memory_gb = 80},
                                               {.step = 0, .largest = 128}));
    }
  } else if (axis == "devices") {
    for (int devices = 8; devices <= 512; devices *= 2) {
      questions.emplace_back(devices, ProblemOf(ModelOf(Family::kBert, 256),
                                                {.kind = kA100, .count = devices, .memory_gb = 80},
                                                {.step = 0, .largest = int64_t{2} * devices}));
    }
  } else if (axis == "memory") {
    for (const int memory_gb : {8, 16, 32, 64, 80}) {
      questions.emplace_back(
          memory_gb,
          ProblemOf(ModelOf(Family::kBert, 32), {.kind = kA100, .count = 8, .memory_gb = memory_gb},
                    {.step = 0, .largest = 64}));
    }
  } else {
    PARPLAN_CHECK(axis == "strategies");
    // Data parallelism and pipelines; with sharding; with tensor parallelism; with recomputation.
    for (const int strategies : {4, 7, 22, 44}) {
      questions.emplace_back(strategies,
                             InPartOfTree(ProblemOf(ModelOf(Family::kBert, 32),
                                                    {.count = 8, .memory_gb = 16}, {0, 64}),
                                          strategies));
    }
  }
  return questions;
}

bool BoundsItsSpace(absl::string_view planner) {
  return planner == kTreeOptimum || planner == "exact";
}

bool MinimisesMemory(absl::string_view planner) { return planner == kPrograms[0]; }

std::vector<std::string> TimedPlanners() {
  return {"galvatron", "galvatron-base", "galvatron-bmw", kTreeOptimum, "exact"};
}

std::vector<std::string> ProgramPlanners() {
  std::vector<std::string> programs;
  for (const std::string& planner : PlannerNames()) {
    if (absl::c_linear_search(kPrograms, planner)) programs.push_back(planner);
  }
  return programs;
}

std::vector<std::string> LongPlanners() {
  std::vector<std::string> planners = TimedPlanners();
  for (std::string& planner : ProgramPlanners()) planners.push_back(std::move(planner));
  return planners;
}

std::vector<std::string> OtherPlanners(absl::string_view axis) {
  const std::vector<std::string> shown =
      absl::StartsWith(axis, absl::StrCat(kOther, kGrid)) ? StudyPlanners() : LongPlanners();
  std::vector<std::string> others;
  for (const std::string& planner : PlannerNames()) {
    if (!absl::c_linear_search(shown, planner)) others.push_back(planner);
  }
  return others;
}

std::vector<std::string> OtherGridAxes() {
  std::vector<std::string> axes;
  for (const GridQuestion& cell : GridQuestions()) {
    std::string axis =
        absl::StrCat(kOther, GridAxis(cell.family, cell.layer_count, cell.device_count));
    if (axes.empty() || axes.back() != axis) axes.push_back(std::move(axis));
  }
  return axes;
}

std::string QuestionAxis(absl::string_view axis) {
  absl::ConsumePrefix(&axis, kLong);
  absl::ConsumePrefix(&axis, kOther);
  return axis == "granularity" ? "layers" : std::string(axis);
}

std::vector<TimedSearch> TimeAxis(const std::string& axis) {
  const bool is_long = absl::StartsWith(axis, kLong);
  std::vector<std::string> planners = is_long ? LongPlanners() : TimedPlanners();
  if (absl::StartsWith(axis, kOther)) planners = OtherPlanners(axis);
  const std::string asked = QuestionAxis(axis);
  const std::vector<std::pair<int, PlanningProblem>> questions = QuestionsOfAxis(asked);
  std::vector<TimedSearch> searches;
  for (const auto& [value, problem] : questions) {
    for (const std::string& planner : planners) {
      const bool is_short = asked == "layers" && value < kLeastLongLayers;
      if (is_long && is_short && absl::c_linear_search(kPaperPlanners, planner)) continue;
      TimedSearch timed = TimeSearch(problem, planner, LimitOfAxis(axis));
      timed.axis = axis;
      timed.value = value;
      searches.push_back(std::move(timed));
    }
  }
  return searches;
}

}  // namespace parplan::papers
