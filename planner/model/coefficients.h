// The numbers of the cost model that no data sheet has. Each has a name and bounds, a calibration
// may set it, and fits change all but `kExpertImbalance`; docs/cost-model.md explains each.
// `Calibration::Resolve` makes a set of values, and planner/cost computes with it.

#ifndef PARPLAN_PLANNER_MODEL_COEFFICIENTS_H_
#define PARPLAN_PLANNER_MODEL_COEFFICIENTS_H_

#include <array>
#include <optional>

#include "absl/strings/string_view.h"

namespace parplan {

// The coefficients. Files and digests name them, so a name never changes its meaning.
enum class Coefficient {
  // Shares of the device's peaks.
  kMatrixEfficiency,     // large matrix products, of peak matrix FLOP/s
  kAttentionEfficiency,  // fused attention, of peak matrix FLOP/s
  kMemoryEfficiency,     // element-wise kernels, of peak memory bandwidth
  kSoftmaxEfficiency,    // softmax and dropout of unfused attention, of the same
  // Loss of efficiency with shape.
  kReductionRamp,  // inner dimension at which a product reaches half its efficiency
  // Spread of devices of one kind, the slowest of which sets the pace.
  kDeviceSpread,  // standard deviation of their speed, as a share
  // Launching.
  kKernelOverhead,  // device time a kernel takes at least, s
  kLaunchInterval,  // host time from one launch to the next, s
  kStepOverhead,    // host time of a step outside the layers, s
  // Links, as shares of the data sheet's rates.
  kIntraNodeEfficiency,
  kInterNodeEfficiency,
  kCollectiveLatency,  // one step of a collective inside a node, s
  kNetworkLatency,     // one step of a collective between nodes, s
  kContention,         // slow-down of computation and communication that overlap
  // Memory outside tensors.
  kContextMemory,       // driver and libraries, bytes
  kCommunicatorMemory,  // buffers of one communicator, bytes
  kWorkspaceMemory,     // matrix library, bytes
  kFragmentation,       // allocator's loss, as a share of what is allocated
  // Ratios that the terms above do not explain. Only these two may differ by layer kind.
  kTimeFactor,        // computing time of a layer, measured over predicted
  kActivationFactor,  // activation memory of a layer, measured over predicted
  // Mixtures of experts.
  kExpertImbalance,  // tokens of the busiest expert-parallel rank over those of the average one
};
inline constexpr int kCoefficientCount = static_cast<int>(Coefficient::kExpertImbalance) + 1;

// The prior and the bounds of a coefficient.
struct CoefficientInfo {
  Coefficient coefficient;
  // Name in files, for example `matrix_efficiency`.
  absl::string_view name;
  // Value from data sheets and literature.
  double prior;
  // Bounds that no calibration exceeds.
  double lowest;
  double highest;
  // Explanation in one line.
  absl::string_view meaning;
};
// Returns the row of a coefficient. The table is static.
const CoefficientInfo& InfoOf(Coefficient coefficient);

// Returns the coefficient with this name, or nothing.
std::optional<Coefficient> FindCoefficient(absl::string_view name);

// One value per coefficient. Plain data, which no operation keeps within the bounds.
class Coefficients {
 public:
  // Makes the priors.
  Coefficients();
  // Makes the priors of a family of devices (`DeviceDescription::device_family`). Data sheets of
  // different families overstate differently. An unknown family has the general priors.
  explicit Coefficients(absl::string_view device_family);
  // Return the value of one coefficient, in the unit that the enumerator states.
  double& operator[](Coefficient coefficient) { return value_[static_cast<int>(coefficient)]; }
  double operator[](Coefficient coefficient) const { return value_[static_cast<int>(coefficient)]; }
  friend bool operator==(const Coefficients&, const Coefficients&) = default;

 private:
  std::array<double, kCoefficientCount> value_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_MODEL_COEFFICIENTS_H_
