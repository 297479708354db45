// The kernels of one layer and one micro-batch on one device, with their sizes. `AnalyticLayer`
// sums up their times.

#ifndef PARPLAN_PLANNER_COST_LAYER_OPERATIONS_H_
#define PARPLAN_PLANNER_COST_LAYER_OPERATIONS_H_

#include <array>
#include <optional>

#include "planner/cost/exponential_cost.h"
#include "planner/cost/matrix_time.h"
#include "planner/model/model_spec.h"
#include "planner/model/precision.h"
#include "planner/model/runtime_traits.h"
#include "planner/model/strategy.h"

namespace parplan {

// How the ranks of a stage share one layer.
struct LayerShape {
  int tensor_parallel_degree = 1;
  int context_parallel_degree = 1;
  int expert_parallel_degree = 1;
  bool sequence_parallel = false;
  // With rings a context-parallel rank has all heads of its tensor-parallel part and some of the
  // queries; with Ulysses it has some of these heads and all queries.
  ContextKind context_kind = ContextKind::kRing;
  // See `Strategy::context_exchange_degree`.
  int context_exchange_degree = 1;
  // Tokens of this rank's experts over those of the average rank.
  double expert_load = 1.0;
  // See `Strategy::expert_tensor_parallel_degree`.
  int expert_tensor_parallel_degree = 0;
  friend bool operator==(const LayerShape&, const LayerShape&) = default;
};

// The way in which the time of an operation follows from its sizes.
enum class OperationKind {
  kMatrixProduct,
  // Limited by memory: norms, activation functions, softmax, dropout, copies.
  kElementwise,
  // One kernel from queries, keys and values to the output.
  kFusedAttention,
  // Kernels that move bytes and compute in vector units meanwhile: the recurrence of a state space.
  kScan,
};

// How a matrix product can hide a tensor-parallel collective.
enum class CollectiveShade {
  kNone,
  // A weight gradient: the gradient of the input is ready and on its way meanwhile.
  kWhole,
  // The product reads what a collective gathers or writes what one scatters, so it hides the
  // collective if both go on part by part (`TensorParallelOverlap::kProducts`).
  kSplit,
};

// One operation of one pass over one micro-batch on one device. The kind decides which members have
// a meaning; the others are 0 or false.
struct LayerOperation {
  OperationKind kind;
  // The sizes of a `kMatrixProduct`.
  ProductShape product;
  // Bytes that `kElementwise` and `kScan` read and write.
  double bytes;
  // Random numbers that `kElementwise` draws.
  double random_count;
  // Whether `bytes` are rows of attention scores.
  bool of_scores;
  // Floating-point operations of `kFusedAttention`, or of `kScan` in vector units.
  double flops;
  // Time of `kFusedAttention` divided by its time with long sequences and heads of 128; 1 for other
  // kinds.
  double slowdown;
  // Number of kernels.
  int kernel_count;
  // The part that a tensor-parallel collective can hide behind.
  CollectiveShade shade;
  // The smallest module that repeats the operation, as its number; 0 if none does.
  int module;
  // Whether it makes or adds up a gradient of weights, which may wait for a pass of its own.
  bool of_weights;
};

// Operations of one pass in order, without allocation.
class OperationList {
 public:
  // More than any layer has; `AddX` checks it. A fixed array keeps the list free of allocations.
  static constexpr int kCapacity = 96;

  OperationList() {}  // NOLINT: leaves the unused entries as they are

  // Append an operation of one kind with the values of `LayerOperation` of the same names;
  // AddScores appends a `kElementwise` over rows of attention scores. REQUIRES: size() < kCapacity,
  // which is checked.
  void AddProduct(const ProductShape& product, CollectiveShade shade = CollectiveShade::kNone);
  void AddElementwise(double bytes, int kernel_count = 1, double random_count = 0.0);
  void AddScores(double bytes, int kernel_count = 1, double random_count = 0.0);
  void AddFusedAttention(double flops, double slowdown, int kernel_count);
  void AddScan(double bytes, double flops, int kernel_count = 1);
  // Counts kernels that take the host's time and next to none of the device's.
  void AddLaunches(int kernel_count) {
    extra_launch_count_ += kernel_count;
    module_launch_count_[module_] += kernel_count;
  }

  // Sets `LayerOperation::of_weights` of the last operation. REQUIRES, unchecked: there is one.
  void MarkOfWeights() { operations_[size_ - 1].of_weights = true; }

  // Sets the smallest module that repeats what is appended from now on; none at the beginning.
  // Returns the one before.
  std::optional<RecomputeModule> SetModule(std::optional<RecomputeModule> module);

  // The operations, for a loop; valid until the list changes.
  const LayerOperation* begin() const { return operations_.data(); }
  const LayerOperation* end() const { return operations_.data() + size_; }
  int size() const { return size_; }

  // Returns the floating-point operations of matrix products, fused attention and scans.
  double Flops() const;
  // Returns the number of kernels, those of `AddLaunches` included.
  int LaunchCount() const;
  // Returns the number of those of `AddLaunches` that a module, by its number, is the smallest to
  // repeat.
  int ModuleLaunchCount(int module) const { return module_launch_count_[module]; }

 private:
  LayerOperation& Add(OperationKind kind, int kernel_count);

  int size_ = 0;
  int extra_launch_count_ = 0;
  int module_ = 0;
  // [module]
  std::array<int, kRecomputeModuleCount + 1> module_launch_count_ = {};
  std::array<LayerOperation, kCapacity> operations_;
};

// The passes of one layer.
struct LayerOperations {
  OperationList forward;
  OperationList backward;
  // The operations that selective recomputation repeats: attention from the scores to their product
  // with the values (Korthikanti et al., section 5), or those of the runtime's operators whose
  // results are not kept.
  OperationList selective_recompute;
  // The last linear map of the forward pass of a transformer layer without experts; of size 0 for
  // other layers.
  ProductShape last_forward_product;
  // Number of kernels of the forward pass that the host launches while the device has nothing to
  // do, because the host waited for it (`RuntimeTraits::reads_expert_counts`). They are in
  // `forward`, too.
  int awaited_launch_count = 0;
};

// Fills `operations`, which must be empty, with the work of one device for `samples` samples, a
// number above 0 that may be a fraction. Pure.
//
// The backward pass has two matrix products for each one of the forward pass: the gradients of
// the input and of the weights. Unfused attention computes all scores, fused attention those that a
// causal mask and a window leave. An opaque layer has no operations. Collectives only count as
// launches. The traffic of element-wise kernels counts every tensor they read or write once;
// quantisation writes `quantised_copy_count` copies (`QuantisedCopyCount`). Fused attention has the
// `exponentials` of the device.
void ListOperations(const LayerDefinition& layer, Precision precision, const RuntimeTraits& runtime,
                    const LayerShape& shape, double samples, LayerOperations& operations,
                    int quantised_copy_count = Quantisation::kCopyCount,
                    const ExponentialCost& exponentials = {});

}  // namespace parplan

#endif  // PARPLAN_PLANNER_COST_LAYER_OPERATIONS_H_
