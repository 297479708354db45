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
#include "executor/device/cuda/fused_check.h"
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
    uploaded_ += count;
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
    } else if (p.widens) {
      PARPLAN_LAUNCH(*this, grid, block, 0, (cuda::MultiplySimply<cuda::Bfloat16, float>), p);
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
  void CheckLaunch(const char*) override { ++launch_count_; }
  void Fail(const absl::Status& status) override { status_.Update(status); }
  int64_t uploaded() const { return uploaded_; }
  int launch_count() const { return launch_count_; }

 private:
  const bool reverses_;
  std::vector<char> scratch_;
  std::vector<int32_t> tokens_;
  int64_t uploaded_ = 0;
  int launch_count_ = 0;
  absl::Status status_;
};

class EmulatedKernels : public KernelSubject {
 public:
  EmulatedKernels(ElementType type, bool reverses) : queue_(reverses) {
    if (type == ElementType::kFloat32) {
      kernels_ = std::make_unique<cuda::DeviceKernels<float>>(queue_, /*fuses=*/true);
    } else {
      kernels_ = std::make_unique<cuda::DeviceKernels<cuda::Bfloat16>>(queue_, /*fuses=*/true);
    }
  }
  LayerKernels& kernels() override { return *kernels_; }
  DeviceMemory& memory() override { return *memory_; }

 private:
  EmulatedQueue queue_;
  std::unique_ptr<LayerKernels> kernels_;
  const std::unique_ptr<DeviceMemory> memory_ = MakeHostMemory();
};

// Kernels of which one operation, by number, is a little wrong.
template <typename T>
class WrongKernels : public cuda::DeviceKernels<T> {
 public:
  using Kernels = cuda::DeviceKernels<T>;
  WrongKernels(cuda::KernelQueue& queue, int operation)
      : Kernels(queue, /*fuses=*/true), operation_(operation) {}
  void AddBiasAndGelu(const void* bias, void* x, void* y, int64_t row_count,
                      int64_t row_size) override {
    Kernels::AddBiasAndGelu(bias, x, y, row_count, row_size);
    if (operation_ == 0) Kernels::Scale(kAlmostOne, y, row_count * row_size);
  }
  void AddResidual(const void* bias, const void* x, void* y, int64_t row_count,
                   int64_t row_size) override {
    Kernels::AddResidual(bias, x, y, row_count, row_size);
    if (operation_ == 1) Kernels::Scale(kAlmostOne, y, row_count * row_size);
  }
  void AddResidualAndNorm(const ResidualNorm& n) override {
    Kernels::AddResidualAndNorm(n);
    if (operation_ == 2) Kernels::Scale(kAlmostOne, n.normal, n.row_count * n.row_size);
  }

 private:
  static constexpr double kAlmostOne = 255.0 / 256.0;
  const int operation_;
};

template <typename T>
bool IsSame(bool reverses, int wrong_operation) {
  EmulatedQueue queue(reverses);
  cuda::DeviceKernels<T> parts(queue, /*fuses=*/false);
  WrongKernels<T> fused(queue, wrong_operation);
  return cuda::FusedIsSame(queue, parts, fused);
}

}  // namespace

bool FusedEmulatedKernelsAreTheSame(ElementType type, bool reverses, int wrong_operation) {
  return type == ElementType::kFloat32 ? IsSame<float>(reverses, wrong_operation)
                                       : IsSame<cuda::Bfloat16>(reverses, wrong_operation);
}

QueueUse UseOfEmbedBackward(const std::vector<int32_t>& tokens, int64_t first_token,
                            std::vector<float>& table_gradient) {
  EmulatedQueue queue(/*reverses=*/false);
  cuda::DeviceKernels<float> kernels(queue, /*fuses=*/false);
  const std::vector<float> dy(tokens.size(), 1.0f);
  const auto rows = static_cast<int64_t>(table_gradient.size());
  kernels.EmbedBackward(tokens.data(), static_cast<int64_t>(tokens.size()), dy.data(), first_token,
                        rows, /*row_size=*/1, table_gradient.data());
  return {.uploaded = queue.uploaded(), .launch_count = queue.launch_count()};
}

std::unique_ptr<KernelSubject> MakeEmulatedKernels(ElementType type, bool reverses) {
  return std::make_unique<EmulatedKernels>(type, reverses);
}

}  // namespace parplan
