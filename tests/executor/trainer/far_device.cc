// Kernels of the processor over memory that looks like another device's.

#include <memory>
#include <utility>

#include "base/check.h"
#include "executor/device/comm/staged_communicator.h"
#include "tests/executor/device/comm/far_memory.h"
#include "tests/executor/trainer/device_run.h"

namespace parplan {
namespace {

// The host's address of memory of the device.
template <typename T>
T* Here(T* far) {
  if (far == nullptr) return nullptr;
  PARPLAN_CHECK(IsFar(far));
  return Near(far);
}

// Tokens stay the host's.
const int32_t* OfHost(const int32_t* tokens) {
  PARPLAN_CHECK(!IsFar(tokens));
  return tokens;
}

class FarMemory : public DeviceMemory {
 public:
  absl::StatusOr<void*> Allocate(Bytes size, Lifetime lifetime) override {
    absl::StatusOr<void*> near = host_->Allocate(size, lifetime);
    if (near.ok()) *near = Far(*near);
    return near;
  }
  void Free(void* data) override { host_->Free(Here(data)); }

 private:
  const std::unique_ptr<DeviceMemory> host_ = MakeHostMemory();
};

class FarKernels : public LayerKernels {
 public:
  explicit FarKernels(ElementType type) : near_(MakeCpuKernels(type)) {}

