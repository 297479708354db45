// How activations go from the layout of one layer to that of the next, within a stage or
// from one to the next. Every row of the new layout comes from a rank that has it, from
// itself where it does; nothing is added up, since all holders of a row hold the same.

#ifndef PARPLAN_PLANNER_PROGRAM_RESHARD_H_
#define PARPLAN_PLANNER_PROGRAM_RESHARD_H_

#include <vector>

#include "planner/program/activation_layout.h"

namespace parplan {

struct Transfer {
  // The other rank, numbered within the job.
  int peer = 0;
  ActivationBlock block;
  friend bool operator==(const Transfer&, const Transfer&) = default;
};

// What one rank does. Blocks from one rank to another come in the same order in the lists
// of both.
struct ReshardProgram {
  std::vector<Transfer> sends;
  std::vector<Transfer> receives;
  // That it has itself.
  std::vector<ActivationBlock> copies;
  bool is_empty() const { return sends.empty() && receives.empty() && copies.empty(); }
};

// REQUIRES: both layouts are of the same samples and tokens. `rank` may be in one or both of
// them. O(ranks) time.
ReshardProgram MakeReshard(const ActivationLayout& from, const ActivationLayout& to, int rank);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PROGRAM_RESHARD_H_
