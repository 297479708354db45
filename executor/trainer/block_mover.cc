#include "executor/trainer/block_mover.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"

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
      element_size_(ElementSize(kernels.type())) {}

BlockMover::Place BlockMover::PlaceOf(const ActivationBlock& block,
                                      const ActivationLayout& layout) const {
  // A block is within one interval of the layout's tokens, so its tokens are consecutive, each with
  // all samples of the layout.
  return {.first = layout.RowOf(rank_, block.samples.begin, block.tokens.begin) * width_,
          .stride = layout.SampleCount() * width_,
          .row_size = block.samples.size() * width_};
}

void* BlockMover::At(const Array& array, int64_t element) const {
  return array.At(element, element_size_);
}

absl::Status BlockMover::AddSends(const ReshardProgram& program, const ActivationLayout& layout,
                                  Array from, const std::vector<int>& ranks,
                                  std::vector<CollectiveCall>& calls, std::vector<Array>& rows) {
  bool is_sent_in_place = false;
  for (const Transfer& send : program.sends) {
    const int64_t count = send.block.row_count() * width_;
    const Place place = PlaceOf(send.block, layout);
    const void* data = At(from, place.first);
    if (place.is_dense()) {
      is_sent_in_place = true;
    } else {
      PARPLAN_ASSIGN_OR_RETURN(Array packed,
                               pool_.Take(ArrayUse::kTransient, Bytes::Of(count * element_size_)));
      kernels_.CopyRows(data, place.stride, packed.data(), place.row_size, send.block.tokens.size(),
                        place.row_size);
      data = packed.data();
      rows.push_back(std::move(packed));
    }
    calls.push_back({.operation = Operation::kSend,
                     .type = kernels_.type(),
                     .count = count,
                     .send = data,
                     .peer = PlaceIn(ranks, send.peer)});
  }
  if (is_sent_in_place) rows.push_back(std::move(from));
  return absl::OkStatus();
}

absl::Status BlockMover::AddReceives(const ReshardProgram& program, const ActivationLayout& layout,
                                     const Array& to, const std::vector<int>& ranks,
                                     Lifetime lifetime, std::vector<CollectiveCall>& calls,
                                     std::vector<Array>& arrived) {
  for (const Transfer& receive : program.receives) {
    const int64_t count = receive.block.row_count() * width_;
    const Place place = PlaceOf(receive.block, layout);
    void* data = At(to, place.first);
    arrived.emplace_back();
    if (!place.is_dense()) {
      PARPLAN_ASSIGN_OR_RETURN(
          arrived.back(),
          pool_.Take(ArrayUse::kTransient, Bytes::Of(count * element_size_), lifetime));
      data = arrived.back().data();
    }
    calls.push_back({.operation = Operation::kReceive,
                     .type = kernels_.type(),
                     .count = count,
                     .receive = data,
                     .peer = PlaceIn(ranks, receive.peer)});
  }
  return absl::OkStatus();
}

void BlockMover::Unpack(const ReshardProgram& program, const ActivationLayout& layout,
                        const std::vector<Array>& arrived, const Array& to) {
  for (size_t k = 0; k < arrived.size(); ++k) {
    if (arrived[k].is_null()) continue;
    const ActivationBlock& block = program.receives[k].block;
    const Place place = PlaceOf(block, layout);
    kernels_.CopyRows(arrived[k].data(), place.row_size, At(to, place.first), place.stride,
                      block.tokens.size(), place.row_size);
  }
}

absl::Status BlockMover::Send(const ReshardProgram& program, const ActivationLayout& layout,
                              Array from, Communicator& group, const std::vector<int>& ranks,
                              Outbox& outbox) {
  PARPLAN_RETURN_IF_ERROR(Finish(outbox));
  std::vector<CollectiveCall> calls;
  PARPLAN_RETURN_IF_ERROR(AddSends(program, layout, std::move(from), ranks, calls, outbox.rows));
  if (calls.empty()) return absl::OkStatus();
  PARPLAN_ASSIGN_OR_RETURN(outbox.work, group.StartTogether(calls));
  return absl::OkStatus();
}

