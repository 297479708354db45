// Moves blocks of activations between ranks as a ReshardProgram says. `RankTrainer` has one.

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

// One rank's mover, used by the thread of the trainer. Sends proceed while the rank computes.
// Blocks that are contiguous in an array are sent and received in place; others are packed. Each
// message has two sides: the ranks of `group` call the methods by which their programs send and
// receive in the same order. All messages of one call are given to the communicator together.
// Errors are those of memory and of the group's communicator (layer_tools.h).
class BlockMover {
 public:
  // `rank`: of the job. `width`: elements of a row. `kernels` and `pool` outlive it.
  BlockMover(LayerKernels& kernels, ArrayPool& pool, int rank, int64_t width);

  // Messages from one stage to another in one direction. Its arrays are freed when the next message
  // is sent, so that each direction holds one at any time.
  class Outbox {
   private:
    friend class BlockMover;
    // The arrays that are being sent, and the sends; null if there are none.
    std::vector<Array> rows;
    std::unique_ptr<PendingWork> work;
  };

  // Starts the sends of `program` from the rows in `from`, after those in `outbox` have ended.
  // `layout`: that of `from`. `ranks`: [rank of `group`] rank of the job.
  absl::Status Send(const ReshardProgram& program, const ActivationLayout& layout, Array from,
                    Communicator& group, const std::vector<int>& ranks, Outbox& outbox);
  // Receives the rows of `program` into `to`, which is laid out by `layout`.
  absl::Status Receive(const ReshardProgram& program, const ActivationLayout& layout, Array& to,
                       Communicator& group, const std::vector<int>& ranks);
  // Runs a whole program within a stage: returns the rows of `from`, laid out by `before`, as
  // `after` has them.
  absl::StatusOr<Array> Reshard(const ReshardProgram& program, const ActivationLayout& before,
                                const ActivationLayout& after, Array from, Communicator& group,
                                const std::vector<int>& ranks);
  // Waits for the sends in `outbox`.
  absl::Status Finish(Outbox& outbox);

 private:
  // The place of a block in an array laid out by some layout, in elements: its begin, the distance
  // from one token to the next, and the size of a token.
  struct Place {
    int64_t first = 0;
    int64_t stride = 0;
    int64_t row_size = 0;
    bool is_dense() const { return stride == row_size; }
  };
  Place PlaceOf(const ActivationBlock& block, const ActivationLayout& layout) const;
  // Adds the sends of `program` from `from`, and what must live until they have ended.
  absl::Status AddSends(const ReshardProgram& program, const ActivationLayout& layout, Array from,
                        const std::vector<int>& ranks, std::vector<CollectiveCall>& calls,
                        std::vector<Array>& rows);
  // Adds the receives of `program` into `to`. `arrived`: [receive] null if it is received in place.
  absl::Status AddReceives(const ReshardProgram& program, const ActivationLayout& layout,
                           const Array& to, const std::vector<int>& ranks,
                           std::vector<CollectiveCall>& calls, std::vector<Array>& arrived);
  // Copies what was not received in place to where it belongs.
  void Unpack(const ReshardProgram& program, const ActivationLayout& layout,
              const std::vector<Array>& arrived, const Array& to);
  void* At(const Array& array, int64_t element) const;

  LayerKernels& kernels_;
  ArrayPool& pool_;
  const int rank_;
  const int64_t width_;
  const int64_t element_size_;
};

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_TRAINER_BLOCK_MOVER_H_
