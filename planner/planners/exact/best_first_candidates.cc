// The candidates of `BestFirstSearch`: how it gets them, and what their bounds say together.

#include <algorithm>
#include <utility>
#include <vector>

#include "planner/planners/exact/best_first_search.h"
#include "planner/planners/exact/interleaved/interleaved_partitions.h"

namespace parplan {

bool BestFirstSearch::List(LeastTimesMemo& memo) {
  CandidateList list = ListCandidates(space_, costs_, meter_, memo);
  candidates_ = std::move(list.candidates);
  if (SearchesUnevenApart(space_)) uneven_ = std::move(list.uneven);
  grouped_ = std::move(list.grouped);
  listed_all_ = list.complete;
  return listed_all_;
}

bool BestFirstSearch::List() {
  LeastTimesMemo memo;
  return List(memo);
}

bool BestFirstSearch::ListUneven(LeastTimesMemo& memo) {
  CandidateList list = ListCandidates(space_, costs_, meter_, memo);
  uneven_ = std::move(list.uneven);
  listed_all_ = list.complete;
  return listed_all_;
}

void BestFirstSearch::Take(CandidateList list) {
  candidates_ = std::move(list.candidates);
  uneven_ = std::move(list.uneven);
  grouped_ = std::move(list.grouped);
  listed_all_ = true;
  for (ExactCandidate& candidate : candidates_) candidate.state = ExactCandidate::State::kListed;
}

bool BestFirstSearch::IsEmpty() const {
  const auto is_empty = [](const ExactCandidate& each) { return !each.bound.is_finite(); };
  return listed_all_ && std::all_of(candidates_.begin(), candidates_.end(), is_empty) &&
         std::all_of(uneven_.begin(), uneven_.end(), is_empty) &&
         std::all_of(grouped_.begin(), grouped_.end(), is_empty);
}

Seconds BestFirstSearch::InterleavedBoundPerSample() const {
  Seconds bound = Seconds::Infinite();
  for (const std::vector<ExactCandidate>* const list : {&candidates_, &uneven_, &grouped_}) {
    for (const ExactCandidate& candidate : *list) {
      if (Interleaves(candidate.pipeline)) bound = std::min(bound, candidate.bound_per_sample());
    }
  }
  return bound;
}

KindBounds BestFirstSearch::BoundsPerSample() const {
  const auto least_of = [](const std::vector<ExactCandidate>& list, auto is_counted) {
    Seconds bound = Seconds::Infinite();
    for (const ExactCandidate& candidate : list) {
      if (is_counted(candidate.pipeline)) bound = std::min(bound, candidate.bound_per_sample());
    }
    return bound;
  };
  const auto is_any = [](const PipelineCandidate&) { return true; };
  if (!listed_all_) return {};
  return {.plain = least_of(candidates_,
                            [](const PipelineCandidate& each) { return !Interleaves(each); }),
          .listed = least_of(candidates_, Interleaves),
          .uneven = least_of(uneven_, is_any),
          .grouped = least_of(grouped_, is_any)};
}

Seconds BestFirstSearch::BoundPerSample() const {
  if (!listed_all_) return Seconds();
  Seconds bound = Seconds::Infinite();
  for (const ExactCandidate& candidate : candidates_) {
    bound = std::min(bound, candidate.bound_per_sample());
  }
  for (const ExactCandidate& candidate : uneven_) {
    bound = std::min(bound, candidate.bound_per_sample());
  }
  for (const ExactCandidate& candidate : grouped_) {
    bound = std::min(bound, candidate.bound_per_sample());
  }
  if (!plans_.plans().empty()) bound = std::min(bound, plans_.plans().front().time_per_sample());
  return bound.is_finite() ? bound : Seconds();
}

}  // namespace parplan
