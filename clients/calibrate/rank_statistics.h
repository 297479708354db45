// Statistics over lists of figures, for the accuracy study and for `planctl runs`. Pure. A broken
// REQUIRES about lengths ends the program; others are not checked. NaN is not allowed.

#ifndef PARPLAN_CLIENTS_CALIBRATE_RANK_STATISTICS_H_
#define PARPLAN_CLIENTS_CALIBRATE_RANK_STATISTICS_H_

#include <optional>
#include <vector>

#include "absl/types/span.h"

namespace parplan::accuracy {

// Returns the rank of each value, from 1; equal values share the mean of their places.
std::vector<double> Ranks(absl::Span<const double> values);

// Returns Spearman's rank correlation; absent if all values of a list are equal, also if there are
// none. REQUIRES: equal lengths.
std::optional<double> RankCorrelation(absl::Span<const double> a, absl::Span<const double> b);

// Returns the loss of choosing by `predicted`: the measured value at the smallest prediction (the
// mean over ties) divided by the smallest measured one, less 1. REQUIRES: equal lengths, not 0, and
// measured values above 0.
double TopOneRegret(absl::Span<const double> predicted, absl::Span<const double> measured);

// Returns the middle value, or the mean of the two middle ones. REQUIRES: at least one value.
double Median(std::vector<double> values);

}  // namespace parplan::accuracy

#endif  // PARPLAN_CLIENTS_CALIBRATE_RANK_STATISTICS_H_
