// The kernels under test here: those of the machine's first GPU.

#include <gtest/gtest.h>

#include "tests/executor/device/cuda/gpu.h"
#include "tests/executor/device/cuda/kernel_twins.h"

namespace parplan {
namespace {

class GpuSubject : public KernelSubject {
 public:
  GpuSubject(std::unique_ptr<DeviceBackend> backend, std::unique_ptr<Device> device,
             std::unique_ptr<LayerKernels> kernels)
      : backend_(std::move(backend)), device_(std::move(device)), kernels_(std::move(kernels)) {}
  LayerKernels& kernels() override { return *kernels_; }
  DeviceMemory& memory() override { return device_->memory(); }

 private:
  const std::unique_ptr<DeviceBackend> backend_;
  const std::unique_ptr<Device> device_;
  const std::unique_ptr<LayerKernels> kernels_;
};

}  // namespace

std::vector<SubjectChoice> SubjectChoices() {
  return {{ElementType::kFloat32}, {ElementType::kBfloat16}};
}

std::string SubjectName(const SubjectChoice& choice) {
  return choice.type == ElementType::kFloat32 ? "Fp32" : "Bf16";
}

std::unique_ptr<KernelSubject> MakeSubject(const SubjectChoice& choice, std::string& reason) {
  absl::StatusOr<std::unique_ptr<DeviceBackend>> backend = LoadGpus();
  if (!backend.ok()) {
    EXPECT_TRUE(IsReasonToSkip(backend.status())) << backend.status();
    reason = std::string(backend.status().message());
    return nullptr;
  }
  absl::StatusOr<std::unique_ptr<Device>> device = (*backend)->Open(0);
  EXPECT_OK(device.status());
  if (!device.ok()) return nullptr;
  absl::StatusOr<std::unique_ptr<LayerKernels>> kernels = (*device)->MakeKernels(choice.type);
  EXPECT_OK(kernels.status());
  if (!kernels.ok()) return nullptr;
  return std::make_unique<GpuSubject>(*std::move(backend), *std::move(device), *std::move(kernels));
}

}  // namespace parplan
