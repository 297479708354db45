// Moves blocks of activations between ranks as a ReshardProgram says. `RankTrainer` has one.

#ifndef PARPLAN_EXECUTOR_TRAINER_BLOCK_MOVER_H_
#define PARPLAN_EXECUTOR_TRAINER_BLOCK_MOVER_H_

#include <cstdint>
#include <memory>
#include <set>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/device/comm/communicator.h"
#include "executor/device/kernels/array_pool.h"
#include "executor/device/kernels/layer_kernels.h"
#include "planner/program/reshard.h"

namespace parplan {

// One rank's mover, used by the thread of the trainer. Sends proceed while the rank computes.
// Blocks that are contiguous in an array are sent and received in place; others are packed. The
// rows of an array have elements of `kernels.type()`. A message is sent by one rank of `group` and
// received by another: both make these calls in the same order. All messages of one call are given
// to the communicator together. Errors are those of memory and of the group's communicator
// (layer_tools.h); after one the mover and its outboxes are only to be destroyed.
class BlockMover {
 public:
  // `rank`: this rank's number in the job. `width`: elements of a row, that is, of one token of one
  // sample. `kernels` and `pool` outlive the mover.
  BlockMover(LayerKernels& kernels, ArrayPool& pool, int rank, int64_t width);

  // The sends under way from one stage to another in one direction. `Finish` frees their arrays,
  // and so does the next `Send`, so that each direction holds those of one message at any time.
  // REQUIRES, unchecked: unless a call has failed, `Finish` comes between the last `Send` and the
  // destructor, which gives the arrays back to the pool and need not wait.
  class Outbox {
   private:
    friend class BlockMover;
    // The arrays that are being sent, and the sends; null if there are none.
    std::vector<Array> rows;
    std::unique_ptr<PendingWork> work;
  };

  // The messages from one stage to another that are being received for one pass.
  class Inbox {
   public:
    // Returns whether `Post` has begun a receive that `Take` has not ended.
    bool is_posted() const { return !rows.is_null(); }

   private:
    friend class BlockMover;
    Array rows;
    // [receive] null if it is received in place.
    std::vector<Array> arrived;
    std::unique_ptr<PendingWork> work;
  };

  // The ranks of a group with which this rank exchanges messages.
  struct Peers {
    std::set<int> receivers;
    std::set<int> senders;
    void Add(const ReshardProgram& program);
  };

  // Exchanges one element with each of `peers`, ranks of the job, and waits: between GPUs the first
  // message of a pair connects the two, and the host waits for both. Does nothing without peers.
  // Collective over the group: a rank is a sender of its receivers. `ranks` as for `Send`.
  absl::Status Connect(const Peers& peers, Communicator& group, const std::vector<int>& ranks);
  // Starts the sends of `program` from the rows in `from`, after those in `outbox` have ended, for
  // which it waits. Ignores receives and copies of `program`. `layout`: that of `from`. `ranks`:
  // [rank of `group`] rank of the job; it has every peer of `program`.
  absl::Status Send(const ReshardProgram& program, const ActivationLayout& layout, Array from,
                    Communicator& group, const std::vector<int>& ranks, Outbox& outbox);
  // Starts to receive the rows of `program` into `to`, an array for the rows of `layout` on this
  // rank, which `inbox` keeps. Ignores sends and copies of `program`. REQUIRES, unchecked: nothing
  // is posted in `inbox`.
  absl::Status Post(const ReshardProgram& program, const ActivationLayout& layout, Array to,
                    Communicator& group, const std::vector<int>& ranks, Inbox& inbox);
  // Waits for what `Post` started with the same program and layout (PendingWork::Wait), and returns
  // the rows.
  absl::StatusOr<Array> Take(const ReshardProgram& program, const ActivationLayout& layout,
                             Inbox& inbox);
  // Runs a whole program within a stage, copies included, and waits for it: returns the rows of
  // `from`, laid out by `before`, as `after` has them, in a new transient array.
  absl::StatusOr<Array> Reshard(const ReshardProgram& program, const ActivationLayout& before,
                                const ActivationLayout& after, Array from, Communicator& group,
                                const std::vector<int>& ranks);
  // Waits for the sends in `outbox` (PendingWork::Wait: with NCCL the device waits, not the host).
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
  // Adds the receives of `program` into `to`. `arrived`: [receive] null if it is received in place,
  // else an array of `lifetime`.
  absl::Status AddReceives(const ReshardProgram& program, const ActivationLayout& layout,
                           const Array& to, const std::vector<int>& ranks, Lifetime lifetime,
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
