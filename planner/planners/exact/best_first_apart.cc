// The searches of `BestFirstSearch` that come apart from the main loop: plans of partitions that
// are not listed, and plans of larger groups of micro-batches.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "planner/planners/exact/best_first_search.h"
#include "planner/planners/exact/interleaved/interleaved_search.h"
#include "planner/planners/exact/steady_bound.h"
#include "planner/search/space/option_table.h"

namespace parplan {
namespace {

// Tables of options for the bounds of partitions that are not listed, times the effort: more than
// the twenty that Llama-70B on 64 devices needs (`LimitsOfRun`). Not measured for other values.
constexpr int64_t kUnevenTables = 32;

// Candidates of larger groups that are searched, tables of options made for them, and plans of
// partitions that are not listed simulated, for all of them and for one. Their bounds are weak, so
// without limits every one of them would be searched, and the plans that they add are rarely the
// fastest. Not measured for other values.
constexpr int kMaxGroupCandidates = 24;
constexpr int kMaxGroupTables = 6;
constexpr int64_t kGroupLooks = 256;
constexpr int64_t kGroupLooksOfCandidate = 96;

}  // namespace

BestFirstSearch::UnevenLimits BestFirstSearch::LimitsOfRun() const {
  // About twenty tables bound Llama-70B on 64 devices to 0.5 % instead of 11 % with four. Of plans
  // few are simulated, because where layers have strategies of their own these are hardly ever the
  // fastest.
  return {.max_tables = kUnevenTables * meter_.effort(),
          .max_looked = 3,
          .max_looks_of_candidate = 16 * meter_.effort(),
          .ends_with_bound = true};
}

void BestFirstSearch::LookEarly() {
  // The search at the end, which has the bounds too, looks at the candidates in the same order as
  // `Prove`, which says whether `Run` finds a faster plan.
  std::vector<ExactCandidate> listed = uneven_;
  UnevenLimits limits = LimitsOfRun();
  limits.ends_with_plans = true;
  SearchUneven(limits);
  uneven_ = std::move(listed);
}

void BestFirstSearch::RunUneven() {
  const int64_t effort = meter_.effort();
  SearchUneven({.max_tables = 8 * effort,
                .max_looked = 2,
                .max_looks_of_candidate = 64 * effort,
                .ends_with_plans = true});
}

void BestFirstSearch::Reopen() {
  for (ExactCandidate& candidate : uneven_) {
    if (candidate.state == ExactCandidate::State::kSearched) {
      candidate.state = ExactCandidate::State::kTried;
    }
  }
}

void BestFirstSearch::SearchUneven(const UnevenLimits& limits) {
  if (space_.problem().model().layer_definitions().size() > kMaxDefinitionsChosen) return;
  CandidateQueue queue(uneven_);
  for (size_t index = 0; index < uneven_.size(); ++index) queue.Put(index);
  int looked_count = 0;
  std::set<TableCache::Key> tables;
  std::map<TableCache::Key, Seconds> steady;
  while (!queue.empty() && meter_.ShouldContinue()) {
    ExactCandidate& candidate = uneven_[queue.first()];
    // A candidate already searched cannot be bounded better, so neither can the whole.
    if (candidate.bound_per_sample() >= CutoffPerSample() ||
        candidate.state == ExactCandidate::State::kSearched) {
      return;
    }
    const TableCache::Key key = TableCache::KeyOf(candidate.pipeline);
    if (looked_count == limits.max_looked && limits.ends_with_plans) return;
    const size_t index = queue.first();
    queue.Pop();
    // A candidate that is closed like this needs no table and counts for no limit.
    if (AsksCapacity()) {
      if (!tables_.PrepareLeastCosts(space_, costs_, {key}, control_)) {
        return meter_.Stop(SearchLimit::kTime);
      }
      if (IsClosedByCapacity(candidate)) continue;
    }
    tables.insert(key);
    if (static_cast<int64_t>(tables.size()) > limits.max_tables) return;
    if (!tables_.Prepare(space_, costs_, {key}, control_)) return meter_.Stop(SearchLimit::kTime);
    const OptionTable& table = tables_.At(key);
    candidate.state = ExactCandidate::State::kSearched;
    const Seconds steady_bound = table.usable()
                                     ? UnevenBoundOfTable(key, steady) *
                                           static_cast<double>(candidate.pipeline.micro_batch_count)
                                     : Seconds::Infinite();
    candidate.bound = std::max(candidate.bound, steady_bound);
    // A candidate that this bound closes is not simulated and does not count for `max_looked`. The
    // wanted gap is left out, as in `SearchUnevenStages`.
    if (candidate.bound_per_sample() < WantedPerSample() * (1.0 - kProofTolerance)) {
      const int64_t max_looks =
          looked_count < limits.max_looked ? limits.max_looks_of_candidate : 0;
      int64_t looks_left = max_looks;
      const Seconds cutoff =
          WantedPerSample() * static_cast<double>(candidate.pipeline.global_batch_size);
      PipelineOutcome outcome = SearchUnevenStages(space_, costs_, table, candidate.pipeline,
                                                   cutoff, wanted_, looks_left, meter_);
      if (looks_left < max_looks) ++looked_count;
      candidate.bound = std::max(candidate.bound, outcome.bound);
      for (PredictedPlan& plan : outcome.plans) plans_.Offer(std::move(plan));
    }
    if (limits.ends_with_bound) queue.Put(index);
  }
}

Seconds BestFirstSearch::UnevenBoundOfTable(const TableCache::Key& key,
                                            std::map<TableCache::Key, Seconds>& steady) const {
  const auto [known, is_new] = steady.try_emplace(key);
  if (!is_new) return known->second;
  // All of them count, open or not, so that it does not depend on the cutoff which have this bound.
  const auto count = std::count_if(uneven_.begin(), uneven_.end(), [&](const auto& candidate) {
    return TableCache::KeyOf(candidate.pipeline) == key;
  });
  if (count < kFewestInGroup) return Seconds();
  // The bounds are cheap, and states count candidates, so they have no limit of states.
  SearchControl control = control_;
  control.max_state_count = 0;
  SearchMeter meter(control);
  const Seconds bound = UnevenSteadyBound(
      space_, costs_, tables_.At(key), WantedPerSample() * static_cast<double>(key.second), meter);
  if (!meter.stopped()) known->second = bound;
  return known->second;
}

void BestFirstSearch::SearchGroups() {
  std::vector<size_t> order(grouped_.size());
  for (size_t index = 0; index < order.size(); ++index) order[index] = index;
  std::sort(order.begin(), order.end(),
            [this](size_t a, size_t b) { return MorePromising(grouped_[a], grouped_[b]); });
  const int64_t effort = meter_.effort();
  int64_t looks_left = kGroupLooks * effort;
  int64_t candidates_left = kMaxGroupCandidates * effort;
  int64_t tables_left = kMaxGroupTables * effort;
  for (const size_t index : order) {
    ExactCandidate& candidate = grouped_[index];
    if (candidate.bound_per_sample() >= CutoffPerSample() || !meter_.ShouldContinue()) return;
    const TableCache::Key key = TableCache::KeyOf(candidate.pipeline);
    if (candidates_left-- == 0 || (!tables_.has(key) && tables_left-- == 0)) return;
    if (!tables_.Prepare(space_, costs_, {key}, control_)) return meter_.Stop(SearchLimit::kTime);
    const OptionTable& table = tables_.At(key);
    if (!table.usable()) {
      candidate.bound = Seconds::Infinite();
      continue;
    }
    int64_t looks = std::min(looks_left, kGroupLooksOfCandidate * effort);
    looks_left -= looks;
    const Seconds cutoff =
        WantedPerSample() * static_cast<double>(candidate.pipeline.global_batch_size);
    PipelineOutcome outcome =
        SearchGroupSizes(space_, costs_, table, candidate.pipeline, cutoff, wanted_, looks, meter_);
    looks_left += std::max<int64_t>(looks, 0);
    if (!meter_.stopped()) candidate.bound = std::max(candidate.bound, outcome.bound);
    for (PredictedPlan& plan : outcome.plans) plans_.Offer(std::move(plan));
  }
}

}  // namespace parplan
