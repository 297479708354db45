#include "planner/cost/layer_operations.h"

#include "base/check.h"
#include "planner/cost/layer_lister.h"

namespace parplan {

LayerOperation& OperationList::Add(OperationKind kind, int kernel_count) {
  PARPLAN_CHECK(size_ < kCapacity);
  LayerOperation& operation = operations_[size_++];
  operation.kind = kind;
  operation.kernel_count = kernel_count;
  operation.product = ProductShape();
  operation.bytes = 0.0;
  operation.random_count = 0.0;
  operation.of_scores = false;
  operation.flops = 0.0;
  operation.slowdown = 1.0;
  operation.shade = CollectiveShade::kNone;
  operation.module = module_;
  operation.of_weights = false;
  return operation;
}

std::optional<RecomputeModule> OperationList::SetModule(std::optional<RecomputeModule> module) {
  const int before = module_;
  module_ = module.has_value() ? static_cast<int>(*module) : 0;
  if (before == 0) return std::nullopt;
  return static_cast<RecomputeModule>(before);
}

void OperationList::AddProduct(const ProductShape& product, CollectiveShade shade) {
  LayerOperation& operation = Add(OperationKind::kMatrixProduct, 1);
  operation.product = product;
  operation.shade = shade;
}

void OperationList::AddElementwise(double bytes, int kernel_count, double random_count) {
  LayerOperation& operation = Add(OperationKind::kElementwise, kernel_count);
  operation.bytes = bytes;
  operation.random_count = random_count;
}

void OperationList::AddScores(double bytes, int kernel_count, double random_count) {
  AddElementwise(bytes, kernel_count, random_count);
  operations_[size_ - 1].of_scores = true;
}

void OperationList::AddFusedAttention(double flops, double slowdown, int kernel_count) {
  LayerOperation& operation = Add(OperationKind::kFusedAttention, kernel_count);
  operation.flops = flops;
  operation.slowdown = slowdown;
}

void OperationList::AddScan(double bytes, double flops, int kernel_count) {
  LayerOperation& operation = Add(OperationKind::kScan, kernel_count);
  operation.bytes = bytes;
  operation.flops = flops;
}

double OperationList::Flops() const {
  double flops = 0.0;
  for (const LayerOperation& operation : *this) {
    flops += operation.product.Flops() + operation.flops;
  }
  return flops;
}

int OperationList::LaunchCount() const {
  int count = extra_launch_count_;
  for (const LayerOperation& operation : *this) count += operation.kernel_count;
  return count;
}

void ListOperations(const LayerDefinition& layer, Precision precision, const RuntimeTraits& runtime,
                    const LayerShape& shape, double samples, LayerOperations& operations,
                    int quantised_copy_count, const ExponentialCost& exponentials) {
  LayerLister(layer, precision, runtime, shape, samples, quantised_copy_count, exponentials,
              operations)
      .List();
}

}  // namespace parplan
