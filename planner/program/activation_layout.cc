#include "planner/program/activation_layout.h"

#include <algorithm>

#include "base/check.h"

namespace parplan {

Interval Intersection(const Interval& a, const Interval& b) {
  return {std::max(a.begin, b.begin), std::min(a.end, b.end)};
}

GridPlace PlaceOfRank(const Strategy& strategy, int rank_in_stage) {
  return {.tensor = rank_in_stage / strategy.tensor_stride() % strategy.tensor_parallel_degree,
          .context = rank_in_stage / strategy.context_stride() % strategy.context_parallel_degree,
          .data = rank_in_stage / strategy.data_stride() % strategy.data_parallel_degree};
}

int RankOfPlace(const Strategy& strategy, const GridPlace& place) {
  return place.tensor * strategy.tensor_stride() + place.context * strategy.context_stride() +
         place.data * strategy.data_stride();
}

ActivationLayout::ActivationLayout(int first_rank, const Strategy& strategy, int64_t sample_count,
                                   int64_t token_count)
    : first_rank_(first_rank),
      strategy_(strategy),
      sample_count_(sample_count),
      token_count_(token_count) {}

Interval ActivationLayout::SamplesOf(int rank) const {
  const int64_t share = sample_count_ / strategy_.data_parallel_degree;
  const int64_t begin = PlaceOf(rank).data * share;
  return {begin, begin + share};
}

int64_t ActivationLayout::TokensPerSample() const {
  const int64_t share = token_count_ / strategy_.context_parallel_degree;
  return splits_by_tensor() ? share / strategy_.tensor_parallel_degree : share;
}

int64_t ActivationLayout::RowCount() const { return SampleCount() * TokensPerSample(); }

std::vector<Interval> ActivationLayout::TokensOf(int rank) const {
  const GridPlace place = PlaceOf(rank);
  const int64_t context = strategy_.context_parallel_degree;
  std::vector<Interval> tokens;
  if (strategy_.has_two_pieces()) {
    const int64_t piece = token_count_ / (2 * context);
    const int64_t last = 2 * context - 1 - place.context;
    tokens = {{place.context * piece, (place.context + 1) * piece},
              {last * piece, (last + 1) * piece}};
    // The two pieces in the middle of the sequence are adjacent.
    if (tokens[0].end == tokens[1].begin) tokens = {{tokens[0].begin, tokens[1].end}};
  } else {
    const int64_t share = token_count_ / context;
    tokens = {{place.context * share, (place.context + 1) * share}};
  }
  if (!splits_by_tensor()) return tokens;
  // The part of this tensor-parallel rank, counted along the tokens above.
  const int64_t share = TokensPerSample();
  const Interval wanted = {place.tensor * share, (place.tensor + 1) * share};
  std::vector<Interval> parts;
  int64_t passed = 0;
  for (const Interval& interval : tokens) {
    const Interval part = Intersection(wanted, {passed, passed + interval.size()});
    if (!part.is_empty()) {
      const int64_t shift = interval.begin - passed;
      parts.push_back({part.begin + shift, part.end + shift});
    }
    passed += interval.size();
  }
  return parts;
}

int64_t ActivationLayout::RowOf(int rank, int64_t sample, int64_t token) const {
  int64_t passed = 0;
  for (const Interval& interval : TokensOf(rank)) {
    if (token >= interval.begin && token < interval.end) {
      return (passed + token - interval.begin) * SampleCount() + sample - SamplesOf(rank).begin;
    }
    passed += interval.size();
  }
  PARPLAN_CHECK(false);
  return -1;
}

std::vector<int> ActivationLayout::HoldersLike(int rank) const {
  if (splits_by_tensor()) return {rank};
  GridPlace place = PlaceOf(rank);
  std::vector<int> holders;
  for (place.tensor = 0; place.tensor < strategy_.tensor_parallel_degree; ++place.tensor) {
    holders.push_back(first_rank_ + RankOfPlace(strategy_, place));
  }
  std::sort(holders.begin(), holders.end());
  return holders;
}

bool ActivationLayout::IsSameAs(const ActivationLayout& other) const {
  if (first_rank_ != other.first_rank_ || rank_count() != other.rank_count() ||
      sample_count_ != other.sample_count_ || token_count_ != other.token_count_) {
    return false;
  }
  for (int rank = first_rank_; rank < first_rank_ + rank_count(); ++rank) {
    if (SamplesOf(rank) != other.SamplesOf(rank) || TokensOf(rank) != other.TokensOf(rank)) {
      return false;
    }
  }
  return true;
}

}  // namespace parplan
