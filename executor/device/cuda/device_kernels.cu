#include "executor/device/cuda/device_kernels.h"

#include <memory>

#include "executor/device/cuda/fused_check.h"
#include "executor/device/cuda/simple_product.h"

namespace parplan::cuda {

namespace {

template <typename T>
std::unique_ptr<LayerKernels> Make(KernelQueue& queue) {
  auto fused = std::make_unique<DeviceKernels<T>>(queue, /*fuses=*/true);
  auto parts = std::make_unique<DeviceKernels<T>>(queue, /*fuses=*/false);
  if (FusedIsSame(queue, *parts, *fused)) return fused;
  queue.Note(
      "biases, GELU, residuals and norms: one by one, since kernels that are several in one "
      "computed something else on this device");
  return parts;
}

}  // namespace

std::unique_ptr<LayerKernels> MakeDeviceKernels(ElementType type, KernelQueue& queue) {
  if (type == ElementType::kFloat32) return Make<float>(queue);
  if (type == ElementType::kBfloat16) return Make<Bfloat16>(queue);
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
  } else if (product.widens) {
    PARPLAN_LAUNCH(queue, grid, block, 0, (MultiplySimply<Bfloat16, float>), product);
  } else {
    PARPLAN_LAUNCH(queue, grid, block, 0, (MultiplySimply<Bfloat16>), product);
  }
}

}  // namespace parplan::cuda
