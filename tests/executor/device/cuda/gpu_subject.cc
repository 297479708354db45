// The kernels under test here: those of the machine's first GPU, with attention by our own kernels
// and, in bf16, by cuDNN too.

#include <gtest/gtest.h>

#include <algorithm>

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
  std::vector<std::string> Notes() override { return device_->Notes(); }

 private:
  const std::unique_ptr<DeviceBackend> backend_;
  const std::unique_ptr<Device> device_;
  const std::unique_ptr<LayerKernels> kernels_;
};

// Variants of subjects.
constexpr AttentionChoice kVariants[] = {AttentionChoice::kOwn, AttentionChoice::kCudnn,
                                         AttentionChoice::kCudnnFastest};
constexpr const char* kVariantNames[] = {"", "Cudnn", "CudnnFastest"};

}  // namespace

std::vector<SubjectChoice> SubjectChoices() {
  return {{ElementType::kFloat32, 0},
          {ElementType::kBfloat16, 0},
          {ElementType::kBfloat16, 1},
          {ElementType::kBfloat16, 2}};
}

std::string SubjectName(const SubjectChoice& choice) {
  return std::string(choice.type == ElementType::kFloat32 ? "Fp32" : "Bf16") +
         kVariantNames[choice.variant];
}

std::unique_ptr<KernelSubject> MakeSubject(const SubjectChoice& choice, std::string& reason) {
  absl::StatusOr<std::unique_ptr<DeviceBackend>> backend =
      LoadGpus(GroupTransport::kAutomatic, kVariants[choice.variant]);
  if (!backend.ok()) {
    EXPECT_TRUE(IsReasonToSkip(backend.status())) << backend.status();
    reason = std::string(backend.status().message());
    return nullptr;
  }
  const absl::StatusOr<DeviceFacts> facts = (*backend)->Describe(0);
  EXPECT_OK(facts.status());
  if (!facts.ok()) return nullptr;
  if (choice.variant != 0 &&
      std::none_of(facts->libraries.begin(), facts->libraries.end(),
                   [](const auto& library) { return library.first == "cudnn"; })) {
    reason = "there is no cuDNN: libcudnn.so.9 is not found, or the plugin was built without it";
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
