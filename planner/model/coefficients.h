// The numbers of the cost model that no data sheet gives: named, bounded, fitted by
// calibrations (docs/cost-model.md has the meaning of each).

#ifndef PARPLAN_PLANNER_MODEL_COEFFICIENTS_H_
#define PARPLAN_PLANNER_MODEL_COEFFICIENTS_H_

#include <array>
#include <optional>

#include "absl/strings/string_view.h"

namespace parplan {

// Files and digests know them by name; a name never changes its meaning.
enum class Coefficient {
  // Shares of the device's peaks.
  kMatrixEfficiency,     // large matrix products, of peak matrix FLOP/s
  kAttentionEfficiency,  // fused attention, of peak matrix FLOP/s
  kMemoryEfficiency,     // element-wise kernels, of peak memory bandwidth
  kSoftmaxEfficiency,    // softmax and dropout of unfused attention, of the same
  // How efficiency falls with shape.
  kReductionRamp,  // inner dimension at which a product reaches half its efficiency
  // Devices of one kind differ, and the slowest sets the pace.
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
  // What the terms above don't explain. The only ones that layer kinds have of
  // their own.
  kTimeFactor,        // computing time of a layer, measured over predicted
  kActivationFactor,  // activation memory of a layer, measured over predicted
};
inline constexpr int kCoefficientCount = static_cast<int>(Coefficient::kActivationFactor) + 1;

// What is known of a coefficient without any calibration.
struct CoefficientInfo {
  Coefficient coefficient;
  // In files, for example `matrix_efficiency`.
  absl::string_view name;
  // Of the data sheets and the literature.
  double prior;
  // No calibration goes beyond.
  double lowest;
  double highest;
  // One line.
  absl::string_view meaning;
};
const CoefficientInfo& InfoOf(Coefficient coefficient);

// The one with this name, if there is one.
std::optional<Coefficient> FindCoefficient(absl::string_view name);

// A value for each. Plain data.
class Coefficients {
 public:
  // The priors.
  Coefficients();
  // The priors of a family of devices (`DeviceDescription::device_family`), where data
  // sheets overstate differently; those of all for a family nobody has looked at.
  explicit Coefficients(absl::string_view device_family);
  double& operator[](Coefficient coefficient) { return value_[static_cast<int>(coefficient)]; }
  double operator[](Coefficient coefficient) const { return value_[static_cast<int>(coefficient)]; }
  friend bool operator==(const Coefficients&, const Coefficients&) = default;

 private:
  std::array<double, kCoefficientCount> value_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_MODEL_COEFFICIENTS_H_
