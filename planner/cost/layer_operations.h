// What a device does for one layer and one micro-batch: kernels with their sizes.

#ifndef PARPLAN_PLANNER_COST_LAYER_OPERATIONS_H_
#define PARPLAN_PLANNER_COST_LAYER_OPERATIONS_H_

#include <array>

#include "planner/cost/matrix_time.h"
#include "planner/model/model_spec.h"
#include "planner/model/runtime_traits.h"
#include "planner/model/strategy.h"

namespace parplan {

// How the ranks of a stage share one layer.
struct LayerShape {
  int tensor_parallel_degree = 1;
  int context_parallel_degree = 1;
  int expert_parallel_degree = 1;
  bool sequence_parallel = false;
  // With rings a context-parallel rank has all its heads and a part of the queries, with
  // Ulysses a part of the heads and all queries.
  ContextKind context_kind = ContextKind::kRing;
  friend bool operator==(const LayerShape&, const LayerShape&) = default;
};

enum class OperationKind {
  kMatrixProduct,
  // Limited by memory: norms, activation functions, softmax, dropout, copies.
  kElementwise,
  // One kernel from queries, keys and values to the output.
  kFusedAttention,
};

struct LayerOperation {
  OperationKind kind;
  // Of `kMatrixProduct`.
  ProductShape product;
  // Read and written by `kElementwise`, and random numbers it draws.
  double bytes;
  double random_count;
  // They are rows of attention scores.
  bool of_scores;
  // Done by `kFusedAttention`, and how much longer they take than with long sequences
  // and heads of 128.
  double flops;
  double slowdown;
  // Kernels it is made of.
  int kernel_count;
  // A weight gradient that a tensor-parallel collective can hide behind: the gradient
  // of the input is ready and on its way.
  bool hides_collective;
};

// Operations of one pass in order, without allocation.
class OperationList {
 public:
  // More than any layer has.
  static constexpr int kCapacity = 64;

  OperationList() {}  // NOLINT: leaves the unused entries as they are

  void AddProduct(const ProductShape& product, bool hides_collective = false);
  void AddElementwise(double bytes, int kernel_count = 1, double random_count = 0.0);
  void AddScores(double bytes, int kernel_count = 1, double random_count = 0.0);
  void AddFusedAttention(double flops, double slowdown, int kernel_count);
  // Kernels that take the host's time and next to none of the device's.
  void AddLaunches(int kernel_count) { extra_launch_count_ += kernel_count; }

  const LayerOperation* begin() const { return operations_.data(); }
  const LayerOperation* end() const { return operations_.data() + size_; }
  int size() const { return size_; }

  // Of matrix products and fused attention.
  double Flops() const;
  double ElementwiseBytes() const;
  // Kernels of all operations and the extra ones.
  int LaunchCount() const;

 private:
  LayerOperation& Add(OperationKind kind, int kernel_count);

  int size_ = 0;
  int extra_launch_count_ = 0;
  std::array<LayerOperation, kCapacity> operations_;
};

struct LayerOperations {
  OperationList forward;
  OperationList backward;
  // What selective recomputation does again: attention from the scores to their
  // product with the values (Korthikanti et al., section 5), or what the runtime's
  // operators leave.
  OperationList selective_recompute;
  // The last linear map of the forward pass, of a transformer layer without experts;
  // without FLOPs otherwise.
  ProductShape last_forward_product;
};

// Fills `operations` (empty before) with the work of one device for `samples`
// samples, a number that may be a fraction.
//
// Matrix products: forward once, backward twice, with the gradient of the input and
// of the weights. Unfused attention computes all of the scores, fused attention the
// half a causal mask leaves. Collectives are not in the lists except as launches.
// Traffic of element-wise kernels counts every tensor they read or write once.
void ListOperations(const LayerDefinition& layer, Precision precision, const RuntimeTraits& runtime,
                    const LayerShape& shape, double samples, LayerOperations& operations);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_COST_LAYER_OPERATIONS_H_
