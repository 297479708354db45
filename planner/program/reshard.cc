#include "planner/program/reshard.h"

#include <algorithm>
#include <utility>

namespace parplan {
namespace {

// Returns the rank that gives `to_rank` the rows that all `holders` have: itself if it is one of
// them, else one chosen so that receivers are spread over holders.
int GiverOf(const std::vector<int>& holders, int to_rank) {
  if (std::binary_search(holders.begin(), holders.end(), to_rank)) return to_rank;
  return holders[to_rank % holders.size()];
}

// Lists the blocks that `to_rank` needs of those that `from_rank` and its like hold, in order.
std::vector<ActivationBlock> Needed(const ActivationLayout& from, int from_rank,
                                    const ActivationLayout& to, int to_rank) {
  std::vector<ActivationBlock> blocks;
  const Interval samples = Intersection(from.SamplesOf(from_rank), to.SamplesOf(to_rank));
  if (samples.is_empty()) return blocks;
  for (const Interval& wanted : to.TokensOf(to_rank)) {
    for (const Interval& held : from.TokensOf(from_rank)) {
      const Interval tokens = Intersection(wanted, held);
      if (!tokens.is_empty()) blocks.push_back({samples, tokens});
    }
  }
  return blocks;
}

}  // namespace

ReshardProgram MakeReshard(const ActivationLayout& from, const ActivationLayout& to, int rank) {
  ReshardProgram program;
  if (to.Has(rank)) {
    for (int other = from.first_rank(); other < from.first_rank() + from.rank_count(); ++other) {
      const std::vector<int> holders = from.HoldersLike(other);
      // Each set of equal holders counts once.
      if (holders.front() != other) continue;
      const int giver = GiverOf(holders, rank);
      for (const ActivationBlock& block : Needed(from, other, to, rank)) {
        if (giver == rank) {
          program.copies.push_back(block);
        } else {
          program.receives.push_back({giver, block});
        }
      }
    }
  }
  if (from.Has(rank)) {
    const std::vector<int> holders = from.HoldersLike(rank);
    for (int other = to.first_rank(); other < to.first_rank() + to.rank_count(); ++other) {
      if (other == rank || GiverOf(holders, other) != rank) continue;
      for (const ActivationBlock& block : Needed(from, rank, to, other)) {
        program.sends.push_back({other, block});
      }
    }
  }
  return program;
}

}  // namespace parplan
