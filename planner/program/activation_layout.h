// Which part of a micro-batch's activations each rank of a stage holds between layers.

#ifndef PARPLAN_PLANNER_PROGRAM_ACTIVATION_LAYOUT_H_
#define PARPLAN_PLANNER_PROGRAM_ACTIVATION_LAYOUT_H_

#include <cstdint>
#include <vector>

#include "planner/model/strategy.h"

namespace parplan {

// [begin, end)
struct Interval {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
  bool is_empty() const { return end <= begin; }
  friend bool operator==(const Interval&, const Interval&) = default;
};

Interval Intersection(const Interval& a, const Interval& b);

// Tokens of samples: every token of `tokens` of every sample of `samples`, both counted
// within the micro-batch.
struct ActivationBlock {
  Interval samples;
  Interval tokens;
  int64_t row_count() const { return samples.size() * tokens.size(); }
  friend bool operator==(const ActivationBlock&, const ActivationBlock&) = default;
};

// Where a rank stands among those of its stage, under a strategy. The product of the
// degrees is the number of ranks, and rank = sum of coordinate times stride
// (planner/model/strategy.h).
struct GridPlace {
  int tensor = 0;
  int context = 0;
  int data = 0;
  friend bool operator==(const GridPlace&, const GridPlace&) = default;
};
// `rank_in_stage`: from 0 to strategy.rank_count() - 1.
GridPlace PlaceOfRank(const Strategy& strategy, int rank_in_stage);
int RankOfPlace(const Strategy& strategy, const GridPlace& place);

// The activations that go into a layer and come out of it. Samples are shared by the
// data-parallel ranks, in order. Tokens are shared by the context-parallel ones: in order
// with all-to-alls, and with rings one piece from either end, so that causal attention costs
// all of them the same. With sequence parallelism the tensor-parallel ranks share what is
// left, in order; without it each of them holds all of it.
class ActivationLayout {
 public:
  ActivationLayout() = default;
  // REQUIRES: degrees divide: data the samples, context (twice, of a ring) the tokens, and
  // tensor what is left of them where it is sequence-parallel.
  ActivationLayout(int first_rank, const Strategy& strategy, int64_t sample_count,
                   int64_t token_count);

  int first_rank() const { return first_rank_; }
  int rank_count() const { return strategy_.rank_count(); }
  bool Has(int rank) const { return rank >= first_rank_ && rank < first_rank_ + rank_count(); }

  // Of a rank of the stage, numbered within the job. In memory the rows of a token lie
  // together, one for each sample, and tokens in the order of `TokensOf`: what ranks gather
  // along the tokens is then in one piece.
  Interval SamplesOf(int rank) const;
  // One or two intervals, in order.
  std::vector<Interval> TokensOf(int rank) const;
  // Rows it holds.
  int64_t RowCount() const;
  // Tokens of a sample it holds, and samples.
  int64_t TokensPerSample() const;
  int64_t SampleCount() const { return sample_count_ / strategy_.data_parallel_degree; }
  // The row in memory of a token it holds.
  int64_t RowOf(int rank, int64_t sample, int64_t token) const;

  // All ranks with the same rows as `rank`, in order; `rank` among them.
  std::vector<int> HoldersLike(int rank) const;
  GridPlace PlaceOf(int rank) const { return PlaceOfRank(strategy_, rank - first_rank_); }

  // Whether every rank holds the same rows in both.
  bool IsSameAs(const ActivationLayout& other) const;

 private:
  bool splits_by_tensor() const {
    return strategy_.sequence_parallel && strategy_.tensor_parallel_degree > 1;
  }

  int first_rank_ = 0;
  Strategy strategy_;
  int64_t sample_count_ = 0;
  int64_t token_count_ = 0;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PROGRAM_ACTIVATION_LAYOUT_H_
