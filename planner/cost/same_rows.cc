#include "planner/cost/same_rows.h"

#include "planner/model/strategy_fields.h"

namespace parplan {
namespace {

static_assert(kStrategyFieldCount == 13, "say whether the new field moves samples or tokens");

// Returns the number of tensor-parallel ranks that share the tokens of a context-parallel rank.
int TensorShares(const Strategy& strategy) {
  return strategy.sequence_parallel ? strategy.tensor_parallel_degree : 1;
}

int Coordinate(int rank, int stride, int degree) { return rank / stride % degree; }

int SampleShare(const Strategy& strategy, int rank) {
  return Coordinate(rank, strategy.data_stride(), strategy.data_parallel_degree);
}

// Returns the number of a rank's share of the tokens of a sample, in the order in which
// `TensorShares` divides those of a context-parallel rank.
int TokenShare(const Strategy& strategy, int rank) {
  const int shares = TensorShares(strategy);
  const int context = Coordinate(rank, strategy.context_stride(), strategy.context_parallel_degree);
  const int tensor =
      shares == 1 ? 0 : Coordinate(rank, strategy.tensor_stride(), strategy.tensor_parallel_degree);
  return context * shares + tensor;
}

}  // namespace

bool HoldSameRows(const Strategy& a, const Strategy& b) {
  if (a.data_parallel_degree != b.data_parallel_degree ||
      a.has_two_pieces() != b.has_two_pieces() ||
      a.context_parallel_degree * TensorShares(a) != b.context_parallel_degree * TensorShares(b)) {
    return false;
  }
  // Tensor-parallel ranks divide two pieces further.
  if (a.has_two_pieces() && a.context_parallel_degree != b.context_parallel_degree) return false;
  if (a.tensor_parallel_degree == b.tensor_parallel_degree && a.rank_order == b.rank_order) {
    return true;
  }
  for (int rank = 0; rank < a.rank_count(); ++rank) {
    if (SampleShare(a, rank) != SampleShare(b, rank) ||
        TokenShare(a, rank) != TokenShare(b, rank)) {
      return false;
    }
  }
  return true;
}

}  // namespace parplan
