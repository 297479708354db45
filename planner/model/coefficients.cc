#include "planner/model/coefficients.h"

namespace parplan {
namespace {

using enum Coefficient;

constexpr std::array<CoefficientInfo, kCoefficientCount> kInfos = {{
    {kMatrixEfficiency, "matrix_efficiency", 0.75, 0.3, 0.87,
     "share of the peak matrix FLOP/s that a large product reaches"},
    {kAttentionEfficiency, "attention_efficiency", 0.45, 0.1, 0.9,
     "share of the peak matrix FLOP/s that fused attention reaches"},
    {kMemoryEfficiency, "memory_efficiency", 0.85, 0.3, 0.95,
     "share of the peak memory bandwidth that element-wise kernels reach"},
    {kSoftmaxEfficiency, "softmax_efficiency", 0.6, 0.2, 0.95,
     "share of the peak memory bandwidth that softmax and dropout of unfused attention reach"},
    {kReductionRamp, "reduction_ramp", 64.0, 0.0, 2048.0,
     "inner dimension at which a product reaches half its efficiency"},
    {kDeviceSpread, "device_spread", 0.01, 0.0, 0.05,
     "standard deviation of the speed of devices of one kind, as a share"},
    {kKernelOverhead, "kernel_overhead_seconds", 3e-6, 0.0, 2e-5,
     "device time a kernel takes at least"},
    {kLaunchInterval, "launch_interval_seconds", 1e-5, 1e-6, 6e-5,
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
    {kExpertImbalance, "expert_imbalance", 1.0, 1.0, 4.0,
     "tokens of the busiest expert-parallel rank over those of the average one"},
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

namespace {

struct FamilyPrior {
  absl::string_view device_family;
  Coefficient coefficient;
  double prior;
};

// Large products: the best shapes reach 0.86 of an A100's peak, 0.80 of an H100's and
// 0.78 of a B200's (Bekman, "Machine Learning Engineering", achievable FLOPS of
// accelerators); trained models keep the chip at its power limit, which takes another
// twentieth on A100 and up to a sixth where the peak is further above what the limit
// allows. Hopper's prior is that of 700 W for 989 TFLOP/s; devices with less power for their peak
// reach less (sustained_clock.h), and so do B200s, whose prior is what they would reach with as
// much. Turing's and Ada's data-centre cards (T4, L4) have 70 W. Boards of Blackwell for graphics
// (compute capability 12) have the matrix instructions of Ada's, and its priors. V100: 0.76 to 0.80
// of 125 TFLOP/s (Jia et al., "Dissecting the NVIDIA Volta GPU Architecture"). Unfused attention
// moves 40.3 GB in 41.7 ms on an A100 of 1.555 TB/s, 0.62 of the peak (Dao et al., FlashAttention,
// figure 2, GPT-2 medium), products included. Fused attention with a causal mask, heads of 128 and
// long sequences, forward and backward, by the kernels best for the device: FlashAttention-2,
// section 4 of its paper (A100: 189 of 312 TFLOP/s); cuDNN and FlashAttention-3, figures 5 and 6 of
// the latter's (H100: 540 to 616 forward, about 500 backward of 989). Other kernels:
// analytic_layer.cc.
constexpr FamilyPrior kFamilyPriors[] = {
    {"volta", kMatrixEfficiency, 0.72},        {"volta", kAttentionEfficiency, 0.3},
    {"turing", kMatrixEfficiency, 0.5},        {"turing", kAttentionEfficiency, 0.25},
    {"ampere", kMatrixEfficiency, 0.82},       {"ampere", kAttentionEfficiency, 0.6},
    {"ada", kMatrixEfficiency, 0.6},           {"ada", kAttentionEfficiency, 0.45},
    {"hopper", kMatrixEfficiency, 0.66},       {"hopper", kAttentionEfficiency, 0.5},
    {"blackwell", kMatrixEfficiency, 0.65},    {"blackwell", kAttentionEfficiency, 0.4},
    {"blackwell-rtx", kMatrixEfficiency, 0.6}, {"blackwell-rtx", kAttentionEfficiency, 0.45},
    {"cdna3", kMatrixEfficiency, 0.55},        {"cdna4", kMatrixEfficiency, 0.55},
};

}  // namespace

Coefficients::Coefficients(absl::string_view device_family) : Coefficients() {
  for (const FamilyPrior& known : kFamilyPriors) {
    if (known.device_family == device_family) (*this)[known.coefficient] = known.prior;
  }
}

Coefficients::Coefficients() {
  for (int i = 0; i < kCoefficientCount; ++i) value_[i] = kInfos[i].prior;
}

}  // namespace parplan
