// Kernels that hand everything on to others: for tests that look at or change some of it.

#ifndef PARPLAN_TESTS_EXECUTOR_DEVICE_KERNELS_WRAPPED_KERNELS_H_
#define PARPLAN_TESTS_EXECUTOR_DEVICE_KERNELS_WRAPPED_KERNELS_H_

#include <memory>
#include <utility>

#include "executor/device/kernels/layer_kernels.h"

namespace parplan {

class WrappedKernels : public LayerKernels {
 public:
  explicit WrappedKernels(std::unique_ptr<LayerKernels> inner) : inner_(std::move(inner)) {}

  ElementType type() const override { return inner_->type(); }
  absl::Status Synchronize() override { return inner_->Synchronize(); }
  void Zero(void* data, int64_t count) override { inner_->Zero(data, count); }
  absl::Status CopyFromHost(const void* host, void* device, int64_t byte_count) override {
    return inner_->CopyFromHost(host, device, byte_count);
  }
  absl::Status CopyToHost(const void* device, void* host, int64_t byte_count) override {
    return inner_->CopyToHost(device, host, byte_count);
  }
  void FillNormal(const NormalMatrix& matrix, void* data) override {
    inner_->FillNormal(matrix, data);
  }
  void ToStatistics(const void* x, void* y, int64_t count) override {
    inner_->ToStatistics(x, y, count);
  }
  void CopyRows(const void* from, int64_t from_stride, void* to, int64_t to_stride,
                int64_t row_count, int64_t row_size) override {
    inner_->CopyRows(from, from_stride, to, to_stride, row_count, row_size);
  }
  void Multiply(const MatrixProduct& product) override { inner_->Multiply(product); }
  void AddStatistics(const void* x, void* y, int64_t count) override {
    inner_->AddStatistics(x, y, count);
  }
  void Add(const void* x, void* y, int64_t count) override { inner_->Add(x, y, count); }
  void Scale(double factor, void* y, int64_t count) override { inner_->Scale(factor, y, count); }
  void AddBiasToColumns(const void* bias, void* y, int64_t row_count, int64_t row_size,
                        int64_t first_column, int64_t column_count) override {
    inner_->AddBiasToColumns(bias, y, row_count, row_size, first_column, column_count);
  }
  void AddColumnsOfRows(const void* dy, int64_t row_count, int64_t row_size, int64_t first_column,
                        int64_t column_count, void* bias_gradient) override {
    inner_->AddColumnsOfRows(dy, row_count, row_size, first_column, column_count, bias_gradient);
  }
  void Norm(NormKind kind, const void* x, const void* gain, const void* bias, void* y, void* kept,
            int64_t row_count, int64_t row_size) override {
    inner_->Norm(kind, x, gain, bias, y, kept, row_count, row_size);
  }
  void NormBackward(NormKind kind, const void* dy, const void* x, const void* gain,
                    const void* kept, void* dx, void* gain_gradient, void* bias_gradient,
                    int64_t row_count, int64_t row_size) override {
    inner_->NormBackward(kind, dy, x, gain, kept, dx, gain_gradient, bias_gradient, row_count,
                         row_size);
  }
  void Gelu(const void* x, void* y, int64_t count) override { inner_->Gelu(x, y, count); }
  void GeluBackward(const void* x, const void* dy, void* dx, int64_t count) override {
    inner_->GeluBackward(x, dy, dx, count);
  }
  void Swiglu(const void* x, void* y, int64_t row_count, int64_t row_size) override {
    inner_->Swiglu(x, y, row_count, row_size);
  }
  void SwigluBackward(const void* x, const void* dy, void* dx, int64_t row_count,
                      int64_t row_size) override {
    inner_->SwigluBackward(x, dy, dx, row_count, row_size);
  }
  void Attention(const AttentionShape& shape, const void* q, const void* k, const void* v,
                 void* output, void* kept) override {
    inner_->Attention(shape, q, k, v, output, kept);
  }
  void AttentionBackward(const AttentionShape& shape, const void* q, const void* k, const void* v,
                         const void* output, const void* kept, const void* output_gradient,
                         void* dq, void* dk, void* dv) override {
    inner_->AttentionBackward(shape, q, k, v, output, kept, output_gradient, dq, dk, dv);
  }
  void MergeAttention(const AttentionShape& shape, const void* part, const void* part_kept,
                      void* output, void* kept) override {
    inner_->MergeAttention(shape, part, part_kept, output, kept);
  }
  void Rotate(const RotaryShape& shape, bool inverse, void* x) override {
    inner_->Rotate(shape, inverse, x);
  }
  void Embed(const int32_t* tokens, int64_t token_count, const void* table, int64_t first_token,
             int64_t row_count, int64_t row_size, void* y) override {
    inner_->Embed(tokens, token_count, table, first_token, row_count, row_size, y);
  }
  void EmbedBackward(const int32_t* tokens, int64_t token_count, const void* dy,
                     int64_t first_token, int64_t row_count, int64_t row_size,
                     void* table_gradient) override {
    inner_->EmbedBackward(tokens, token_count, dy, first_token, row_count, row_size,
                          table_gradient);
  }
  void LargestLogits(const void* logits, int64_t row_count, int64_t row_size,
                     void* largest) override {
    inner_->LargestLogits(logits, row_count, row_size, largest);
  }
  void SumLogits(const void* logits, const int32_t* targets, const void* largest, int64_t row_count,
                 int64_t row_size, int64_t first_column, void* sums) override {
    inner_->SumLogits(logits, targets, largest, row_count, row_size, first_column, sums);
  }
  void LogitGradients(void* logits, const int32_t* targets, const void* largest, const void* sums,
                      double factor, int64_t row_count, int64_t row_size,
                      int64_t first_column) override {
    inner_->LogitGradients(logits, targets, largest, sums, factor, row_count, row_size,
                           first_column);
  }
  void AddLosses(const void* sums, double factor, int64_t row_count, double* loss) override {
    inner_->AddLosses(sums, factor, row_count, loss);
  }
  void AdamStep(const AdamSettings& settings, int64_t step, const void* gradients,
                void* first_moments, void* second_moments, void* masters, void* parameters,
                int64_t count) override {
    inner_->AdamStep(settings, step, gradients, first_moments, second_moments, masters, parameters,
                     count);
  }
  void SgdStep(const SgdSettings& settings, const void* gradients, void* moments, void* masters,
               void* parameters, int64_t count) override {
    inner_->SgdStep(settings, gradients, moments, masters, parameters, count);
  }

 private:
  const std::unique_ptr<LayerKernels> inner_;
};

}  // namespace parplan

#endif  // PARPLAN_TESTS_EXECUTOR_DEVICE_KERNELS_WRAPPED_KERNELS_H_
