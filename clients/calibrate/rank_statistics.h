// Statistics over lists of figures, for the accuracy study and for `planctl runs`:
// `RankCorrelation({1, 2, 3}, {2, 3, 9})` is 1. The functions are pure. REQUIRES, unchecked: no
// value is NaN.

#ifndef PARPLAN_CLIENTS_CALIBRATE_RANK_STATISTICS_H_
#define PARPLAN_CLIENTS_CALIBRATE_RANK_STATISTICS_H_

#include <optional>
#include <vector>

#include "absl/types/span.h"

namespace parplan::accuracy {

// Returns the rank of each value, from 1 for the smallest; equal values share the mean of their
// places.
std::vector<double> Ranks(absl::Span<const double> values);

// Returns Spearman's rank correlation, -1 to 1; absent if all values of one list are equal, which
// is so of lists with fewer than two values. REQUIRES: equal lengths; aborts otherwise.
std::optional<double> RankCorrelation(absl::Span<const double> a, absl::Span<const double> b);

// Returns the loss of choosing by `predicted`, for figures of which the smallest is the best: the
// measured value at the smallest prediction (the mean over ties) divided by the smallest measured
// one, minus 1. REQUIRES: equal lengths, not 0; aborts otherwise. REQUIRES, unchecked: measured
// values above 0.
double TopOneRegret(absl::Span<const double> predicted, absl::Span<const double> measured);

// Returns the middle value, or the mean of the two middle ones. REQUIRES: at least one value;
// aborts otherwise.
double Median(std::vector<double> values);

}  // namespace parplan::accuracy

#endif  // PARPLAN_CLIENTS_CALIBRATE_RANK_STATISTICS_H_
