#include "tests/benchmarks/prediction/paced_device.h"

#include <time.h>

#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "base/system/steady_clock.h"

namespace parplan {
namespace {

constexpr absl::Duration kLeastSleep = absl::Microseconds(100);

absl::Duration ProcessorTime() {
  timespec now = {};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return absl::DurationFromTimespec(now);
}

class PacedKernels final : public LayerKernels {
 public:
  PacedKernels(std::unique_ptr<LayerKernels> kernels, double pace)
      : kernels_(std::move(kernels)), pace_(pace) {}

  ElementType type() const override { return kernels_->type(); }
  absl::Status Synchronize() override {
    return Pace([&] { return kernels_->Synchronize(); });
  }
  void Zero(void* data, int64_t count) override {
    Pace([&] { return kernels_->Zero(data, count); });
  }
  absl::Status CopyFromHost(const void* host, void* device, int64_t byte_count) override {
    return Pace([&] { return kernels_->CopyFromHost(host, device, byte_count); });
  }
  absl::Status CopyToHost(const void* device, void* host, int64_t byte_count) override {
    return Pace([&] { return kernels_->CopyToHost(device, host, byte_count); });
  }
  void FillNormal(const NormalMatrix& matrix, void* data) override {
    Pace([&] { return kernels_->FillNormal(matrix, data); });
  }
  void ToStatistics(const void* x, void* y, int64_t count) override {
    Pace([&] { return kernels_->ToStatistics(x, y, count); });
  }
  void CopyRows(const void* from, int64_t from_stride, void* to, int64_t to_stride,
                int64_t row_count, int64_t row_size) override {
    Pace([&] { return kernels_->CopyRows(from, from_stride, to, to_stride, row_count, row_size); });
  }
  void Multiply(const MatrixProduct& product) override {
    Pace([&] { return kernels_->Multiply(product); });
  }
  void Add(const void* x, void* y, int64_t count) override {
    Pace([&] { return kernels_->Add(x, y, count); });
  }
  void Scale(double factor, void* y, int64_t count) override {
    Pace([&] { return kernels_->Scale(factor, y, count); });
  }
  void AddBiasToColumns(const void* bias, void* y, int64_t row_count, int64_t row_size,
                        int64_t first_column, int64_t column_count) override {
    Pace([&] {
      return kernels_->AddBiasToColumns(bias, y, row_count, row_size, first_column, column_count);
    });
  }
  void AddColumnsOfRows(const void* dy, int64_t row_count, int64_t row_size, int64_t first_column,
                        int64_t column_count, void* bias_gradient) override {
    Pace([&] {
      return kernels_->AddColumnsOfRows(dy, row_count, row_size, first_column, column_count,
                                        bias_gradient);
    });
  }
  void Norm(NormKind kind, const void* x, const void* gain, const void* bias, void* y, void* kept,
            int64_t row_count, int64_t row_size) override {
    Pace([&] { return kernels_->Norm(kind, x, gain, bias, y, kept, row_count, row_size); });
  }
  void NormBackward(NormKind kind, const void* dy, const void* x, const void* gain,
                    const void* kept, void* dx, void* gain_gradient, void* bias_gradient,
                    int64_t row_count, int64_t row_size) override {
    Pace([&] {
      return kernels_->NormBackward(kind, dy, x, gain, kept, dx, gain_gradient, bias_gradient,
                                    row_count, row_size);
    });
  }
  void Gelu(const void* x, void* y, int64_t count) override {
    Pace([&] { return kernels_->Gelu(x, y, count); });
  }
  void GeluBackward(const void* x, const void* dy, void* dx, int64_t count) override {
    Pace([&] { return kernels_->GeluBackward(x, dy, dx, count); });
  }
  void Swiglu(const void* x, void* y, int64_t row_count, int64_t row_size) override {
    Pace([&] { return kernels_->Swiglu(x, y, row_count, row_size); });
  }
  void SwigluBackward(const void* x, const void* dy, void* dx, int64_t row_count,
                      int64_t row_size) override {
    Pace([&] { return kernels_->SwigluBackward(x, dy, dx, row_count, row_size); });
  }
  void Attention(const AttentionShape& shape, const void* q, const void* k, const void* v,
                 void* output, void* kept) override {
    Pace([&] { return kernels_->Attention(shape, q, k, v, output, kept); });
  }
  void AttentionBackward(const AttentionShape& shape, const void* q, const void* k, const void* v,
                         const void* output, const void* kept, const void* output_gradient,
                         void* dq, void* dk, void* dv) override {
    Pace([&] {
      return kernels_->AttentionBackward(shape, q, k, v, output, kept, output_gradient, dq, dk, dv);
    });
  }
  void MergeAttention(const AttentionShape& shape, const void* part, const void* part_kept,
                      void* output, void* kept) override {
    Pace([&] { return kernels_->MergeAttention(shape, part, part_kept, output, kept); });
  }
  void Rotate(const RotaryShape& shape, bool inverse, void* x) override {
    Pace([&] { return kernels_->Rotate(shape, inverse, x); });
  }
  void Embed(const int32_t* tokens, int64_t token_count, const void* table, int64_t first_token,
             int64_t row_count, int64_t row_size, void* y) override {
    Pace([&] {
      return kernels_->Embed(tokens, token_count, table, first_token, row_count, row_size, y);
    });
  }
  void EmbedBackward(const int32_t* tokens, int64_t token_count, const void* dy,
                     int64_t first_token, int64_t row_count, int64_t row_size,
                     void* table_gradient) override {
    Pace([&] {
      return kernels_->EmbedBackward(tokens, token_count, dy, first_token, row_count, row_size,
                                     table_gradient);
    });
  }
  void LargestLogits(const void* logits, int64_t row_count, int64_t row_size,
                     void* largest) override {
    Pace([&] { return kernels_->LargestLogits(logits, row_count, row_size, largest); });
  }
  void SumLogits(const void* logits, const int32_t* targets, const void* largest, int64_t row_count,
                 int64_t row_size, int64_t first_column, void* sums) override {
    Pace([&] {
      return kernels_->SumLogits(logits, targets, largest, row_count, row_size, first_column, sums);
    });
  }
  void LogitGradients(void* logits, const int32_t* targets, const void* largest, const void* sums,
                      double factor, int64_t row_count, int64_t row_size,
                      int64_t first_column) override {
    Pace([&] {
      return kernels_->LogitGradients(logits, targets, largest, sums, factor, row_count, row_size,
                                      first_column);
    });
  }
  void AddLosses(const void* sums, double factor, int64_t row_count, double* loss) override {
    Pace([&] { return kernels_->AddLosses(sums, factor, row_count, loss); });
  }
  void AdamStep(const AdamSettings& settings, int64_t step, const void* gradients,
                void* first_moments, void* second_moments, void* masters, void* parameters,
                int64_t count) override {
    Pace([&] {
      return kernels_->AdamStep(settings, step, gradients, first_moments, second_moments, masters,
                                parameters, count);
    });
  }
  void SgdStep(const SgdSettings& settings, const void* gradients, void* moments, void* masters,
               void* parameters, int64_t count) override {
    Pace([&] {
      return kernels_->SgdStep(settings, gradients, moments, masters, parameters, count);
    });
  }

