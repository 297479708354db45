#include "executor/trainer/ring_attention.h"

#include <memory>
#include <utility>

#include "base/status_macros.h"

namespace parplan {

RingAttention::RingAttention(const LayerTools& tools, const AttentionShape& shape,
                             std::vector<std::vector<Interval>> pieces)
    : tools_(tools),
      shape_(shape),
      pieces_(std::move(pieces)),
      query_width_(int64_t{shape.head_count} * shape.head_size),
      key_value_width_(int64_t{shape.key_value_head_count} * shape.head_size),
      projection_width_(query_width_ + 2 * key_value_width_),
      row_count_(shape.key_count / static_cast<int64_t>(pieces_.size()) * shape.sample_count) {}

int RingAttention::rank() const { return tools_.place().context; }

std::vector<RingAttention::Meeting> RingAttention::MeetingsOf(int step) const {
  std::vector<Meeting> meetings;
  int64_t query_row = 0;
  for (const Interval& queries : pieces_[rank()]) {
    int64_t key_row = 0;
    bool is_first = step == 0;
    for (const Interval& keys : pieces_[(rank() - step + degree()) % degree()]) {
      // Two pieces are equal or do not overlap.
      if (!shape_.is_causal || keys.begin <= queries.begin) {
        Meeting meeting{.shape = shape_, .query_row = query_row, .key_row = key_row};
        meeting.shape.query_count = queries.size();
        meeting.shape.key_count = keys.size();
        meeting.shape.is_causal = shape_.is_causal && keys.begin == queries.begin;
        meeting.shape.key_value_stride = shape_.sample_count * 2 * key_value_width_;
        meeting.shape.key_value_sample_stride = 2 * key_value_width_;
        meeting.shape.adds_gradients = true;
        meeting.is_first = std::exchange(is_first, false);
        meetings.push_back(meeting);
      }
      key_row += keys.size() * shape_.sample_count;
    }
    query_row += queries.size() * shape_.sample_count;
  }
  return meetings;
}

absl::StatusOr<Array> RingAttention::TakeBlock() const {
  return tools_.Take(ArrayUse::kTransient, row_count_ * 2 * key_value_width_);
}

absl::StatusOr<Array> RingAttention::OwnKeysAndValues(const Array& projections) const {
  PARPLAN_ASSIGN_OR_RETURN(Array block, TakeBlock());
  const int64_t width = 2 * key_value_width_;
  tools_.kernels().CopyRows(tools_.At(projections.data(), query_width_), projection_width_,
                            block.data(), width, row_count_, width);
  return block;
}

absl::StatusOr<std::unique_ptr<PendingWork>> RingAttention::PassOn(const Array& from,
                                                                   const Array& to) const {
  const ElementType type = tools_.kernels().type();
  const int64_t count = row_count_ * 2 * key_value_width_;
  const CollectiveCall calls[] = {{.operation = Operation::kSend,
                                   .type = type,
                                   .count = count,
                                   .send = from.data(),
                                   .peer = (rank() + 1) % degree()},
                                  {.operation = Operation::kReceive,
                                   .type = type,
                                   .count = count,
                                   .receive = to.data(),
                                   .peer = (rank() - 1 + degree()) % degree()}};
  return tools_.setting().context->StartTogether(calls);
}

absl::Status RingAttention::Forward(const Array& projections, const Array& outputs,
                                    const Array& logarithms) const {
  LayerKernels& kernels = tools_.kernels();
  PARPLAN_ASSIGN_OR_RETURN(Array block, OwnKeysAndValues(projections));
  PARPLAN_ASSIGN_OR_RETURN(Array next, TakeBlock());
  PARPLAN_ASSIGN_OR_RETURN(const Array part,
                           tools_.Take(ArrayUse::kTransient, row_count_ * query_width_));
  PARPLAN_ASSIGN_OR_RETURN(
      const Array part_logarithms,
      tools_.TakeStatistics(ArrayUse::kTransient, row_count_ * shape_.head_count));
  for (int step = 0; step < degree(); ++step) {
    std::unique_ptr<PendingWork> passing;
    if (step + 1 < degree()) {
      PARPLAN_ASSIGN_OR_RETURN(passing, PassOn(block, next));
    }
    for (const Meeting& meeting : MeetingsOf(step)) {
      void* const output = tools_.At(outputs.data(), meeting.query_row * query_width_);
      void* const kept =
          tools_.StatisticAt(logarithms.data(), meeting.query_row * shape_.head_count);
      const int64_t keys = meeting.key_row * 2 * key_value_width_;
      kernels.Attention(
          meeting.shape, tools_.At(projections.data(), meeting.query_row * projection_width_),
          tools_.At(block.data(), keys), tools_.At(block.data(), keys + key_value_width_),
          meeting.is_first ? output : part.data(),
          meeting.is_first ? kept : part_logarithms.data());
      if (meeting.is_first) continue;
      kernels.MergeAttention(meeting.shape, part.data(), part_logarithms.data(), output, kept);
    }
    if (passing != nullptr) PARPLAN_RETURN_IF_ERROR(passing->Wait());
    std::swap(block, next);
  }
  return absl::OkStatus();
}

absl::Status RingAttention::Backward(const Array& projections, const Array& outputs,
                                     const Array& logarithms, const Array& output_gradients,
                                     const Array& projection_gradients) const {
  LayerKernels& kernels = tools_.kernels();
  const int64_t width = 2 * key_value_width_;
  PARPLAN_ASSIGN_OR_RETURN(Array block, OwnKeysAndValues(projections));
  PARPLAN_ASSIGN_OR_RETURN(Array next, TakeBlock());
  // Three buffers of key and value gradients: this rank's part for the present block; the sums that
  // are being sent on with the block before; and the sums of the ranks before, which arrive.
  PARPLAN_ASSIGN_OR_RETURN(Array own, TakeBlock());
  PARPLAN_ASSIGN_OR_RETURN(Array leaving, TakeBlock());
  PARPLAN_ASSIGN_OR_RETURN(const Array arriving, TakeBlock());
  kernels.Zero(projection_gradients.data(), row_count_ * projection_width_);
  std::unique_ptr<PendingWork> gradients_passing;
  for (int step = 0; step < degree(); ++step) {
    std::unique_ptr<PendingWork> passing;
    if (step + 1 < degree()) {
      PARPLAN_ASSIGN_OR_RETURN(passing, PassOn(block, next));
    }
    kernels.Zero(own.data(), row_count_ * width);
    for (const Meeting& meeting : MeetingsOf(step)) {
      const int64_t query = meeting.query_row * projection_width_;
      const int64_t output = meeting.query_row * query_width_;
      const int64_t keys = meeting.key_row * width;
      kernels.AttentionBackward(
          meeting.shape, tools_.At(projections.data(), query), tools_.At(block.data(), keys),
          tools_.At(block.data(), keys + key_value_width_), tools_.At(outputs.data(), output),
          tools_.StatisticAt(logarithms.data(), meeting.query_row * shape_.head_count),
          tools_.At(output_gradients.data(), output), tools_.At(projection_gradients.data(), query),
          tools_.At(own.data(), keys), tools_.At(own.data(), keys + key_value_width_));
    }
    if (step > 0) {
      PARPLAN_RETURN_IF_ERROR(gradients_passing->Wait());
      kernels.Add(arriving.data(), own.data(), row_count_ * width);
    }
    std::swap(own, leaving);
    // After the last step the sums reach the rank of the keys.
    PARPLAN_ASSIGN_OR_RETURN(gradients_passing, PassOn(leaving, arriving));
    if (passing != nullptr) PARPLAN_RETURN_IF_ERROR(passing->Wait());
    std::swap(block, next);
  }
  PARPLAN_RETURN_IF_ERROR(gradients_passing->Wait());
  kernels.CopyRows(arriving.data(), width, tools_.At(projection_gradients.data(), query_width_),
                   projection_width_, row_count_, width);
  return absl::OkStatus();
}

}  // namespace parplan
