#include "planner/planners/exact/exact_candidates.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <variant>

#include "planner/model/plan.h"
#include "planner/planners/baselines/baselines.h"
#include "planner/planners/baselines/uniform_search.h"
#include "planner/planners/exact/interleaved/group_sizes.h"
#include "planner/planners/exact/interleaved/interleaved_search.h"
#include "planner/planners/exact/pipeline/pipeline_bound.h"
#include "planner/planners/galvatron/galvatron_search.h"

namespace parplan {
namespace {

// Operations that finding the least times of a definition, and bounding a candidate, count as. On
// 2,048 devices the times of an uncommon layer take 2 ms until its strategies are known and some
// microseconds afterwards, a bound about one.
constexpr int64_t kWorkOfDefinition = 40'000;
constexpr int64_t kWorkOfBound = 100;

// Options in tables, about 150 bytes each (200 MiB), above which tables that are not needed now are
// dropped. With the limit a search of a thousand different layers on 1,024 devices needs 0.7 GiB
// instead of 1.2 GiB; a lower one computes tables again.
constexpr int64_t kMaxOptionsKept = 1'500'000;

// Limit of states of each method that gives a first plan, so that a seed cannot take longer than
// the search it helps. Not measured.
constexpr int64_t kMaxSeedStates = 50'000'000;

Seconds BoundOf(const StrategySpace& space, const LeastTimes& least,
                const std::map<int, InterleavedBounds>& interleaved,
                const PipelineCandidate& candidate) {
  if (TraitsOf(candidate.schedule).has_virtual_stages) {
    return interleaved.at(candidate.pipeline_parallel_degree)
        .Bound(least, candidate.micro_batch_count);
  }
  double total = 0.0;
  double longest = 0.0;
  for (const ModelLayerRun& run : space.problem().model().layer_runs()) {
    const double forward_backward = least.forward_and_backward[run.definition_index].value();
    total += forward_backward * run.layer_count;
    longest = std::max(longest, forward_backward);
  }
  const double spread = SpreadStepBound(candidate.schedule, candidate.pipeline_parallel_degree,
                                        candidate.micro_batch_count, total, longest);
  return Seconds::Of(spread * (1.0 - 1e-12));
}

// Drops all but the largest micro-batch count of each micro-batch size, for candidates with one
// stage. A plan needs the same memory with each count, because one micro-batch is in flight, and
// its step is that many passes and one synchronisation, so more micro-batches take no longer per
// sample.
void DropFewerOfOneStage(std::vector<ExactCandidate>& candidates) {
  // [micro-batch size] the largest count.
  std::map<int64_t, int64_t> largest_count;
  for (const ExactCandidate& candidate : candidates) {
    const PipelineCandidate& pipeline = candidate.pipeline;
    if (pipeline.pipeline_parallel_degree > 1) continue;
    int64_t& count = largest_count[TableCache::KeyOf(pipeline).second];
    count = std::max(count, pipeline.micro_batch_count);
  }
  std::erase_if(candidates, [&largest_count](const ExactCandidate& candidate) {
    const PipelineCandidate& pipeline = candidate.pipeline;
    return pipeline.pipeline_parallel_degree == 1 &&
           pipeline.micro_batch_count < largest_count.at(TableCache::KeyOf(pipeline).second);
  });
}

}  // namespace

void ForEach(const ParallelFor& parallel_for, int64_t count,
             const std::function<void(int64_t)>& work) {
  if (parallel_for && count > 1) {
    parallel_for(count, work);
    return;
  }
  for (int64_t index = 0; index < count; ++index) work(index);
}

bool TableCache::Prepare(const StrategySpace& space, const CostModel& costs, std::vector<Key> keys,
                         const SearchControl& control) {
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  int64_t option_count = 0;
  for (const auto& [key, table] : tables_) option_count += table->option_count();
  if (option_count > kMaxOptionsKept) {
    std::erase_if(tables_, [&keys](const auto& known) {
      return !std::binary_search(keys.begin(), keys.end(), known.first);
    });
  }
  std::erase_if(keys, [this](const Key& key) { return tables_.contains(key); });
  std::vector<std::unique_ptr<const OptionTable>> made(keys.size());
  std::atomic<bool> was_stopped = false;
  ForEach(control.parallel_for, static_cast<int64_t>(keys.size()), [&](int64_t index) {
    if (was_stopped || (control.should_stop && control.should_stop())) {
      was_stopped = true;
      return;
    }
    auto table = std::make_unique<const OptionTable>(
        space.problem(), costs, space, keys[index].first, keys[index].second,
        OptionTable::Keeps::kUndominated, control.should_stop);
    if (!table->is_complete()) {
      was_stopped = true;
      return;
    }
    made[index] = std::move(table);
  });
  for (size_t index = 0; index < keys.size(); ++index) {
    if (made[index] != nullptr) tables_[keys[index]] = std::move(made[index]);
  }
  return !was_stopped;
}

bool TableCache::PrepareLeastCosts(const StrategySpace& space, const CostModel& costs,
                                   std::vector<Key> keys, const SearchControl& control) {
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  std::erase_if(keys, [this](const Key& key) { return least_costs_.contains(key); });
  std::vector<LeastCosts> made(keys.size());
  std::atomic<bool> was_stopped = false;
  ForEach(control.parallel_for, static_cast<int64_t>(keys.size()), [&](int64_t index) {
    if (was_stopped || (control.should_stop && control.should_stop())) {
      was_stopped = true;
      return;
    }
    made[index] = LeastCostsOf(space, costs, keys[index].first, keys[index].second);
  });
  if (was_stopped) return false;
  for (size_t index = 0; index < keys.size(); ++index) {
    least_costs_.emplace(keys[index], std::move(made[index]));
  }
  return true;
}

CandidateList ListCandidates(const StrategySpace& space, const CostModel& costs, SearchMeter& meter,
                             LeastTimesMemo& memo) {
  CandidateList list;
  for (const int64_t batch : space.problem().GlobalBatchSizes()) {
    const std::vector<int64_t> counts = space.MicroBatchCounts(batch);
    for (const int degree : space.PipelineDegrees()) {
      for (const Schedule schedule : space.Schedules(degree)) {
        for (const int64_t count : counts) {
          if (count > kMaxForwardPassCount / degree) continue;
          const ExactCandidate candidate = {.pipeline = {.global_batch_size = batch,
                                                         .micro_batch_count = count,
                                                         .pipeline_parallel_degree = degree,
                                                         .schedule = schedule}};
          if (TraitsOf(schedule).has_virtual_stages && HasGroupSizes(space, degree, count)) {
            list.grouped.push_back(candidate);
          }
          if (TraitsOf(schedule).needs_whole_groups && count % degree != 0) continue;
          list.candidates.push_back(candidate);
        }
      }
    }
  }
  if (space.problem().rules().top_plan_count == 1) DropFewerOfOneStage(list.candidates);
  std::vector<TableCache::Key> keys;
  for (const std::vector<ExactCandidate>* const part : {&list.candidates, &list.grouped}) {
    for (const ExactCandidate& candidate : *part) {
      keys.push_back(TableCache::KeyOf(candidate.pipeline));
    }
  }
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  std::vector<LeastTimes> least(keys.size());
  // Most of what one candidate needs was computed for others.
  LeastTimesFinder finder(space.problem(), costs, space, memo);
  const auto definition_count =
      static_cast<int64_t>(space.problem().model().layer_definitions().size());
  CandidateList incomplete;
  incomplete.complete = false;
  if (!meter.ShouldContinue()) return incomplete;
  for (size_t index = 0; index < keys.size(); ++index) {
    least[index] = finder.Find(keys[index].first, keys[index].second);
    if (!meter.Work(kWorkOfDefinition * definition_count)) return incomplete;
  }
  std::map<int, InterleavedBounds> interleaved;
  for (const int degree : space.PipelineDegrees()) {
    interleaved.try_emplace(degree, space, degree);
    if (!meter.ShouldContinue()) return incomplete;
  }
  const Seconds overhead = costs.step_overhead();
  for (ExactCandidate& candidate : list.candidates) {
    if (!meter.Work(kWorkOfBound)) return incomplete;
    const TableCache::Key key = TableCache::KeyOf(candidate.pipeline);
    const LeastTimes& times = least[std::lower_bound(keys.begin(), keys.end(), key) - keys.begin()];
    candidate.bound = times.usable
                          ? BoundOf(space, times, interleaved, candidate.pipeline) + overhead
                          : Seconds::Infinite();
  }
  for (ExactCandidate& candidate : list.grouped) {
    if (!meter.Work(kWorkOfBound)) return incomplete;
    const TableCache::Key key = TableCache::KeyOf(candidate.pipeline);
    const LeastTimes& times = least[std::lower_bound(keys.begin(), keys.end(), key) - keys.begin()];
    candidate.bound = times.usable
                          ? interleaved.at(candidate.pipeline.pipeline_parallel_degree)
                                    .GroupSizeBound(times, candidate.pipeline.micro_batch_count) +
                                overhead
                          : Seconds::Infinite();
  }
  for (ExactCandidate candidate : list.candidates) {
    if (!TraitsOf(candidate.pipeline.schedule).has_virtual_stages) continue;
    if (!meter.Work(kWorkOfBound)) return incomplete;
    const TableCache::Key key = TableCache::KeyOf(candidate.pipeline);
    const LeastTimes& times = least[std::lower_bound(keys.begin(), keys.end(), key) - keys.begin()];
    if (!times.usable) continue;
    candidate.bound = interleaved.at(candidate.pipeline.pipeline_parallel_degree)
                          .UnevenBound(times, candidate.pipeline.micro_batch_count) +
                      overhead;
    if (candidate.bound.is_finite()) list.uneven.push_back(candidate);
  }
  for (std::vector<ExactCandidate>* const part : {&list.candidates, &list.grouped}) {
    std::erase_if(*part,
                  [](const ExactCandidate& candidate) { return !candidate.bound.is_finite(); });
  }
  std::sort(list.candidates.begin(), list.candidates.end(), MorePromising);
  return list;
}

std::vector<PredictedPlan> SeedPlans(const PlanningProblem& problem, const CostModel& costs,
                                     const SearchControl& control, SearchMeter& meter) {
  std::vector<int64_t> batches = problem.GlobalBatchSizes();
  if (batches.size() > 2) batches = {batches.front(), batches.back()};
  std::vector<PredictedPlan> seeds;
  const auto take = [&](std::optional<PlanningResult> result) {
    if (!result) return;
    std::visit([&](const auto& answer) { meter.Expand(answer.search.expanded_state_count); },
               *result);
    auto* const found = std::get_if<PlanFound>(&*result);
    if (found == nullptr || !found->prediction.fits()) return;
    // The declared space has no such plans.
    if (TraitsOf(found->plan.schedule).has_virtual_stages && found->plan.virtual_stage_count == 1) {
      return;
    }
    seeds.push_back({std::move(found->plan), std::move(found->prediction)});
  };
  for (const int64_t batch : batches) {
    const PlanningProblem each = problem.WithGlobalBatchSize(batch);
    const auto limits = [&] {
      SearchControl quiet = control;
      quiet.on_progress = nullptr;
      quiet.max_state_count = kMaxSeedStates;
      if (control.max_state_count > 0) {
        const int64_t left = control.max_state_count - meter.expanded_state_count();
        quiet.max_state_count = std::clamp<int64_t>(left, 1, kMaxSeedStates);
      }
      return quiet;
    };
    for (const UniformGrid& grid : {MegatronGrid(), FsdpGrid()}) {
      if (!meter.ShouldContinue()) return seeds;
      take(SearchUniform(each, costs, grid, limits()));
    }
    if (!meter.ShouldContinue()) return seeds;
    take(SearchGalvatronMethod(each, costs, {.with_recompute = true, .adjusts = true}, limits()));
  }
  return seeds;
}

}  // namespace parplan
