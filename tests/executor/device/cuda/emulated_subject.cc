// The CUDA kernels, run thread by thread on the processor.

// Before the kernels: in what language they are.
#include "tests/executor/device/cuda/emulated_cuda.h"
// Then they.
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "executor/device/cuda/device_kernels.h"
#include "executor/device/cuda/kernel_queue.h"
#include "executor/device/cuda/simple_product.h"
#include "tests/executor/device/cuda/emulated_subject.h"

namespace parplan {
namespace {

class EmulatedQueue : public cuda::KernelQueue {
 public:
  explicit EmulatedQueue(bool reverses) : reverses_(reverses) {}
  // Order of threads passed to RunEmulated.
  void* stream() override { return reverses_ ? this : nullptr; }
  void* Scratch(int64_t byte_count) override {
    // Nothing of the last operation is left.
    scratch_.assign(byte_count, '\xff');
    return scratch_.data();
  }
  const int32_t* Upload(const int32_t* tokens, int64_t count) override {
    tokens_.assign(tokens, tokens + count);
    return tokens_.data();
  }
  void Multiply(ElementType type, const MatrixProduct& p) override {
    const auto tiles = [](int64_t count) {
      return static_cast<unsigned>((count + cuda::kProductTile - 1) / cuda::kProductTile);
    };
    const dim3 grid(tiles(p.n), tiles(p.m));
    const dim3 block(cuda::kProductTile, cuda::kProductTile);
    if (type == ElementType::kFloat32) {
      PARPLAN_LAUNCH(*this, grid, block, 0, (cuda::MultiplySimply<float>), p);
    } else {
      PARPLAN_LAUNCH(*this, grid, block, 0, (cuda::MultiplySimply<cuda::Bfloat16>), p);
    }
  }
  absl::Status CopyFromHost(const void* host, void* device, int64_t byte_count) override {
    std::memcpy(device, host, static_cast<size_t>(byte_count));
    return status_;
  }
  absl::Status CopyToHost(const void* device, void* host, int64_t byte_count) override {
    std::memcpy(host, device, static_cast<size_t>(byte_count));
    return status_;
  }
  absl::Status Synchronize() override { return status_; }
  void CheckLaunch(const char*) override {}
  void Fail(const absl::Status& status) override { status_.Update(status); }

 private:
  const bool reverses_;
  std::vector<char> scratch_;
  std::vector<int32_t> tokens_;
  absl::Status status_;
};

class EmulatedKernels : public KernelSubject {
 public:
  EmulatedKernels(ElementType type, bool reverses) : queue_(reverses) {
    if (type == ElementType::kFloat32) {
      kernels_ = std::make_unique<cuda::DeviceKernels<float>>(queue_);
    } else {
      kernels_ = std::make_unique<cuda::DeviceKernels<cuda::Bfloat16>>(queue_);
    }
  }
  LayerKernels& kernels() override { return *kernels_; }
  DeviceMemory& memory() override { return *memory_; }

 private:
  EmulatedQueue queue_;
  std::unique_ptr<LayerKernels> kernels_;
  const std::unique_ptr<DeviceMemory> memory_ = MakeHostMemory();
};

}  // namespace

std::unique_ptr<KernelSubject> MakeEmulatedKernels(ElementType type, bool reverses) {
  return std::make_unique<EmulatedKernels>(type, reverses);
}

}  // namespace parplan
