// The kernels and products of devices in tests over the fakes: none.

#include "tests/executor/device/cuda/silent_kernels.h"

#include <memory>

#include "executor/device/cuda/kernel_queue.h"
#include "executor/device/cuda/matrix_products.h"

namespace parplan::cuda {

// Products are not what is looked at.
struct MatrixProducts::Choice {};
absl::StatusOr<std::unique_ptr<MatrixProducts>> MatrixProducts::Create() {
  return std::unique_ptr<MatrixProducts>(new MatrixProducts());
}
MatrixProducts::~MatrixProducts() = default;
absl::Status MatrixProducts::Multiply(ElementType, const MatrixProduct&, cudaStream_t) {
  return absl::InternalError("the fake multiplies nothing");
}
void LaunchSimpleProduct(ElementType, const MatrixProduct&, KernelQueue&) {}
std::unique_ptr<LayerKernels> MakeDeviceKernels(ElementType type, KernelQueue& queue) {
  if (type != ElementType::kFloat32 && type != ElementType::kBfloat16) return nullptr;
  return std::make_unique<SilentKernels>(queue);
}

}  // namespace parplan::cuda
