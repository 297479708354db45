// Moves blocks of activations between ranks as a reshard program says.

#ifndef PARPLAN_EXECUTOR_TRAINER_BLOCK_MOVER_H_
#define PARPLAN_EXECUTOR_TRAINER_BLOCK_MOVER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/device/comm/communicator.h"
#include "executor/device/kernels/array_pool.h"
#include "executor/device/kernels/layer_kernels.h"
#include "planner/program/reshard.h"

namespace parplan {

// Of one rank. Sends go on while the rank computes. Blocks that lie in one piece in an array are
// sent from there and received to there; others are packed.
class BlockMover {
 public:
  // `width`: elements of a row.
  BlockMover(LayerKernels& kernels, ArrayPool& pool, int rank, int64_t width);

  // Messages from a stage to another, one way. What it holds is given back when the next one is
  // sent, so that at any time one is held of each way.
  class Outbox {
   private:
    friend class BlockMover;
    // Where blocks lie, and that they are under way.
    std::vector<Array> rows;
    std::vector<std::unique_ptr<PendingWork>> works;
  };

  // Starts the sends of `program`, of rows in `from`, when those that `outbox` holds have ended.
  // `ranks`: of the job, in the order of the group.
  absl::Status Send(const ReshardProgram& program, const ActivationLayout& layout, Array from,
                    Communicator& group, const std::vector<int>& ranks, Outbox& outbox);
  // Waits for the rows of `program` from others and puts them where `layout` has them.
  absl::Status Receive(const ReshardProgram& program, const ActivationLayout& layout, Array& to,
                       Communicator& group, const std::vector<int>& ranks);
  // All of a program within a stage.
  absl::StatusOr<Array> Reshard(const ReshardProgram& program, const ActivationLayout& before,
                                const ActivationLayout& after, Array from, Communicator& group,
                                const std::vector<int>& ranks);
  // Waits for what `outbox` holds.
  absl::Status Finish(Outbox& outbox);

 private:
  // Where a block begins in an array laid out by `layout`, in elements; elements from one of
  // its tokens to the next; and of a token.
  struct Place {
    int64_t first = 0;
    int64_t stride = 0;
    int64_t row_size = 0;
    bool is_dense() const { return stride == row_size; }
  };
  Place PlaceOf(const ActivationBlock& block, const ActivationLayout& layout) const;
  void* At(const Array& array, int64_t element) const;

  LayerKernels& kernels_;
  ArrayPool& pool_;
  const int rank_;
  const int64_t width_;
  const int64_t element_size_;
};

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_TRAINER_BLOCK_MOVER_H_
