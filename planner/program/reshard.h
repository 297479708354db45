// The movement of activations from the layout of one layer to that of the next, within a stage or
// from one stage to the next. Every rank takes a row of the new layout from itself if it has it,
// else from another rank that does. Nothing is added up, since all holders of a row hold the same
// values. `RankProgram` has them, and `BlockMover` (executor/trainer) makes the moves.

#ifndef PARPLAN_PLANNER_PROGRAM_RESHARD_H_
#define PARPLAN_PLANNER_PROGRAM_RESHARD_H_

#include <vector>

#include "planner/program/activation_layout.h"

namespace parplan {

// A block sent to or received from another rank.
struct Transfer {
  // The other rank, numbered within the job.
  int peer = 0;
  ActivationBlock block;
  friend bool operator==(const Transfer&, const Transfer&) = default;
};

// The part of one rank in the movement. Blocks from one rank to another have the same order in the
// lists of both. Sends ascend by peer; several blocks of one peer may follow each other. Receives
// need not ascend: they follow the first rank that holds each block.
struct ReshardProgram {
  std::vector<Transfer> sends;
  std::vector<Transfer> receives;
  // Blocks the rank already has.
  std::vector<ActivationBlock> copies;
  // Returns whether this rank has nothing to do.
  bool is_empty() const { return sends.empty() && receives.empty() && copies.empty(); }
};

// Returns the part of `rank`, which may be in one or both layouts; empty if it is in neither. Of
// several ranks that hold a block it takes the one at `rank` modulo their number, so that receivers
// are spread over them.
// O(ranks times tensor-parallel degree) time. REQUIRES: both layouts are of the same samples and
// tokens, which is not checked.
ReshardProgram MakeReshard(const ActivationLayout& from, const ActivationLayout& to, int rank);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PROGRAM_RESHARD_H_
