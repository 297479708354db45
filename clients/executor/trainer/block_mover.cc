#include "clients/executor/trainer/block_mover.h"

#include <algorithm>
#include <utility>

#include "planner/base/status_macros.h"

namespace parplan {
namespace {

int PlaceIn(const std::vector<int>& ranks, int rank) {
  return static_cast<int>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin());
}

}  // namespace

BlockMover::BlockMover(LayerKernels& kernels, ArrayPool& pool, int rank, int64_t width)
    : kernels_(kernels),
      pool_(pool),
      rank_(rank),
      width_(width),
      row_bytes_(width * ElementSize(kernels.type())) {}

void BlockMover::CopyBlock(const ActivationBlock& block, const ActivationLayout& layout,
                           const void* from, void* to, bool packs) const {
  // A block lies within one interval of the layout's tokens, so its tokens follow one
  // another, each with all samples of the layout.
  const int64_t first = layout.RowOf(rank_, block.samples.begin, block.tokens.begin);
  const int64_t spread = layout.SampleCount() * width_;
  const int64_t dense = block.samples.size() * width_;
  const auto at = [&](auto* data) { return data + first * row_bytes_; };
  if (packs) {
    kernels_.CopyRows(at(static_cast<const char*>(from)), spread, to, dense, block.tokens.size(),
                      dense);
  } else {
    kernels_.CopyRows(from, dense, at(static_cast<char*>(to)), spread, block.tokens.size(), dense);
  }
}

absl::Status BlockMover::Send(const ReshardProgram& program, const ActivationLayout& layout,
                              const Array& from, Communicator& group,
                              const std::vector<int>& ranks) {
  PARPLAN_RETURN_IF_ERROR(Reap());
  for (const Transfer& send : program.sends) {
    const int64_t rows = send.block.row_count();
    PARPLAN_ASSIGN_OR_RETURN(Array packed,
                             pool_.Take(ArrayUse::kTransient, Bytes::Of(rows * row_bytes_)));
    CopyBlock(send.block, layout, from.data(), packed.data(), /*packs=*/true);
    PARPLAN_ASSIGN_OR_RETURN(std::unique_ptr<PendingWork> work,
                             group.Start({.operation = Operation::kSend,
                                          .type = kernels_.type(),
                                          .count = rows * width_,
                                          .send = packed.data(),
                                          .peer = PlaceIn(ranks, send.peer)}));
    sends_.push_back({std::move(packed), std::move(work)});
  }
  return absl::OkStatus();
}

absl::Status BlockMover::Receive(const ReshardProgram& program, const ActivationLayout& layout,
                                 Array& to, Communicator& group, const std::vector<int>& ranks) {
  std::vector<Array> arrived;
  std::vector<CollectiveCall> calls;
  for (const Transfer& receive : program.receives) {
    const int64_t rows = receive.block.row_count();
    PARPLAN_ASSIGN_OR_RETURN(arrived.emplace_back(),
                             pool_.Take(ArrayUse::kTransient, Bytes::Of(rows * row_bytes_)));
    calls.push_back({.operation = Operation::kReceive,
                     .type = kernels_.type(),
                     .count = rows * width_,
                     .receive = arrived.back().data(),
                     .peer = PlaceIn(ranks, receive.peer)});
  }
  PARPLAN_RETURN_IF_ERROR(group.RunTogether(calls));
  for (size_t k = 0; k < calls.size(); ++k) {
    CopyBlock(program.receives[k].block, layout, arrived[k].data(), to.data(), /*packs=*/false);
  }
  return absl::OkStatus();
}

absl::StatusOr<Array> BlockMover::Reshard(const ReshardProgram& program,
                                          const ActivationLayout& before,
                                          const ActivationLayout& after, const Array& from,
                                          Communicator& group, const std::vector<int>& ranks) {
  PARPLAN_RETURN_IF_ERROR(Send(program, before, from, group, ranks));
  PARPLAN_ASSIGN_OR_RETURN(
      Array to, pool_.Take(ArrayUse::kTransient, Bytes::Of(after.RowCount() * row_bytes_)));
  for (const ActivationBlock& block : program.copies) {
    PARPLAN_ASSIGN_OR_RETURN(
        const Array dense,
        pool_.Take(ArrayUse::kTransient, Bytes::Of(block.row_count() * row_bytes_)));
    CopyBlock(block, before, from.data(), dense.data(), /*packs=*/true);
    CopyBlock(block, after, dense.data(), to.data(), /*packs=*/false);
  }
  PARPLAN_RETURN_IF_ERROR(Receive(program, after, to, group, ranks));
  PARPLAN_RETURN_IF_ERROR(Finish());
  return to;
}

absl::Status BlockMover::Reap() {
  while (!sends_.empty() && sends_.front().work->IsDone()) {
    PARPLAN_RETURN_IF_ERROR(sends_.front().work->Wait());
    sends_.pop_front();
  }
  return absl::OkStatus();
}

absl::Status BlockMover::Finish() {
  for (PendingSend& send : sends_) PARPLAN_RETURN_IF_ERROR(send.work->Wait());
  sends_.clear();
  return absl::OkStatus();
}

}  // namespace parplan
