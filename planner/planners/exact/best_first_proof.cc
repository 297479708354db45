// `BestFirstSearch::Prove`.

#include <algorithm>
#include <cstddef>
#include <vector>

#include "planner/model/schedule_traits.h"
#include "planner/planners/exact/best_first_search.h"

namespace parplan {
namespace {

// Tables of options made for the bounds of partitions that are not listed: as many as a search
// makes at first.
constexpr int64_t kMaxProofTables = 16;

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
    return candidate.bound_per_sample() >= CutoffPerSample();
  };
  const auto are_closed = [&](const std::vector<ExactCandidate>& list) {
    return std::all_of(list.begin(), list.end(), is_closed);
  };
  // Nothing but a search bounds these better.
  if (!are_closed(grouped_)) return false;
  // The cheapest bounds come first.
  SearchUneven({.max_new_tables = kMaxProofTables, .ends_with_bound = true});
  if (!are_closed(uneven_)) return false;
  MakeGroups();
  CandidateQueue queue(candidates_);
  for (size_t index = 0; index < candidates_.size(); ++index) queue.Put(index);
  while (meter_.ShouldContinue()) {
    const std::vector<size_t> round = NextRound(queue);
    if (round.empty()) break;
    Visit(round);
    for (const size_t index : round) {
      const ExactCandidate& candidate = candidates_[index];
      if (candidate.state != ExactCandidate::State::kSearched) {
        queue.Put(index);
      } else if (!is_closed(candidate)) {
        return false;
      }
    }
    Report(0);
  }
  return !meter_.stopped() && are_closed(candidates_);
}

}  // namespace parplan
