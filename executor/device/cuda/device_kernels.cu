#include "executor/device/cuda/device_kernels.h"

#include <memory>

#include "executor/device/cuda/simple_product.h"

namespace parplan::cuda {

std::unique_ptr<LayerKernels> MakeDeviceKernels(ElementType type, KernelQueue& queue) {
  if (type == ElementType::kFloat32) return std::make_unique<DeviceKernels<float>>(queue);
  if (type == ElementType::kBfloat16) return std::make_unique<DeviceKernels<Bfloat16>>(queue);
  return nullptr;
}

void LaunchSimpleProduct(ElementType type, const MatrixProduct& product, KernelQueue& queue) {
  const auto tiles = [](int64_t count) {
    return static_cast<unsigned>((count + kProductTile - 1) / kProductTile);
  };
  const dim3 grid(tiles(product.n), tiles(product.m));
  const dim3 block(kProductTile, kProductTile);
  if (type == ElementType::kFloat32) {
    PARPLAN_LAUNCH(queue, grid, block, 0, (MultiplySimply<float>), product);
  } else {
    PARPLAN_LAUNCH(queue, grid, block, 0, (MultiplySimply<Bfloat16>), product);
  }
}

}  // namespace parplan::cuda
