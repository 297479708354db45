// `BestFirstSearch::Prove`.

#include <algorithm>
#include <cstddef>
#include <vector>

#include "planner/model/schedule_traits.h"
#include "planner/planners/exact/best_first_search.h"
#include "planner/search/base/search_numbers.h"

namespace parplan {
namespace {

// If the known bound is at least this share of the time to prove, a candidate that is tried and
// stays open is given up: a larger space has been searched to its end and left little, and a
// whole visit would probably leave the same. Gaps of 0.3 % stayed, one of 6 % was closed.
constexpr double kNearlyProved = 0.99;

}  // namespace

bool BestFirstSearch::Prove(const KindBounds& known, Seconds enough) {
  ceiling_ = enough;
  was_seeded_ = true;
  std::erase_if(candidates_, [&](const ExactCandidate& candidate) {
    const bool interleaves = TraitsOf(candidate.pipeline.schedule).has_virtual_stages;
    return (interleaves ? known.listed : known.plain) >= enough;
  });
  if (known.uneven >= enough) uneven_.clear();
  if (known.grouped >= enough) grouped_.clear();
  const auto is_closed = [this](const ExactCandidate& candidate) {
    // Without the wanted gap: a space that is closed up to a gap may have a faster plan.
    return candidate.bound_per_sample() >= WantedPerSample() * (1.0 - kProofTolerance);
  };
  const auto are_closed = [&](const std::vector<ExactCandidate>& list) {
    return std::all_of(list.begin(), list.end(), is_closed);
  };
  // Nothing but a search bounds these better.
  if (!are_closed(grouped_)) return false;
  if (visits_ != nullptr) {
    for (ExactCandidate& candidate : candidates_) {
      const VisitCache::Key key = VisitKey(candidate);
      candidate.bound = std::max(candidate.bound, visits_->BoundOf(key));
      if (!is_closed(candidate) && visits_->IsGivenUp(key)) return false;
    }
  }
  const bool is_nearly_proved = known.plain >= enough * kNearlyProved;
  MakeGroups();
  CandidateQueue queue(candidates_);
  for (size_t index = 0; index < candidates_.size(); ++index) queue.Put(index);
  while (meter_.ShouldContinue()) {
    const std::vector<size_t> round = NextRound(queue);
    if (round.empty()) break;
    Visit(round);
    for (const size_t index : round) {
      const ExactCandidate& candidate = candidates_[index];
      const bool is_given_up =
          candidate.state == ExactCandidate::State::kSearched ||
          (candidate.state == ExactCandidate::State::kTried && is_nearly_proved);
      if (is_given_up && !is_closed(candidate)) return false;
      if (candidate.state != ExactCandidate::State::kSearched) queue.Put(index);
    }
    Report(0);
  }
  if (meter_.stopped() || !are_closed(candidates_)) return false;
  SearchUneven(LimitsOfRun());
  return !meter_.stopped();
}

}  // namespace parplan