 private:
  // One call, from its making to its end.
  class Call {
   public:
    explicit Call(PacedKernels& kernels) : kernels_(kernels) {}
    ~Call() { kernels_.Sleep(kernels_.pace_ * (ProcessorTime() - used_) - (SteadyNow() - start_)); }

   private:
    PacedKernels& kernels_;
    const absl::Duration start_ = SteadyNow();
    const absl::Duration used_ = ProcessorTime();
  };

  template <typename Work>
  std::invoke_result_t<Work> Pace(Work work) {
    const Call call(*this);
    return work();
  }

  void Sleep(absl::Duration owed) {
    owed_ += owed;
    if (owed_ < kLeastSleep) return;
    const absl::Duration before = SteadyNow();
    absl::SleepFor(owed_);
    owed_ -= SteadyNow() - before;
  }

  const std::unique_ptr<LayerKernels> kernels_;
  const double pace_;
  // Negative where others kept the rank from its core.
  absl::Duration owed_;
};

class PacedDevice final : public Device {
 public:
  PacedDevice(Device& device, double pace) : device_(device), pace_(pace) {}

  absl::StatusOr<std::unique_ptr<LayerKernels>> MakeKernels(ElementType type) override {
    PARPLAN_ASSIGN_OR_RETURN(std::unique_ptr<LayerKernels> kernels, device_.MakeKernels(type));
    return PaceKernels(std::move(kernels), pace_);
  }
  DeviceMemory& memory() override { return device_.memory(); }
  std::unique_ptr<Stopwatch> MakeStopwatch() override { return device_.MakeStopwatch(); }
  absl::StatusOr<std::unique_ptr<Communicator>> MakeGroup(RankContext& job, const std::string& name,
                                                          const std::vector<int>& ranks) override {
    return device_.MakeGroup(job, name, ranks);
  }
  absl::Status CopyFromHost(const void* host, void* device, Bytes size) override {
    return device_.CopyFromHost(host, device, size);
  }
  absl::Status CopyToHost(const void* device, void* host, Bytes size) override {
    return device_.CopyToHost(device, host, size);
  }
  absl::Status Synchronize() override { return device_.Synchronize(); }
  absl::StatusOr<DeviceMemoryUse> MemoryUse() override { return device_.MemoryUse(); }
  absl::Status ResetMemoryPeak() override { return device_.ResetMemoryPeak(); }

 private:
  Device& device_;
  const double pace_;
};

}  // namespace

std::unique_ptr<LayerKernels> PaceKernels(std::unique_ptr<LayerKernels> kernels, double pace) {
  PARPLAN_CHECK(pace >= 1.0);
  return std::make_unique<PacedKernels>(std::move(kernels), pace);
}

std::unique_ptr<Device> PaceDevice(Device& device, double pace) {
  PARPLAN_CHECK(pace >= 1.0);
  return std::make_unique<PacedDevice>(device, pace);
}

}  // namespace parplan
