#include "studies/papers/walk_limits.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <limits>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "base/check.h"
#include "planner/cost/cost_model.h"
#include "planner/planners/galvatron/bmw_walk.h"
#include "studies/papers/paper_search.h"
#include "studies/papers/pipelines_alone.h"

namespace parplan::papers {
namespace {

// Returns the step of the fastest plan of the first partitions of each walk, where the end at
// balanced time is always visited and does not count; 0 if none fits.
double LeastStep(const std::vector<ExplainedWalk>& walks, int partition_limit) {
  std::optional<Seconds> least;
  for (const ExplainedWalk& walk : walks) {
    int count = 0;
    for (const ExplainedStep& step : walk.steps) {
      if (step.step.verdict != PartitionVerdict::kEnd && ++count > partition_limit) continue;
      if (!step.plan || !step.plan->prediction.fits()) continue;
      const Seconds taken = step.plan->prediction.step;
      least = least ? std::min(*least, taken) : taken;
    }
  }
  return least ? SixDigits(least->value()) : 0.0;
}

double TwoDigits(double seconds) { return std::round(seconds * 100.0) / 100.0; }

}  // namespace

WalkRow WalkRowOf(const WalkQuestion& question) {
  const PlanningProblem problem = WithPartitioner(
      PipelinesAlone(ProblemOf(ModelOf(question.family, question.layer_count), question.devices,
                               {.step = 0, .largest = question.batch})),
      Partitioner::kEven);
  WalkRow row{.model = ModelName(question.family, question.layer_count),
              .device_kind = question.devices.kind,
              .device_count = question.devices.count,
              .memory_gb = question.devices.memory_gb,
              .batch = question.batch};
  const Answer answer = Ask(problem, "galvatron-bmw");
  if (!answer.plan) return row;
  row.stage_count = answer.pipeline_degree;
  row.micro_batch_count = answer.micro_batch_count;
  const absl::StatusOr<CostModel> costs = CostModel::Create(problem);
  PARPLAN_CHECK(costs.ok());
  std::vector<ExplainedWalk> walks;
  for (const int log : kStateLimitLogs) {
    const std::clock_t start = std::clock();
    walks = ExplainWalks(problem, *costs, *answer.plan, {}, int64_t{1} << log);
    row.seconds_by_states.push_back(
        TwoDigits(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC));
    row.steps_by_states.push_back(LeastStep(walks, std::numeric_limits<int>::max()));
  }
  row.walk_count = static_cast<int>(walks.size());
  for (const ExplainedWalk& walk : walks) {
    row.most_partitions = std::max(row.most_partitions, static_cast<int>(walk.steps.size()));
    row.has_most_partitions |= walk.end == WalkEnd::kMostPartitions;
  }
  for (const int limit : kPartitionLimits) {
    row.steps_by_partitions.push_back(LeastStep(walks, limit));
  }
  row.steps_by_partitions.push_back(row.steps_by_states.back());
  return row;
}

std::vector<WalkQuestion> WalkQuestions() {
  std::vector<WalkQuestion> questions;
  for (const Family family : {Family::kT5Short, Family::kT5, Family::kSwin}) {
    for (const int layer_count : {32, 48}) {
      for (const int memory_gb : {8, 12, 16}) {
        questions.push_back({family, layer_count, {.memory_gb = memory_gb}});
      }
    }
  }
  constexpr char kA100[] = "a100-sxm-80gb";
  questions.push_back({Family::kT5Short, 320, {.kind = kA100, .count = 8, .memory_gb = 80}, 64});
  for (const auto& [family, layer_count] :
       {std::pair(Family::kT5Short, 320), std::pair(Family::kT5Short, 1000),
        std::pair(Family::kSwin, 320), std::pair(Family::kSwin, 1000)}) {
    questions.push_back({family, layer_count, {.kind = kA100, .count = 64, .memory_gb = 80}, 256});
  }
  return questions;
}

}  // namespace parplan::papers
