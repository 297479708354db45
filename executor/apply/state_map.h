// Which rank holds which parameters under a plan, and which go from where to where when one
// plan takes the place of another. Pure.

#ifndef PARPLAN_EXECUTOR_APPLY_STATE_MAP_H_
#define PARPLAN_EXECUTOR_APPLY_STATE_MAP_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "executor/trainer/layer_state.h"
#include "planner/model/model_spec.h"
#include "planner/program/rank_program.h"

namespace parplan {

// Numbers all parameters of a model, whoever holds them: tensor by tensor, row by row. A head
// that shares the embedding's table has the embedding's numbers, also where it has a copy.
class ParameterNumbers {
 public:
  explicit ParameterNumbers(const ModelSpec& model);
  // Of the first element of a tensor of a layer.
  int64_t Of(int layer_index, const std::string& tensor) const;
  int64_t count() const { return count_; }

 private:
  std::map<std::pair<int, std::string>, int64_t> numbers_;
  int64_t count_ = 0;
};

// Consecutive parameters that lie together in a rank's part of a layer.
struct HeldRun {
  int64_t number = 0;
  // The layer's place among those of the rank, and the element in its part.
  int layer_slot = 0;
  int64_t offset = 0;
  int64_t count = 0;
  friend bool operator==(const HeldRun&, const HeldRun&) = default;
};

// What a rank holds of one kind of state: by number, none twice. `program` is that of the rank.
std::vector<HeldRun> RunsOf(const RankProgram& program, const ModelSpec& model,
                            const ParameterNumbers& numbers, StateKind kind);

// Elements that go from one part of a layer to another, perhaps on another rank.
struct StateTransfer {
  int from_rank = 0;
  int from_slot = 0;
  int64_t from_offset = 0;
  int to_slot = 0;
  int64_t to_offset = 0;
  int64_t count = 0;
  friend bool operator==(const StateTransfer&, const StateTransfer&) = default;
};

// How `to_rank` gets all of `wanted` from the ranks that hold something, `held[rank]`: what it
// has itself from itself, the rest from the next rank that has it. By number. All of it is held
// by someone, or the transfers leave a gap.
std::vector<StateTransfer> TransfersTo(int to_rank, const std::vector<HeldRun>& wanted,
                                       const std::vector<std::vector<HeldRun>>& held);

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_APPLY_STATE_MAP_H_
