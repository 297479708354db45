// The range of step times on one cluster: how far predictions are off where the cluster is known,
// and, where it is not, how much clusters differ. `CostModel::Create` asks it for each node group
// and each reach of tensor parallelism. Calibrations, `ResidualKey` and `RangeFactors` are those of
// calibration.h; factors are of the predicted time. Pure.

#ifndef PARPLAN_PLANNER_MODEL_CLUSTER_RANGE_H_
#define PARPLAN_PLANNER_MODEL_CLUSTER_RANGE_H_

#include "absl/strings/string_view.h"
#include "planner/model/calibration.h"

namespace parplan {

// Returns the standard deviation of ln(measured / predicted) from one cluster to another: the root
// mean square of the logarithms of the `time_factor` that clusters have in the calibration, to
// which its prior, 10 %, is added as if it had been seen on two clusters; so it is 0.1 for a
// calibration without clusters. Each family with a factor of its own on a cluster counts once;
// factors of one kind of layer do not count. Two, because factors of few clusters should move it:
// the published calibration has seventeen, from 0.89 to 1.32.
double ClusterDeviation(const Calibration& calibration);

// Returns the range that holds a measured step on `cluster` with a probability of 90 %. It is
// `calibration.Range(key)` if the calibration has a value of any coefficient but
// `activation_factor` for the cluster and the key's device family or all families, if the key's
// confidence is `kMeasured` (times were measured on the cluster itself), or if the class is a
// prior, which is of clusters that were never measured. Otherwise residuals of runs on other
// clusters say nothing about this one's factor: its ends move away from the median by adding
// variances of logarithms, those of the residuals and `ClusterDeviation`, and `basis` says so.
// `cluster` may be empty: a cluster that no calibration knows.
//
// REQUIRES: `key` is of step durations; aborts otherwise.
RangeFactors StepRangeOn(const Calibration& calibration, absl::string_view cluster,
                         const ResidualKey& key);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_MODEL_CLUSTER_RANGE_H_
