// Kernels that compute nothing, for tests over the fakes of CUDA and NCCL.

#ifndef PARPLAN_TESTS_EXECUTOR_DEVICE_CUDA_SILENT_KERNELS_H_
#define PARPLAN_TESTS_EXECUTOR_DEVICE_CUDA_SILENT_KERNELS_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "executor/device/cuda/kernel_queue.h"
#include "executor/device/kernels/layer_kernels.h"

namespace parplan::cuda {

// Compute nothing: only the order of work on the device matters here. They upload tokens as the
// kernels of GPUs do. The first launch of a kernel waits for everything on the device, as it may
// where modules are loaded when they are needed. The fake makes them for every device.
class SilentKernels : public LayerKernels {
 public:
  explicit SilentKernels(KernelQueue& queue, bool attends = true)
      : queue_(queue), attends_(attends) {}
  ElementType type() const override { return ElementType::kFloat32; }
  absl::Status Synchronize() override { return queue_.Synchronize(); }
  absl::Status CopyFromHost(const void* host, void* device, int64_t byte_count) override {
    return queue_.CopyFromHost(host, device, byte_count);
  }
  absl::Status CopyToHost(const void* device, void* host, int64_t byte_count) override {
    return queue_.CopyToHost(device, host, byte_count);
  }
  void Zero(void*, int64_t) override { Launch("Zero"); }
  void FillNormal(const NormalMatrix&, void*) override { Launch("FillNormal"); }
  void ToStatistics(const void*, void*, int64_t) override { Launch("ToStatistics"); }
  void CopyRows(const void*, int64_t, void*, int64_t, int64_t, int64_t) override {
    Launch("CopyRows");
  }
  void Multiply(const MatrixProduct&) override { Launch("Multiply"); }
  void Add(const void*, void*, int64_t) override { Launch("Add"); }
  void Scale(double, void*, int64_t) override { Launch("Scale"); }
  void AddBiasToColumns(const void*, void*, int64_t, int64_t, int64_t, int64_t) override {
    Launch("AddBiasToColumns");
  }
  void AddColumnsOfRows(const void*, int64_t, int64_t, int64_t, int64_t, void*) override {
    Launch("AddColumnsOfRows");
  }
  void Norm(NormKind, const void*, const void*, const void*, void*, void*, int64_t,
            int64_t) override {
    Launch("Norm");
  }
  void NormBackward(NormKind, const void*, const void*, const void*, const void*, void*, void*,
                    void*, int64_t, int64_t) override {
    Launch("NormBackward");
  }
  void Gelu(const void*, void*, int64_t) override { Launch("Gelu"); }
  void GeluBackward(const void*, const void*, void*, int64_t) override { Launch("GeluBackward"); }
  void Swiglu(const void*, void*, int64_t, int64_t) override { Launch("Swiglu"); }
  void SwigluBackward(const void*, const void*, void*, int64_t, int64_t) override {
    Launch("SwigluBackward");
  }
  absl::Status CheckAttention(const AttentionShape& shape) override {
    if (attends_) return absl::OkStatus();
    return absl::UnimplementedError(absl::StrCat("heads of ", shape.head_size));
  }
  void Attention(const AttentionShape&, const void*, const void*, const void*, void*,
                 void*) override {
    Launch("Attention");
  }
  void AttentionBackward(const AttentionShape&, const void*, const void*, const void*, const void*,
                         const void*, const void*, void*, void*, void*) override {
    Launch("AttentionBackward");
  }
  void MergeAttention(const AttentionShape&, const void*, const void*, void*, void*) override {
    Launch("MergeAttention");
  }
  void Rotate(const RotaryShape&, bool, void*) override { Launch("Rotate"); }
  void Embed(const int32_t* tokens, int64_t token_count, const void*, int64_t, int64_t, int64_t,
             void*) override {
    Upload(tokens, token_count);
    Launch("Embed");
  }
  void EmbedBackward(const int32_t* tokens, int64_t token_count, const void*, int64_t, int64_t,
                     int64_t, void*) override {
    Upload(tokens, token_count);
    Launch("EmbedBackward");
  }
  void LargestLogits(const void*, int64_t, int64_t, void*) override { Launch("LargestLogits"); }
  void SumLogits(const void*, const int32_t* targets, const void*, int64_t row_count, int64_t,
                 int64_t, void*) override {
    Upload(targets, row_count);
    Launch("SumLogits");
  }
  void LogitGradients(void*, const int32_t* targets, const void*, const void*, double,
                      int64_t row_count, int64_t, int64_t) override {
    Upload(targets, row_count);
    Launch("LogitGradients");
  }
  void AddLosses(const void*, double, int64_t, double*) override { Launch("AddLosses"); }
  void AdamStep(const AdamSettings&, int64_t, const void*, void*, void*, void*, void*,
                int64_t) override {
    Launch("AdamStep");
  }
  void SgdStep(const SgdSettings&, const void*, void*, void*, void*, int64_t) override {
    Launch("SgdStep");
  }

 private:
  void Upload(const int32_t* tokens, int64_t count) {
    if (count > 0) static_cast<void>(queue_.Upload(tokens, count));
  }
  void Launch(const char* kernel) {
    if (launched_.insert(kernel).second) static_cast<void>(::cudaDeviceSynchronize());
  }

  KernelQueue& queue_;
  const bool attends_;
  std::set<std::string> launched_;
};

}  // namespace parplan::cuda

#endif  // PARPLAN_TESTS_EXECUTOR_DEVICE_CUDA_SILENT_KERNELS_H_
