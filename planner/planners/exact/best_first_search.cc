#include "planner/planners/exact/best_first_search.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "planner/planners/exact/interleaved/interleaved_search.h"
#include "planner/planners/exact/pipeline/pipeline_search.h"
#include "planner/planners/exact/pipeline/priced_search.h"
#include "planner/planners/exact/steady_bound.h"
#include "planner/search/space/option_table.h"

namespace parplan {
namespace {

// Candidates that are bounded, or searched, in one round. A part of the method, so that the result
// is the same on any number of threads. A larger round keeps more threads busy, but visits
// candidates that the first plan of the round would have closed. That wastes little for bounds,
// which are cheap, and much for searches, which may take seconds. Not measured for other values.
constexpr size_t kBoundedTogether = 8;
constexpr size_t kSearchedTogether = 2;
// States expanded without any plan after which other methods are asked for one: about as many as
// one mask may take without a plan (`kMaxStates` of pipeline_search.cc). A smaller number would run
// the other methods in searches that find a plan anyway. Not measured for other values.
constexpr int64_t kMaxStatesWithoutPlan = 300'000;
// Questions to `should_stop` between two reports of progress within one round: a report every 5 to
// 40 ms.
constexpr int64_t kQuestionsBetweenReports = 4;

bool IsGpipe(const PipelineCandidate& candidate) {
  return !TraitsOf(candidate.schedule).has_steady_state && candidate.pipeline_parallel_degree > 1;
}

// Returns whether `SteadyBound` applies to the candidate.
bool IsSteady(const PipelineCandidate& candidate) {
  return !IsGpipe(candidate) && candidate.micro_batch_count >= candidate.pipeline_parallel_degree;
}

}  // namespace

void BestFirstSearch::set_visits(VisitCache* visits) {
  visits_ = visits;
  if (visits == nullptr) return;
  strategies_of_visits_ = visits->StrategiesId(space_.dimensions()
                                                   .Without(SearchDimension::kInterleaved)
                                                   .Without(SearchDimension::kGroupSize)
                                                   .Without(SearchDimension::kUnevenStages)
                                                   .ToString());
}

void BestFirstSearch::MakeGroups() {
  groups_.clear();
  for (const ExactCandidate& candidate : candidates_) {
    Group& group = groups_[TableCache::KeyOf(candidate.pipeline)];
    if (IsSteady(candidate.pipeline))
      ++group.steady(Interleaves(candidate.pipeline)).candidate_count;
  }
}

Seconds BestFirstSearch::GroupBound(const PipelineCandidate& candidate) const {
  const Group& group = groups_.at(TableCache::KeyOf(candidate));
  if (IsGpipe(candidate)) {
    return candidate.micro_batch_count >= group.too_many_for_gpipe ? Seconds::Infinite()
                                                                   : Seconds();
  }
  if (!IsSteady(candidate)) return Seconds();
  return group.steady(Interleaves(candidate)).bound.value_or(Seconds()) *
         static_cast<double>(candidate.micro_batch_count);
}

bool BestFirstSearch::IsDominated(const ExactCandidate& candidate) const {
  if (wanted_ > 1 || candidate.state == ExactCandidate::State::kListed) return false;
  const PipelineCandidate& pipeline = candidate.pipeline;
  const Group& group = groups_.at(TableCache::KeyOf(pipeline));
  const Unproved& unproved = group.unproved[static_cast<int>(pipeline.schedule)];
  return pipeline.micro_batch_count < unproved.micro_batch_count &&
         candidate.bound_per_sample() >= unproved.bound_per_sample;
}

void BestFirstSearch::BoundGroups(const std::vector<size_t>& round) {
  const Seconds cutoff = WantedPerSample();
  if (!cutoff.is_finite()) return;
  std::vector<Question> questions;
  for (const size_t index : round) {
    const PipelineCandidate& candidate = candidates_[index].pipeline;
    const bool interleaves = Interleaves(candidate);
    const TableCache::Key key = TableCache::KeyOf(candidate);
    const SteadyGroup& group = groups_.at(key).steady(interleaves);
    if (!IsSteady(candidate) || group.bound.has_value() || group.candidate_count < kFewestInGroup ||
        !tables_.At(key).usable()) {
      continue;
    }
    questions.push_back({key, interleaves});
  }
  std::sort(questions.begin(), questions.end());
  questions.erase(std::unique(questions.begin(), questions.end()), questions.end());
  std::vector<Seconds> answers(questions.size());
  // The bounds are cheap, and states count candidates, so they have no limit of states.
  SearchControl control = control_;
  control.max_state_count = 0;
  ForEach(control_.parallel_for, static_cast<int64_t>(questions.size()), [&](int64_t k) {
    const auto& [key, interleaves] = questions[k];
    SearchMeter meter(control);
    const Seconds bound = SteadyBound(space_, costs_, tables_.At(key),
                                      interleaves ? Schedule::kInterleaved : kDefaultSchedule,
                                      cutoff * static_cast<double>(key.second), meter);
    answers[k] = meter.stopped() ? Seconds() : bound;
  });
  for (size_t k = 0; k < questions.size(); ++k) {
    groups_[questions[k].key].steady(questions[k].interleaves).bound = answers[k];
  }
}

void BestFirstSearch::Run() {
  if (IsEnough()) return;
  MakeGroups();
  CandidateQueue queue(candidates_);
  int64_t largest_batch = 0;
  for (size_t index = 0; index < candidates_.size(); ++index) {
    queue.Put(index);
    largest_batch = std::max(largest_batch, candidates_[index].pipeline.global_batch_size);
  }
  // An incumbent closes most candidates unseen, and it is found sooner among those of one batch:
  // the largest, because filling and synchronisation are spread over most samples.
  queue.Prefer(largest_batch);
  bool may_look_early = !uneven_.empty();
  const int64_t states_before = meter_.expanded_state_count();
  while (meter_.ShouldContinue()) {
    if (!plans_.plans().empty()) queue.Prefer(0);
    const std::vector<size_t> round = NextRound(queue);
    if (round.empty()) break;
    Visit(round);
    for (const size_t index : round) {
      if (candidates_[index].state != ExactCandidate::State::kSearched) queue.Put(index);
    }
    Seed();
    if (may_look_early && meter_.expanded_state_count() - states_before >= states_before_uneven_) {
      may_look_early = false;
      LookEarly();
    }
    Report(0);
    if (IsEnough()) return;
  }
  SearchUneven(LimitsOfRun());
  SearchGroups();
}

std::vector<size_t> BestFirstSearch::NextRound(CandidateQueue& queue) {
  const Seconds cutoff = CutoffPerSample();
  std::vector<size_t> round;
  size_t together = 1;
  while (!queue.empty() && round.size() < together) {
    const size_t index = queue.first();
    ExactCandidate& next = candidates_[index];
    // Bounds never fall and the cutoff never rises, so the candidate stays closed.
    if (next.bound_per_sample() >= cutoff) {
      queue.Pop();
      continue;
    }
    const Seconds group_bound = GroupBound(next.pipeline);
    if (group_bound > next.bound) {
      queue.Pop();
      next.bound = group_bound;
      queue.Put(index);
      continue;
    }
    if (IsDominated(next)) {
      queue.Pop();
      next.state = ExactCandidate::State::kSearched;
      continue;
    }
    if (round.empty()) {
      // Until there is a plan, search one candidate at a time: its plan will probably close the
      // next.
      together = next.state == ExactCandidate::State::kListed ? kBoundedTogether
                 : plans_.plans().empty()                     ? 1
                                                              : kSearchedTogether;
    } else if (next.state != candidates_[round.front()].state) {
      break;
    }
    round.push_back(index);
    queue.Pop();
  }
  return round;
}

void BestFirstSearch::Seed() {
  if (was_seeded_ || !plans_.plans().empty()) return;
  // Those methods take long for many layers, and prices nearly always find a plan.
  if (space_.problem().model().layer_count() >= kManyLayers) return;
  const bool is_hard =
      meter_.expanded_state_count() > kMaxStatesWithoutPlan ||
      std::any_of(candidates_.begin(), candidates_.end(), [](const ExactCandidate& candidate) {
        return candidate.state == ExactCandidate::State::kSearched && candidate.bound.is_finite();
      });
  if (!is_hard) return;
  was_seeded_ = true;
  for (PredictedPlan& plan : SeedPlans(space_.problem(), costs_, control_, meter_)) {
    plans_.Offer(std::move(plan));
  }
}

bool BestFirstSearch::PrepareTables(const std::vector<size_t>& round) {
  std::vector<TableCache::Key> keys;
  for (const size_t index : round) {
    keys.push_back(TableCache::KeyOf(candidates_[index].pipeline));
  }
  return tables_.Prepare(space_, costs_, std::move(keys), control_);
}

bool BestFirstSearch::CloseByCapacity(std::vector<size_t>& round) {
  if (!AsksCapacity()) return true;
  std::vector<TableCache::Key> keys;
  for (const size_t index : round) {
    keys.push_back(TableCache::KeyOf(candidates_[index].pipeline));
  }
  if (!tables_.PrepareLeastCosts(space_, costs_, std::move(keys), control_)) return false;
  std::erase_if(round, [this](size_t index) { return IsClosedByCapacity(candidates_[index]); });
  return true;
}

bool BestFirstSearch::IsClosedByCapacity(ExactCandidate& candidate) const {
  const Seconds cutoff =
      WantedPerSample() * static_cast<double>(candidate.pipeline.global_batch_size);
  candidate.bound = std::max(
      candidate.bound,
      CapacityBound(space_, costs_, tables_.LeastCostsAt(TableCache::KeyOf(candidate.pipeline)),
                    candidate.pipeline, cutoff));
  return candidate.bound_per_sample() >= CutoffPerSample();
}

void BestFirstSearch::Visit(std::vector<size_t> round) {
  const bool only_bounds = candidates_[round.front()].state == ExactCandidate::State::kListed;
  if (only_bounds && !CloseByCapacity(round)) {
    meter_.Stop(SearchLimit::kTime);
    return;
  }
  if (round.empty()) return;
  if (!PrepareTables(round)) {
    meter_.Stop(SearchLimit::kTime);
    return;
  }
  if (only_bounds) {
    BoundGroups(round);
    // The others are closed without a visit of their own.
    std::erase_if(round, [&](size_t index) {
      ExactCandidate& candidate = candidates_[index];
      candidate.bound = std::max(candidate.bound, GroupBound(candidate.pipeline));
      return candidate.bound_per_sample() >= CutoffPerSample();
    });
  }
  SearchControl control = control_;
  if (control.max_state_count > 0) {
    control.max_state_count =
        std::max<int64_t>(1, control.max_state_count - meter_.expanded_state_count());
  }
  // Reports progress within a long round too, if the round runs on the calling thread.
  const bool is_alone = round.size() == 1 || !control_.parallel_for;
  std::deque<SearchMeter> meters;
  int64_t questions = 0;
  if (control_.on_progress && is_alone) {
    control.should_stop = [&] {
      if (++questions % kQuestionsBetweenReports == 0) {
        int64_t expanded = 0;
        for (const SearchMeter& meter : meters) expanded += meter.expanded_state_count();
        Report(expanded);
      }
      return control_.should_stop && control_.should_stop();
    };
  }
  for (size_t k = 0; k < round.size(); ++k) meters.emplace_back(control);
  std::vector<CandidateVisit> visited(round.size());
  std::vector<size_t> fresh;
  for (size_t k = 0; k < round.size(); ++k) {
    const CandidateVisit* const known =
        visits_ == nullptr ? nullptr : visits_->Find(VisitKey(candidates_[round[k]]));
    if (known == nullptr) {
      fresh.push_back(k);
    } else {
      visited[k] = *known;
    }
  }
  ForEach(control_.parallel_for, static_cast<int64_t>(fresh.size()), [&](int64_t i) {
    const size_t k = fresh[i];
    visited[k] = VisitOne(candidates_[round[k]], meters[k]);
  });
  for (const size_t k : fresh) {
    if (visits_ != nullptr) visits_->Record(VisitKey(candidates_[round[k]]), visited[k]);
  }
  for (size_t k = 0; k < round.size(); ++k) Settle(std::move(visited[k]), candidates_[round[k]]);
}

void BestFirstSearch::Settle(CandidateVisit visited, ExactCandidate& candidate) {
  Group& group = groups_[TableCache::KeyOf(candidate.pipeline)];
  const int64_t micro_batch_count = candidate.pipeline.micro_batch_count;
  candidate.bound = std::max(candidate.bound, visited.bound);
  if (IsGpipe(candidate.pipeline) && !visited.bound.is_finite()) {
    group.too_many_for_gpipe = std::min(group.too_many_for_gpipe, micro_batch_count);
  }
  const bool ended = visited.limit != SearchLimit::kNone;
  if (!ended) candidate.state = StateAfter(candidate.state, visited);
  for (PredictedPlan& plan : visited.plans) plans_.Offer(std::move(plan));
  // If nothing has been found yet, fewer micro-batches may fit, so the search is not recorded.
  if (!visited.is_exact && !visited.is_open && !plans_.plans().empty()) {
    Unproved& unproved = group.unproved[static_cast<int>(candidate.pipeline.schedule)];
    if (micro_batch_count > unproved.micro_batch_count) {
      unproved = {micro_batch_count, candidate.bound_per_sample()};
    }
  }
  meter_.Expand(visited.expanded);
  meter_.Prune(visited.pruned);
  if (ended) meter_.Stop(visited.limit);
}

ExactCandidate::State BestFirstSearch::StateAfter(ExactCandidate::State state,
                                                  const CandidateVisit& visited) {
  if (state == ExactCandidate::State::kListed) return ExactCandidate::State::kBounded;
  return visited.is_open ? ExactCandidate::State::kTried : ExactCandidate::State::kSearched;
}

VisitCache::Key BestFirstSearch::VisitKey(const ExactCandidate& candidate) const {
  const PipelineCandidate& pipeline = candidate.pipeline;
  const DimensionSet dimensions = space_.dimensions();
  // Prices cut one stage of many layers by another method if stages must be even.
  const bool may_be_uneven = pipeline.pipeline_parallel_degree > 1 || Interleaves(pipeline) ||
                             space_.problem().model().layer_count() >= kManyLayers;
  return {.strategies = strategies_of_visits_,
          .usable_memory = space_.problem().usable_memory(),
          .has_even_stages = may_be_uneven && !dimensions.has(SearchDimension::kUnevenStages),
          .global_batch_size = pipeline.global_batch_size,
          .micro_batch_count = pipeline.micro_batch_count,
          .pipeline_parallel_degree = pipeline.pipeline_parallel_degree,
          .schedule = pipeline.schedule,
          .state = candidate.state,
          .cutoff = WantedPerSample().value()};
}

CandidateVisit BestFirstSearch::VisitOne(const ExactCandidate& candidate,
                                         SearchMeter& meter) const {
  CandidateVisit visited;
  const OptionTable& table = tables_.At(TableCache::KeyOf(candidate.pipeline));
  if (!table.usable()) {
    visited.bound = Seconds::Infinite();
    return visited;
  }
  const Seconds cutoff =
      WantedPerSample() * static_cast<double>(candidate.pipeline.global_batch_size);
  const bool interleaves = Interleaves(candidate.pipeline);
  if (candidate.state == ExactCandidate::State::kListed) {
    const Seconds bound =
        interleaves
            ? InterleavedMemoryBound(space_, costs_, table, candidate.pipeline, cutoff, meter)
            : PipelineBound(space_, costs_, table, candidate.pipeline, cutoff, meter);
    if (!meter.stopped()) visited.bound = bound;
  } else {
    // Other candidates of similar bounds may have a plan that closes this one, so it is tried
    // quickly first.
    const bool is_quick = !interleaves && candidate.state == ExactCandidate::State::kBounded &&
                          space_.problem().model().layer_count() < kManyLayers;
    const bool was_tried = candidate.state == ExactCandidate::State::kTried;
    const auto search = interleaves ? SearchInterleaved
                        : is_quick  ? TryPipeline
                        : was_tried ? SearchTriedPipeline
                                    : SearchPipeline;
    PipelineOutcome outcome =
        search(space_, costs_, table, candidate.pipeline, cutoff, wanted_, meter);
    visited.bound = outcome.bound;
    visited.plans = std::move(outcome.plans);
    visited.is_exact = outcome.is_exact;
    visited.is_open = is_quick && !outcome.is_exact;
  }
  visited.expanded = meter.expanded_state_count();
  visited.pruned = meter.pruned_state_count();
  visited.limit = meter.limit();
  return visited;
}

void BestFirstSearch::Report(int64_t states_of_round) {
  if (!control_.on_progress) return;
  reported_states_ = std::max(reported_states_, meter_.expanded_state_count() + states_of_round);
  SearchProgress progress{.total_candidate_count = candidate_count(),
                          .expanded_state_count = reported_states_};
  const Seconds cutoff = CutoffPerSample();
  for (const ExactCandidate& candidate : candidates_) {
    if (candidate.state == ExactCandidate::State::kSearched ||
        candidate.bound_per_sample() >= cutoff) {
      ++progress.done_candidate_count;
    }
  }
  double batch = static_cast<double>(space_.problem().global_batch_size());
  if (!plans_.plans().empty()) {
    const PredictedPlan& best = plans_.plans().front();
    progress.incumbent = best.prediction.step;
    batch = static_cast<double>(best.plan.global_batch_size);
  }
  progress.bound = BoundPerSample() * batch;
  control_.on_progress(progress);
}

}  // namespace parplan