absl::Status BlockMover::Post(const ReshardProgram& program, const ActivationLayout& layout,
                              Array to, Communicator& group, const std::vector<int>& ranks,
                              Inbox& inbox) {
  inbox.rows = std::move(to);
  std::vector<CollectiveCall> calls;
  // A receive may be posted a pass before it is taken.
  PARPLAN_RETURN_IF_ERROR(
      AddReceives(program, layout, inbox.rows, ranks, Lifetime::kLasting, calls, inbox.arrived));
  PARPLAN_ASSIGN_OR_RETURN(inbox.work, group.StartTogether(calls));
  return absl::OkStatus();
}

absl::StatusOr<Array> BlockMover::Take(const ReshardProgram& program,
                                       const ActivationLayout& layout, Inbox& inbox) {
  PARPLAN_RETURN_IF_ERROR(inbox.work->Wait());
  inbox.work.reset();
  Unpack(program, layout, inbox.arrived, inbox.rows);
  inbox.arrived.clear();
  return std::move(inbox.rows);
}

void BlockMover::Peers::Add(const ReshardProgram& program) {
  for (const Transfer& send : program.sends) receivers.insert(send.peer);
  for (const Transfer& receive : program.receives) senders.insert(receive.peer);
}

absl::Status BlockMover::Connect(const Peers& peers, Communicator& group,
                                 const std::vector<int>& ranks) {
  const size_t count = peers.receivers.size() + peers.senders.size();
  if (count == 0) return absl::OkStatus();
  // The contents do not matter; every message has a place of its own.
  PARPLAN_ASSIGN_OR_RETURN(
      const Array places,
      pool_.Take(ArrayUse::kTransient, Bytes::Of(static_cast<int64_t>(count) * element_size_)));
  kernels_.Zero(places.data(), static_cast<int64_t>(count));
  std::vector<CollectiveCall> calls;
  const auto add = [&](Operation operation, int peer) {
    void* const place = At(places, static_cast<int64_t>(calls.size()));
    calls.push_back({.operation = operation,
                     .type = kernels_.type(),
                     .count = 1,
                     .send = operation == Operation::kSend ? place : nullptr,
                     .receive = operation == Operation::kReceive ? place : nullptr,
                     .peer = PlaceIn(ranks, peer)});
  };
  for (const int peer : peers.receivers) add(Operation::kSend, peer);
  for (const int peer : peers.senders) add(Operation::kReceive, peer);
  return group.RunTogether(calls);
}

absl::StatusOr<Array> BlockMover::Reshard(const ReshardProgram& program,
                                          const ActivationLayout& before,
                                          const ActivationLayout& after, Array from,
                                          Communicator& group, const std::vector<int>& ranks) {
  PARPLAN_ASSIGN_OR_RETURN(
      Array to,
      pool_.Take(ArrayUse::kTransient, Bytes::Of(after.RowCount() * width_ * element_size_),
                 Lifetime::kLasting));
  for (const ActivationBlock& block : program.copies) {
    const Place source = PlaceOf(block, before);
    const Place target = PlaceOf(block, after);
    kernels_.CopyRows(At(from, source.first), source.stride, At(to, target.first), target.stride,
                      block.tokens.size(), source.row_size);
  }
  std::vector<CollectiveCall> calls;
  // Both live until the messages have ended.
  std::vector<Array> leaving;
  std::vector<Array> arrived;
  PARPLAN_RETURN_IF_ERROR(AddSends(program, before, std::move(from), ranks, calls, leaving));
  PARPLAN_RETURN_IF_ERROR(
      AddReceives(program, after, to, ranks, Lifetime::kPassing, calls, arrived));
  PARPLAN_RETURN_IF_ERROR(group.RunTogether(calls));
  Unpack(program, after, arrived, to);
  return to;
}

absl::Status BlockMover::Finish(Outbox& outbox) {
  if (outbox.work != nullptr) PARPLAN_RETURN_IF_ERROR(outbox.work->Wait());
  outbox.work.reset();
  outbox.rows.clear();
  return absl::OkStatus();
}

}  // namespace parplan
