// The parameters that each rank holds under a plan, and the elements that move between ranks when a
// job swaps plans. Numbers, offsets and counts are of elements, not bytes. Pure. `MoveStates`
// (state_mover.h) works by it.

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

// Numbers all parameters of a model, independently of any plan: tensor by tensor, row by row. A
// head that shares the embedding's table has the embedding's numbers, even if it holds a copy.
class ParameterNumbers {
 public:
  explicit ParameterNumbers(const ModelSpec& model);
  // Returns the number of the first element of a tensor of a layer. REQUIRES: the layer has it;
  // aborts otherwise.
  int64_t Of(int layer_index, const std::string& tensor) const;
  // Returns the number of parameters of the model; numbers are 0 to below this.
  int64_t count() const { return count_; }

 private:
  std::map<std::pair<int, std::string>, int64_t> numbers_;
  int64_t count_ = 0;
};

// Parameters with consecutive numbers that are contiguous in a rank's part of a layer.
struct HeldRun {
  // Number of the first one.
  int64_t number = 0;
  // Index of the layer among all of the rank's (stage by stage, from 0), and of the first element
  // in what the rank holds of that layer.
  int layer_slot = 0;
  int64_t offset = 0;
  int64_t count = 0;
  friend bool operator==(const HeldRun&, const HeldRun&) = default;
};

// Lists what the rank of `program` holds of one kind of state, ordered by number, each once: the
// parameters, or its shard of them; all kinds but kParameters are sharded alike. Does not ask
// whether the layers have this kind. `element_size`: bytes of an element of parameters, of which
// shards are whole 128 (ShardSize), for every kind.
std::vector<HeldRun> RunsOf(const RankProgram& program, const ModelSpec& model,
                            const ParameterNumbers& numbers, StateKind kind, int64_t element_size);

// Elements that move from one part of a layer to another, on this rank or another.
struct StateTransfer {
  // The rank that holds the elements now; `layer_slot` and `offset` (`HeldRun`) of the first one
  // there and at its new place; and the number of elements.
  int from_rank = 0;
  int from_slot = 0;
  int64_t from_offset = 0;
  int to_slot = 0;
  int64_t to_offset = 0;
  int64_t count = 0;
  friend bool operator==(const StateTransfer&, const StateTransfer&) = default;
};

// Lists the transfers by which `to_rank` gets all of `wanted`, ordered by number: from itself what
// it holds, else from the next higher rank that does, where the last rank is followed by rank 0.
// `held`: [rank] the runs it holds. REQUIRES, unchecked: all runs are as RunsOf lists them.
// Elements that no rank holds are missing from the result.
std::vector<StateTransfer> TransfersTo(int to_rank, const std::vector<HeldRun>& wanted,
                                       const std::vector<std::vector<HeldRun>>& held);

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_APPLY_STATE_MAP_H_
