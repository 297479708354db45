#include "planner/model/coefficients.h"

namespace parplan {
namespace {

using enum Coefficient;

constexpr std::array<CoefficientInfo, kCoefficientCount> kInfos = {{
    {kMatrixEfficiency, "matrix_efficiency", 0.75, 0.3, 0.95,
     "share of the peak matrix FLOP/s that a large product reaches"},
    {kAttentionEfficiency, "attention_efficiency", 0.45, 0.1, 0.9,
     "share of the peak matrix FLOP/s that fused attention reaches"},
    {kMemoryEfficiency, "memory_efficiency", 0.8, 0.3, 0.95,
     "share of the peak memory bandwidth that element-wise kernels reach"},
    {kReductionRamp, "reduction_ramp", 128.0, 0.0, 2048.0,
     "inner dimension at which a product reaches half its efficiency"},
    {kMisalignedEfficiency, "misaligned_efficiency", 0.3, 0.05, 1.0,
     "share of its rate that a product keeps when a size is no multiple of 16 bytes"},
    {kKernelOverhead, "kernel_overhead_seconds", 3e-6, 0.0, 2e-5,
     "device time a kernel takes at least"},
    {kLaunchInterval, "launch_interval_seconds", 8e-6, 1e-6, 6e-5,
     "host time from one launch to the next"},
    {kStepOverhead, "step_overhead_seconds", 5e-3, 0.0, 0.2,
     "host time of a step outside the layers"},
    {kIntraNodeEfficiency, "intra_node_efficiency", 0.78, 0.3, 1.0,
     "share of the data sheet's rate that collectives inside a node reach"},
    {kInterNodeEfficiency, "inter_node_efficiency", 0.8, 0.2, 1.0,
     "share of the data sheet's rate that collectives between nodes reach"},
    {kCollectiveLatency, "collective_latency_seconds", 4e-6, 5e-7, 5e-5,
     "one step of a collective inside a node"},
    {kNetworkLatency, "network_latency_seconds", 1.2e-5, 2e-6, 2e-4,
     "one step of a collective between nodes"},
    {kContention, "contention", 1.2, 1.0, 1.6,
     "slow-down of computation and communication that overlap"},
    {kContextMemory, "context_memory_bytes", 1.1e9, 2e8, 3e9, "driver and libraries"},
    {kCommunicatorMemory, "communicator_memory_bytes", 5e8, 0.0, 2e9,
     "buffers of one communicator"},
    {kWorkspaceMemory, "workspace_memory_bytes", 1e8, 0.0, 4e8, "matrix library"},
    {kFragmentation, "fragmentation", 0.04, 0.0, 0.25,
     "allocator's loss, as a share of what is allocated"},
    {kTimeFactor, "time_factor", 1.0, 0.5, 2.0, "computing time of a layer over the predicted one"},
    {kActivationFactor, "activation_factor", 1.0, 0.5, 2.0,
     "activation memory of a layer over the predicted one"},
}};

constexpr bool IndexedByCoefficient() {
  for (int i = 0; i < kCoefficientCount; ++i) {
    if (static_cast<int>(kInfos[i].coefficient) != i) return false;
  }
  return true;
}
static_assert(IndexedByCoefficient());

}  // namespace

const CoefficientInfo& InfoOf(Coefficient coefficient) {
  return kInfos[static_cast<int>(coefficient)];
}

std::optional<Coefficient> FindCoefficient(absl::string_view name) {
  for (const CoefficientInfo& info : kInfos) {
    if (info.name == name) return info.coefficient;
  }
  return std::nullopt;
}

Coefficients::Coefficients() {
  for (int i = 0; i < kCoefficientCount; ++i) value_[i] = kInfos[i].prior;
}

}  // namespace parplan
