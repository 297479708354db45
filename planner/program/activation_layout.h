// The part of a micro-batch's activations that each rank of a stage holds between layers.
// `RankProgram` and the executor place activations by it.

#ifndef PARPLAN_PLANNER_PROGRAM_ACTIVATION_LAYOUT_H_
#define PARPLAN_PLANNER_PROGRAM_ACTIVATION_LAYOUT_H_

#include <cstdint>
#include <vector>

#include "planner/model/strategy.h"

namespace parplan {

// The integers in [begin, end).
struct Interval {
  int64_t begin = 0;
  int64_t end = 0;
  // Return the number of integers, which is negative if `end` is below `begin`, and whether there
  // are none.
  int64_t size() const { return end - begin; }
  bool is_empty() const { return end <= begin; }
  friend bool operator==(const Interval&, const Interval&) = default;
};

// Returns the integers in both; an interval that `is_empty` if there are none.
Interval Intersection(const Interval& a, const Interval& b);

// A block of rows: every token of `tokens` of every sample of `samples`, both counted within the
// micro-batch.
struct ActivationBlock {
  Interval samples;
  Interval tokens;
  // Returns the number of rows: samples times tokens.
  int64_t row_count() const { return samples.size() * tokens.size(); }
  friend bool operator==(const ActivationBlock&, const ActivationBlock&) = default;
};

// The coordinates of a rank among those of its stage under a strategy. The product of the degrees
// is the number of ranks, and rank = sum of coordinate times stride (planner/model/strategy.h).
struct GridPlace {
  int tensor = 0;
  int context = 0;
  int data = 0;
  friend bool operator==(const GridPlace&, const GridPlace&) = default;
};
// Return the coordinates of `rank_in_stage`, from 0 to strategy.rank_count() - 1, and the rank in
// the stage at coordinates, which are each from 0 to below their degree. Neither is checked.
GridPlace PlaceOfRank(const Strategy& strategy, int rank_in_stage);
int RankOfPlace(const Strategy& strategy, const GridPlace& place);

// The layout of the activations that go into a layer and come out of it. Immutable.
//   - Samples are divided among data-parallel ranks, in order.
//   - The tokens of a sample are divided among context-parallel ranks. With Ulysses (all-to-alls)
//     each rank gets one contiguous piece, in order. With every other kind it gets one piece from
//     either end, so that causal attention costs all ranks the same.
//   - With sequence parallelism the tokens of a context-parallel rank are divided among its
//     tensor-parallel ranks, in order. Without it each of them holds all of these tokens.
class ActivationLayout {
 public:
  // Makes a layout without rows, of a stage that is rank 0 alone.
  ActivationLayout() = default;
  // Makes the layout of a micro-batch of `sample_count` samples over the whole stage, of
  // `token_count` tokens each, on the stage's ranks from `first_rank` of the job on. REQUIRES: the
  // data-parallel degree divides the samples, the context-parallel degree (twice that if ranks have
  // two pieces) the tokens, and with sequence parallelism the tensor-parallel degree the tokens
  // left to a rank; nothing checks it.
  ActivationLayout(int first_rank, const Strategy& strategy, int64_t sample_count,
                   int64_t token_count);

  // Return the first rank of the stage within the job, and the number of its ranks.
  int first_rank() const { return first_rank_; }
  int rank_count() const { return strategy_.rank_count(); }
  // Returns whether `rank`, numbered within the job, is one of the stage.
  bool Has(int rank) const { return rank >= first_rank_ && rank < first_rank_ + rank_count(); }

  // Returns the samples of `rank`, which is a rank of the stage (`Has`) numbered within the job,
  // here and below; that is not checked. In memory the rows of a token lie together, one for each
  // sample, and tokens lie in the order of `TokensOf`, so that a gather along the tokens writes one
  // piece per rank.
  Interval SamplesOf(int rank) const;
  // Returns the tokens of `rank`: one or two intervals, ascending, that do not touch.
  std::vector<Interval> TokensOf(int rank) const;
  // Returns the number of rows that each rank holds.
  int64_t RowCount() const;
  // Return the number of tokens of a sample that each rank holds, and of samples.
  int64_t TokensPerSample() const;
  int64_t SampleCount() const { return sample_count_ / strategy_.data_parallel_degree; }
  // Returns the index of a row among those that the rank holds, from 0, in the order of memory.
  // `sample` and `token` are counted within the micro-batch. REQUIRES: `rank` holds both; aborts
  // for a token that it does not hold, and does not check the sample.
  int64_t RowOf(int rank, int64_t sample, int64_t token) const;

  // Lists all ranks of the job with the same rows as `rank`, itself included, ascending.
  std::vector<int> HoldersLike(int rank) const;
  // Returns the coordinates of a rank of the stage.
  GridPlace PlaceOf(int rank) const { return PlaceOfRank(strategy_, rank - first_rank_); }

  // Returns whether both are of the same ranks, samples and tokens and every rank holds the same
  // rows in both. O(ranks) time.
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
