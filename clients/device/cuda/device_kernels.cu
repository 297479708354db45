#include "clients/device/cuda/device_kernels.h"

#include <memory>

namespace parplan::cuda {

std::unique_ptr<LayerKernels> MakeDeviceKernels(ElementType type, KernelQueue& queue) {
  if (type == ElementType::kFloat32) return std::make_unique<DeviceKernels<float>>(queue);
  if (type == ElementType::kBfloat16) return std::make_unique<DeviceKernels<Bfloat16>>(queue);
  return nullptr;
}

}  // namespace parplan::cuda
