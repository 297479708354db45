// Moves blocks of activations between ranks as a reshard program says.

#ifndef PARPLAN_CLIENTS_EXECUTOR_TRAINER_BLOCK_MOVER_H_
#define PARPLAN_CLIENTS_EXECUTOR_TRAINER_BLOCK_MOVER_H_

#include <deque>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "clients/device/comm/communicator.h"
#include "clients/device/kernels/array_pool.h"
#include "clients/device/kernels/layer_kernels.h"
#include "clients/executor/program/reshard.h"

namespace parplan {

// Of one rank. Sends go on while the rank computes; their buffers are kept until they have
// ended.
class BlockMover {
 public:
  // `width`: elements of a row.
  BlockMover(LayerKernels& kernels, ArrayPool& pool, int rank, int64_t width);

  // Starts the sends of `program`, of rows in `from`, which may be given back afterwards.
  // `ranks`: of the job, in the order of the group.
  absl::Status Send(const ReshardProgram& program, const ActivationLayout& layout,
                    const Array& from, Communicator& group, const std::vector<int>& ranks);
  // Waits for the rows of `program` from others and puts them where `layout` has them.
  absl::Status Receive(const ReshardProgram& program, const ActivationLayout& layout, Array& to,
                       Communicator& group, const std::vector<int>& ranks);
  // All of a program within a stage.
  absl::StatusOr<Array> Reshard(const ReshardProgram& program, const ActivationLayout& before,
                                const ActivationLayout& after, const Array& from,
                                Communicator& group, const std::vector<int>& ranks);
  // Waits for all sends.
  absl::Status Finish();

 private:
  struct PendingSend {
    Array rows;
    std::unique_ptr<PendingWork> work;
  };
  // Between a block in an array laid out by `layout` and rows without gaps.
  void CopyBlock(const ActivationBlock& block, const ActivationLayout& layout, const void* from,
                 void* to, bool packs) const;
  absl::Status Reap();

  LayerKernels& kernels_;
  ArrayPool& pool_;
  const int rank_;
  const int64_t width_;
  const int64_t row_bytes_;
  std::deque<PendingSend> sends_;
};

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_EXECUTOR_TRAINER_BLOCK_MOVER_H_