  ElementType type() const override { return near_->type(); }
  absl::Status Synchronize() override { return near_->Synchronize(); }
  void Zero(void* data, int64_t count) override { near_->Zero(Here(data), count); }
  absl::Status CopyFromHost(const void* host, void* device, int64_t byte_count) override {
    return copies_.FromHost(host, device, byte_count);
  }
  absl::Status CopyToHost(const void* device, void* host, int64_t byte_count) override {
    return copies_.ToHost(device, host, byte_count);
  }
  void FillNormal(const NormalMatrix& matrix, void* data) override {
    near_->FillNormal(matrix, Here(data));
  }
  void ToStatistics(const void* x, void* y, int64_t count) override {
    near_->ToStatistics(Here(x), Here(y), count);
  }
  void CopyRows(const void* from, int64_t from_stride, void* to, int64_t to_stride,
                int64_t row_count, int64_t row_size) override {
    near_->CopyRows(Here(from), from_stride, Here(to), to_stride, row_count, row_size);
  }
  void Multiply(const MatrixProduct& product) override {
    MatrixProduct here = product;
    here.a = Here(product.a);
    here.b = Here(product.b);
    here.c = Here(product.c);
    near_->Multiply(here);
  }
  void Add(const void* x, void* y, int64_t count) override { near_->Add(Here(x), Here(y), count); }
  void Scale(double factor, void* y, int64_t count) override {
    near_->Scale(factor, Here(y), count);
  }
  void AddBiasToColumns(const void* bias, void* y, int64_t row_count, int64_t row_size,
                        int64_t first_column, int64_t column_count) override {
    near_->AddBiasToColumns(Here(bias), Here(y), row_count, row_size, first_column, column_count);
  }
  void AddColumnsOfRows(const void* dy, int64_t row_count, int64_t row_size, int64_t first_column,
                        int64_t column_count, void* bias_gradient) override {
    near_->AddColumnsOfRows(Here(dy), row_count, row_size, first_column, column_count,
                            Here(bias_gradient));
  }
  void Norm(NormKind kind, const void* x, const void* gain, const void* bias, void* y, void* kept,
            int64_t row_count, int64_t row_size) override {
    near_->Norm(kind, Here(x), Here(gain), Here(bias), Here(y), Here(kept), row_count, row_size);
  }
  void NormBackward(NormKind kind, const void* dy, const void* x, const void* gain,
                    const void* kept, void* dx, void* gain_gradient, void* bias_gradient,
                    int64_t row_count, int64_t row_size) override {
    near_->NormBackward(kind, Here(dy), Here(x), Here(gain), Here(kept), Here(dx),
                        Here(gain_gradient), Here(bias_gradient), row_count, row_size);
  }
  void Gelu(const void* x, void* y, int64_t count) override {
    near_->Gelu(Here(x), Here(y), count);
  }
  void GeluBackward(const void* x, const void* dy, void* dx, int64_t count) override {
    near_->GeluBackward(Here(x), Here(dy), Here(dx), count);
  }
  void Swiglu(const void* x, void* y, int64_t row_count, int64_t row_size) override {
    near_->Swiglu(Here(x), Here(y), row_count, row_size);
  }
  void SwigluBackward(const void* x, const void* dy, void* dx, int64_t row_count,
                      int64_t row_size) override {
    near_->SwigluBackward(Here(x), Here(dy), Here(dx), row_count, row_size);
  }
  void Attention(const AttentionShape& shape, const void* q, const void* k, const void* v,
                 void* output, void* kept) override {
    near_->Attention(shape, Here(q), Here(k), Here(v), Here(output), Here(kept));
  }
  void AttentionBackward(const AttentionShape& shape, const void* q, const void* k, const void* v,
                         const void* output, const void* kept, const void* output_gradient,
                         void* dq, void* dk, void* dv) override {
    near_->AttentionBackward(shape, Here(q), Here(k), Here(v), Here(output), Here(kept),
                             Here(output_gradient), Here(dq), Here(dk), Here(dv));
  }
  void MergeAttention(const AttentionShape& shape, const void* part, const void* part_kept,
                      void* output, void* kept) override {
    near_->MergeAttention(shape, Here(part), Here(part_kept), Here(output), Here(kept));
  }
  void Rotate(const RotaryShape& shape, bool inverse, void* x) override {
    near_->Rotate(shape, inverse, Here(x));
  }
  void Embed(const int32_t* tokens, int64_t token_count, const void* table, int64_t first_token,
             int64_t row_count, int64_t row_size, void* y) override {
    near_->Embed(OfHost(tokens), token_count, Here(table), first_token, row_count, row_size,
                 Here(y));
  }
  void EmbedBackward(const int32_t* tokens, int64_t token_count, const void* dy,
                     int64_t first_token, int64_t row_count, int64_t row_size,
                     void* table_gradient) override {
    near_->EmbedBackward(OfHost(tokens), token_count, Here(dy), first_token, row_count, row_size,
                         Here(table_gradient));
  }
  void LargestLogits(const void* logits, int64_t row_count, int64_t row_size,
                     void* largest) override {
    near_->LargestLogits(Here(logits), row_count, row_size, Here(largest));
  }
  void SumLogits(const void* logits, const int32_t* targets, const void* largest, int64_t row_count,
                 int64_t row_size, int64_t first_column, void* sums) override {
    near_->SumLogits(Here(logits), OfHost(targets), Here(largest), row_count, row_size,
                     first_column, Here(sums));
  }
  void LogitGradients(void* logits, const int32_t* targets, const void* largest, const void* sums,
                      double factor, int64_t row_count, int64_t row_size,
                      int64_t first_column) override {
    near_->LogitGradients(Here(logits), OfHost(targets), Here(largest), Here(sums), factor,
                          row_count, row_size, first_column);
  }
  void AddLosses(const void* sums, double factor, int64_t row_count, double* loss) override {
    near_->AddLosses(Here(sums), factor, row_count, static_cast<double*>(Here(loss)));
  }
  void AdamStep(const AdamSettings& settings, int64_t step, const void* gradients,
                void* first_moments, void* second_moments, void* masters, void* parameters,
                int64_t count) override {
    near_->AdamStep(settings, step, Here(gradients), Here(first_moments), Here(second_moments),
                    Here(masters), Here(parameters), count);
  }
  void SgdStep(const SgdSettings& settings, const void* gradients, void* moments, void* masters,
               void* parameters, int64_t count) override {
    near_->SgdStep(settings, Here(gradients), Here(moments), Here(masters), Here(parameters),
                   count);
  }

 private:
  const std::unique_ptr<LayerKernels> near_;
  FarCopies copies_;
};

class FarMemoryDevice : public RankDevice {
 public:
  explicit FarMemoryDevice(ElementType type) : kernels_(type) {}
  LayerKernels& kernels() override { return kernels_; }
  DeviceMemory& memory() override { return memory_; }
  absl::StatusOr<std::unique_ptr<Communicator>> MakeGroup(JobFabric& fabric,
                                                          const std::string& name,
                                                          const std::vector<int>& ranks) override {
    absl::StatusOr<std::unique_ptr<Communicator>> inner = fabric.MakeGroup(name, ranks);
    if (!inner.ok()) return inner.status();
    return std::make_unique<StagedCommunicator>(*std::move(inner), copies_);
  }

 private:
  FarKernels kernels_;
  FarMemory memory_;
  FarCopies copies_;
};

}  // namespace

std::unique_ptr<RankDevice> MakeFarDevice(ElementType type) {
  return std::make_unique<FarMemoryDevice>(type);
}

}  // namespace parplan
