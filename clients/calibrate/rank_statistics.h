// Statistics over lists of figures, for the accuracy study and for `planctl runs`. The functions
// are pure. REQUIRES: no value is NaN, which is not checked. A REQUIRES below about the length of a
// list is checked and aborts the program; that about values above 0 is not checked.

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
// is so of lists with fewer than two values. REQUIRES: equal lengths.
std::optional<double> RankCorrelation(absl::Span<const double> a, absl::Span<const double> b);

// Returns the loss of choosing by `predicted`, for figures of which the smallest is the best: the
// measured value at the smallest prediction (the mean over ties) divided by the smallest measured
// one, minus 1. REQUIRES: equal lengths, not 0, and measured values above 0.
double TopOneRegret(absl::Span<const double> predicted, absl::Span<const double> measured);

// Returns the middle value, or the mean of the two middle ones. REQUIRES: at least one value.
double Median(std::vector<double> values);

}  // namespace parplan::accuracy

#endif  // PARPLAN_CLIENTS_CALIBRATE_RANK_STATISTICS_H_
