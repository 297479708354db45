// LayerKernels over a queue: selects kernels and numbers of blocks. Included once for each language
// (language.h).

#ifndef PARPLAN_EXECUTOR_DEVICE_CUDA_DEVICE_KERNELS_H_
#define PARPLAN_EXECUTOR_DEVICE_CUDA_DEVICE_KERNELS_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "executor/device/cuda/attention_kernels.h"
#include "executor/device/cuda/element_kernels.h"
#include "executor/device/cuda/kernel_queue.h"
#include "executor/device/cuda/language.h"
#include "executor/device/cuda/row_kernels.h"
#include "executor/device/kernels/layer_kernels.h"

namespace parplan::cuda {

// Made by MakeDeviceKernels (kernel_queue.h); `queue` outlives it. T is float or Bfloat16. Errors
// of launches, and UNIMPLEMENTED for attention that `CheckAttention` refuses, are kept by the
// queue. Attention of bf16 is computed by the queue's library where it serves the shape and
// replaces gradients, all other by kernels of our own, which have heads of up to 128 elements; so
// larger ones need the library. Arrays and sizes that are no multiples of 16 bytes are slower.
template <typename T>
class DeviceKernels : public LayerKernels {
 public:
  // `fuses`: whether operations that are several in one (`AddBiasAndGelu`, `AddResidual`,
  // `AddResidualAndNorm`) are one kernel each, or their parts.
  DeviceKernels(KernelQueue& queue, bool fuses) : queue_(queue), fuses_(fuses) {}

  ElementType type() const override {
    return std::is_same_v<T, float> ? ElementType::kFloat32 : ElementType::kBfloat16;
  }
  absl::Status Synchronize() override { return queue_.Synchronize(); }
  absl::Status CopyFromHost(const void* host, void* device, int64_t byte_count) override {
    return queue_.CopyFromHost(host, device, byte_count);
  }
  absl::Status CopyToHost(const void* device, void* host, int64_t byte_count) override {
    return queue_.CopyToHost(device, host, byte_count);
  }

  void Zero(void* data, int64_t count) override {
    if (IsWide(count, {data})) {
      Each(count / kN, ZeroWork<T, kN>{Out(data)});
    } else {
      Each(count, ZeroWork<T, 1>{Out(data)});
    }
  }

  void FillNormal(const NormalMatrix& matrix, void* data) override {
    Each(matrix.part_row_count * matrix.part_column_count, FillNormalWork<T>{matrix, Out(data)});
  }

  void ToStatistics(const void* x, void* y, int64_t count) override {
    Each(count, ToStatisticsWork<T>{In(x), Numbers(y)});
  }

  void CopyRows(const void* from, int64_t from_stride, void* to, int64_t to_stride,
                int64_t row_count, int64_t row_size) override {
    if (IsWide(row_size | from_stride | to_stride, {from, to})) {
      Each(row_count * (row_size / kN),
           CopyRowsWork<T, kN>{In(from), from_stride / kN, Out(to), to_stride / kN, row_size / kN});
    } else {
      Each(row_count * row_size,
           CopyRowsWork<T, 1>{In(from), from_stride, Out(to), to_stride, row_size});
    }
  }

  void Multiply(const MatrixProduct& product) override {
    if (product.m > 0 && product.n > 0) queue_.Multiply(type(), product);
  }

  void Add(const void* x, void* y, int64_t count) override {
    if (IsWide(count, {x, y})) {
      Each(count / kN, AddWork<T, kN>{In(x), Out(y)});
    } else {
      Each(count, AddWork<T, 1>{In(x), Out(y)});
    }
  }

  void AddStatistics(const void* x, void* y, int64_t count) override {
    constexpr int kFloats = kWide<float>;
    const auto address = reinterpret_cast<uintptr_t>(x) | reinterpret_cast<uintptr_t>(y);
    if (count % kFloats == 0 && address % (kFloats * sizeof(float)) == 0) {
      Each(count / kFloats, AddWork<float, kFloats>{Numbers(x), Numbers(y)});
    } else {
      Each(count, AddWork<float, 1>{Numbers(x), Numbers(y)});
    }
  }

  void Scale(double factor, void* y, int64_t count) override {
    if (IsWide(count, {y})) {
      Each(count / kN, ScaleWork<T, kN>{static_cast<float>(factor), Out(y)});
    } else {
      Each(count, ScaleWork<T, 1>{static_cast<float>(factor), Out(y)});
    }
  }

  void AddBiasToColumns(const void* bias, void* y, int64_t row_count, int64_t row_size,
                        int64_t first_column, int64_t column_count) override {
    if (IsWide(row_size | first_column | column_count, {bias, y})) {
      Each(row_count * (column_count / kN),
           AddBiasWork<T, kN>{In(bias), Out(y), row_size / kN, first_column / kN,
                              column_count / kN});
    } else {
      Each(row_count * column_count,
           AddBiasWork<T, 1>{In(bias), Out(y), row_size, first_column, column_count});
    }
  }

  void AddColumnsOfRows(const void* dy, int64_t row_count, int64_t row_size, int64_t first_column,
                        int64_t column_count, void* bias_gradient) override {
    AddColumns(ColumnElement<T>{In(dy) + first_column, row_size}, row_count, column_count,
               Numbers(bias_gradient));
  }

  void Norm(NormKind kind, const void* x, const void* gain, const void* bias, void* y, void* kept,
            int64_t row_count, int64_t row_size) override {
    if (row_count == 0) return;
    const bool has_mean = kind == NormKind::kLayerNorm;
    if (IsWide(row_size, {x, gain, y})) {
      PARPLAN_LAUNCH(queue_, dim3(Blocks(row_count)), dim3(kRowThreads), 0, (NormRows<T, kN>),
                     has_mean, In(x), In(gain), In(bias), Out(y), Numbers(kept), row_size);
    } else {
      PARPLAN_LAUNCH(queue_, dim3(Blocks(row_count)), dim3(kRowThreads), 0, (NormRows<T, 1>),
                     has_mean, In(x), In(gain), In(bias), Out(y), Numbers(kept), row_size);
    }
  }

  void NormBackward(NormKind kind, const void* dy, const void* x, const void* gain,
                    const void* kept, void* dx, void* gain_gradient, void* bias_gradient,
                    int64_t row_count, int64_t row_size) override {
    if (row_count == 0) return;
    const bool has_mean = kind == NormKind::kLayerNorm;
    const float* const numbers = Numbers(kept);
    if (IsWide(row_size, {dy, x, gain, dx})) {
      PARPLAN_LAUNCH(queue_, dim3(Blocks(row_count)), dim3(kRowThreads), 0,
                     (NormRowsBackward<T, kN>), has_mean, In(dy), In(x), In(gain), numbers, Out(dx),
                     row_size);
    } else {
      PARPLAN_LAUNCH(queue_, dim3(Blocks(row_count)), dim3(kRowThreads), 0,
                     (NormRowsBackward<T, 1>), has_mean, In(dy), In(x), In(gain), numbers, Out(dx),
                     row_size);
    }
    AddColumns(ColumnNormal<T>{In(dy), In(x), numbers, row_size}, row_count, row_size,
               Numbers(gain_gradient));
    if (has_mean) {
      AddColumns(ColumnElement<T>{In(dy), row_size}, row_count, row_size, Numbers(bias_gradient));
    }
  }

  void Gelu(const void* x, void* y, int64_t count) override {
    if (IsWide(count, {x, y})) {
      Each(count / kN, GeluWork<T, kN>{In(x), Out(y)});
    } else {
      Each(count, GeluWork<T, 1>{In(x), Out(y)});
    }
  }
  void AddBiasAndGelu(const void* bias, void* x, void* y, int64_t row_count,
                      int64_t row_size) override {
    if (!fuses_) return LayerKernels::AddBiasAndGelu(bias, x, y, row_count, row_size);
    if (IsWide(row_size, {bias, x, y})) {
      Each(row_count * (row_size / kN),
           AddBiasAndGeluWork<T, kN>{In(bias), Out(x), Out(y), row_size / kN});
    } else {
      Each(row_count * row_size, AddBiasAndGeluWork<T, 1>{In(bias), Out(x), Out(y), row_size});
    }
  }
  void AddResidual(const void* bias, const void* x, void* y, int64_t row_count,
                   int64_t row_size) override {
    if (!fuses_ || bias == nullptr) {
      return LayerKernels::AddResidual(bias, x, y, row_count, row_size);
    }
    if (IsWide(row_size, {bias, x, y})) {
      Each(row_count * (row_size / kN),
           AddResidualWork<T, kN>{In(bias), In(x), Out(y), row_size / kN});
    } else {
      Each(row_count * row_size, AddResidualWork<T, 1>{In(bias), In(x), Out(y), row_size});
    }
  }
  void AddResidualAndNorm(const ResidualNorm& n) override {
    if (!fuses_) return LayerKernels::AddResidualAndNorm(n);
    if (n.row_count == 0) return;
    const bool has_mean = n.kind == NormKind::kLayerNorm;
    // A null pointer is aligned.
    if (IsWide(n.row_size, {n.bias, n.residual, n.sum, n.gain, n.normal})) {
      PARPLAN_LAUNCH(queue_, dim3(Blocks(n.row_count)), dim3(kRowThreads), 0,
                     (AddAndNormRows<T, kN>), has_mean, In(n.bias), In(n.residual), Out(n.sum),
                     In(n.gain), In(n.norm_bias), Out(n.normal), Numbers(n.kept), n.row_size);
    } else {
      PARPLAN_LAUNCH(queue_, dim3(Blocks(n.row_count)), dim3(kRowThreads), 0,
                     (AddAndNormRows<T, 1>), has_mean, In(n.bias), In(n.residual), Out(n.sum),
                     In(n.gain), In(n.norm_bias), Out(n.normal), Numbers(n.kept), n.row_size);
    }
  }
  void GeluBackward(const void* x, const void* dy, void* dx, int64_t count) override {
    if (IsWide(count, {x, dy, dx})) {
      Each(count / kN, GeluBackwardWork<T, kN>{In(x), In(dy), Out(dx)});
    } else {
      Each(count, GeluBackwardWork<T, 1>{In(x), In(dy), Out(dx)});
    }
  }

  void Swiglu(const void* x, void* y, int64_t row_count, int64_t row_size) override {
    if (IsWide(row_size, {x, y})) {
      Each(row_count * (row_size / kN), SwigluWork<T, kN>{In(x), Out(y), row_size / kN});
    } else {
      Each(row_count * row_size, SwigluWork<T, 1>{In(x), Out(y), row_size});
    }
  }
  void SwigluBackward(const void* x, const void* dy, void* dx, int64_t row_count,
                      int64_t row_size) override {
    if (IsWide(row_size, {x, dy, dx})) {
      Each(row_count * (row_size / kN),
           SwigluBackwardWork<T, kN>{In(x), In(dy), Out(dx), row_size / kN});
    } else {
      Each(row_count * row_size, SwigluBackwardWork<T, 1>{In(x), In(dy), Out(dx), row_size});
    }
  }

  absl::Status CheckAttention(const AttentionShape& shape) override {
    if (shape.head_size <= kMaxHeadSize) return absl::OkStatus();
    AttentionLibrary* const library = Library();
    std::string reason = std::is_same_v<T, float> ? "computes bf16 alone" : "is not used";
    if (library != nullptr && library->Serves(shape, reason)) return absl::OkStatus();
    return absl::UnimplementedError(
        absl::StrCat("head_size: is ", shape.head_size, "; the cuda back end's own attention has ",
                     "heads of up to ", kMaxHeadSize, " elements, and cuDNN ", reason));
  }
  void Attention(const AttentionShape& shape, const void* q, const void* k, const void* v,
                 void* output, void* kept) override {
    AttentionLibrary* const library = Library();
    if (library != nullptr && library->Attention(shape, q, k, v, output, kept)) return;
    ForHeadSize(shape, [&](auto size) { Attend<size()>(shape, q, k, v, output, kept); });
  }
  void AttentionBackward(const AttentionShape& shape, const void* q, const void* k, const void* v,
                         const void* output, const void* kept, const void* output_gradient,
                         void* dq, void* dk, void* dv) override {
    AttentionLibrary* const library = Library();
    // The library replaces gradients.
    if (library != nullptr && !shape.adds_gradients &&
        library->AttentionBackward(shape, shape, q, k, v, output, kept, output_gradient, dq, dk,
                                   dv)) {
      return;
    }
    ForHeadSize(shape, [&](auto size) {
      AttendBackward<size()>(shape, q, k, v, output, kept, output_gradient, dq, dk, dv);
    });
  }
  void MergeAttention(const AttentionShape& shape, const void* part, const void* part_kept,
                      void* output, void* kept) override {
    const int64_t warps = shape.sample_count * shape.head_count * shape.query_count;
    if (warps == 0) return;
    PARPLAN_LAUNCH(queue_, WarpBlocks(warps), dim3(kRowThreads), 0, (MergeOutputs<T>), shape,
                   In(part), Numbers(part_kept), Out(output), Numbers(kept));
  }
  void Rotate(const RotaryShape& shape, bool inverse, void* x) override {
    Each(shape.token_count * (shape.head_size / 2),
         RotateWork<T>{Out(x), shape.sample_count, shape.row_stride, shape.first_position,
                       shape.head_count, shape.head_size, inverse});
  }

  void Embed(const int32_t* tokens, int64_t token_count, const void* table, int64_t first_token,
             int64_t row_count, int64_t row_size, void* y) override {
    const int32_t* const own = token_count == 0 ? nullptr : queue_.Upload(tokens, token_count);
    if (own == nullptr) return;
    PARPLAN_LAUNCH(queue_, dim3(Blocks(token_count)), dim3(kRowThreads), 0, (EmbedRows<T>), own,
                   In(table), first_token, row_count, row_size, Out(y));
  }
  void EmbedBackward(const int32_t* tokens, int64_t token_count, const void* dy,
                     int64_t first_token, int64_t row_count, int64_t row_size,
                     void* table_gradient) override {
    // Row and position in one number, in the order of both.
    std::vector<uint64_t> places;
    places.reserve(static_cast<size_t>(token_count));
    for (int64_t i = 0; i < token_count; ++i) {
      const int64_t row = tokens[i] - first_token;
      if (row < 0 || row >= row_count) continue;
      places.push_back(static_cast<uint64_t>(row) << 32 | static_cast<uint64_t>(i));
    }
    if (row_count == 0 || row_size == 0) return;
    std::sort(places.begin(), places.end());
    std::vector<int32_t> starts;
    std::vector<int32_t> rows;
    std::vector<int32_t> positions;
    for (const uint64_t place : places) {
      const auto row = static_cast<int32_t>(place >> 32);
      if (rows.empty() || rows.back() != row) {
        starts.push_back(static_cast<int32_t>(positions.size()));
        rows.push_back(row);
      }
      positions.push_back(static_cast<int32_t>(place & 0xffffffff));
    }
    // A row without tokens where there is none: what is launched, and how much is uploaded, must
    // not depend on the tokens, since only those of the rehearsal come before operations of groups.
    if (rows.empty()) {
      starts.push_back(0);
      rows.push_back(0);
    }
    starts.push_back(static_cast<int32_t>(positions.size()));
    const auto count = static_cast<int64_t>(rows.size());
    starts.insert(starts.end(), rows.begin(), rows.end());
    starts.insert(starts.end(), positions.begin(), positions.end());
    starts.resize(static_cast<size_t>(3 * token_count + 3));
    const int32_t* const own = queue_.Upload(starts.data(), static_cast<int64_t>(starts.size()));
    if (own == nullptr) return;
    const dim3 grid(Blocks(count), Blocks((row_size + kRowThreads - 1) / kRowThreads));
    PARPLAN_LAUNCH(queue_, grid, dim3(kRowThreads), 0, (EmbedRowsBackward<T>), own, own + count + 1,
                   own + 2 * count + 1, In(dy), row_size, Numbers(table_gradient));
  }

  void LargestLogits(const void* logits, int64_t row_count, int64_t row_size,
                     void* largest) override {
    if (row_count == 0) return;
    PARPLAN_LAUNCH(queue_, dim3(Blocks(row_count)), dim3(kRowThreads), 0, (LargestOfRows<T>),
                   In(logits), Numbers(largest), row_size);
  }
  void SumLogits(const void* logits, const int32_t* targets, const void* largest, int64_t row_count,
                 int64_t row_size, int64_t first_column, void* sums) override {
    const int32_t* const own = row_count == 0 ? nullptr : queue_.Upload(targets, row_count);
    if (own == nullptr) return;
    PARPLAN_LAUNCH(queue_, dim3(Blocks(row_count)), dim3(kRowThreads), 0, (SumRowExponentials<T>),
                   In(logits), own, Numbers(largest), row_size, first_column, Numbers(sums));
  }
  void LogitGradients(void* logits, const int32_t* targets, const void* largest, const void* sums,
                      double factor, int64_t row_count, int64_t row_size,
                      int64_t first_column) override {
    const int32_t* const own = row_count == 0 ? nullptr : queue_.Upload(targets, row_count);
    if (own == nullptr) return;
    PARPLAN_LAUNCH(queue_, dim3(Blocks(row_count)), dim3(kRowThreads), 0, (LogitGradientRows<T>),
                   Out(logits), own, Numbers(largest), Numbers(sums), static_cast<float>(factor),
                   row_size, first_column);
  }

  void AddLosses(const void* sums, double factor, int64_t row_count, double* loss) override {
    PARPLAN_LAUNCH(queue_, dim3(1), dim3(kRowThreads), 0, AddRowLosses, Numbers(sums), factor,
                   row_count, loss);
  }

  void AdamStep(const AdamSettings& settings, int64_t step, const void* gradients,
                void* first_moments, void* second_moments, void* masters, void* parameters,
                int64_t count) override {
    const double steps = static_cast<double>(step);
    Each(count, AdamWork<T>{
                    .beta1 = static_cast<float>(settings.beta1),
                    .beta2 = static_cast<float>(settings.beta2),
                    .rate = static_cast<float>(settings.learning_rate /
                                               (1.0 - std::pow(settings.beta1, steps))),
                    .correction = static_cast<float>(1.0 / (1.0 - std::pow(settings.beta2, steps))),
                    .epsilon = static_cast<float>(settings.epsilon),
                    .gradients = Numbers(gradients),
                    .first = Numbers(first_moments),
                    .second = Numbers(second_moments),
                    .masters = Numbers(masters),
                    .parameters = Out(parameters)});
  }
  void SgdStep(const SgdSettings& settings, const void* gradients, void* moments, void* masters,
               void* parameters, int64_t count) override {
    Each(count, SgdWork<T>{.momentum = static_cast<float>(settings.momentum),
                           .rate = static_cast<float>(settings.learning_rate),
                           .gradients = Numbers(gradients),
                           .moments = Numbers(moments),
                           .masters = Numbers(masters),
                           .parameters = Out(parameters)});
  }

 private:
  static constexpr int kN = kWide<T>;
  // Largest heads of our own kernels: tiles of larger ones do not fit into registers.
  static constexpr int kMaxHeadSize = 128;
  // Largest number of blocks of a kernel over elements: some 8 per SM of a large GPU (H200: 132
  // SMs). Not measured.
  static constexpr int64_t kMaxBlocks = 2048;

  static const T* In(const void* data) { return static_cast<const T*>(data); }
  static T* Out(void* data) { return static_cast<T*>(data); }
  static const float* Numbers(const void* data) { return static_cast<const float*>(data); }
  static float* Numbers(void* data) { return static_cast<float*>(data); }
  static unsigned Blocks(int64_t count) { return static_cast<unsigned>(count); }
  static dim3 WarpBlocks(int64_t warps) {
    constexpr int64_t kWarps = kRowThreads / kWarpSize;
    return dim3(Blocks((warps + kWarps - 1) / kWarps));
  }

  // Returns whether packs can be used: all counts, or-ed together in `counts`, are multiples of a
  // pack, and all arrays are aligned to one.
  static bool IsWide(int64_t counts, std::initializer_list<const void*> arrays) {
    static_assert((kN & (kN - 1)) == 0);
    if (counts % kN != 0) return false;
    return std::all_of(arrays.begin(), arrays.end(), [](const void* array) {
      return reinterpret_cast<uintptr_t>(array) % (kN * sizeof(T)) == 0;
    });
  }

  template <typename Work>
  void Each(int64_t count, Work work) {
    if (count <= 0) return;
    const int64_t blocks = std::min(kMaxBlocks, (count + kRowThreads - 1) / kRowThreads);
    PARPLAN_LAUNCH(queue_, dim3(Blocks(blocks)), dim3(kRowThreads), 0, (ForEach<Work>), count,
                   work);
  }

  // Adds the sums of columns to y.
  template <typename Value>
  void AddColumns(Value value, int64_t row_count, int64_t column_count, float* y) {
    if (row_count == 0 || column_count == 0) return;
    // Enough blocks to fill a GPU, with at least this number of rows in each. Not measured.
    constexpr int64_t kMinRows = 64;
    constexpr int64_t kMaxChunks = 64;
    const int64_t chunks = std::min(kMaxChunks, (row_count + kMinRows - 1) / kMinRows);
    const int64_t chunk_rows = (row_count + chunks - 1) / chunks;
    auto* const parts = static_cast<float*>(
        queue_.Scratch(chunks * column_count * static_cast<int64_t>(sizeof(float))));
    if (parts == nullptr) return;
    const dim3 grid(Blocks((column_count + kColumnThreads - 1) / kColumnThreads), Blocks(chunks));
    PARPLAN_LAUNCH(queue_, grid, dim3(kColumnThreads, kColumnRows), 0, (SumColumnChunks<Value>),
                   value, row_count, column_count, chunk_rows, parts);
    Each(column_count, AddChunksWork{parts, chunks, column_count, y});
  }

  // Returns the library that computes attention of T; null if there is none.
  AttentionLibrary* Library() {
    return std::is_same_v<T, float> ? nullptr : queue_.attention_library();
  }

  // Calls work(size) with the smallest head size of kernels that is large enough.
  template <typename Work>
  void ForHeadSize(const AttentionShape& shape, Work work) {
    if (shape.sample_count == 0 || shape.head_count == 0) return;
    if (shape.head_size <= 32) {
      work(std::integral_constant<int, 32>());
    } else if (shape.head_size <= 64) {
      work(std::integral_constant<int, 64>());
    } else if (shape.head_size <= 128) {
      work(std::integral_constant<int, 128>());
    } else {
      queue_.Fail(absl::UnimplementedError(
          "head_size: cuDNN refused a shape for which the cuda back end has no kernels"));
    }
  }

  static float ScoreScale(const AttentionShape& shape) {
    return static_cast<float>(1.0 / std::sqrt(static_cast<double>(shape.head_size)));
  }
  static bool IsWide(const AttentionShape& shape, std::initializer_list<const void*> arrays) {
    return IsWide(shape.head_size | shape.query_stride | shape.key_value_stride |
                      shape.output_stride | shape.query_sample_stride |
                      shape.key_value_sample_stride | shape.output_sample_stride,
                  arrays);
  }
  // Returns the grid of attention: tiles of rows x heads x samples.
  static dim3 AttentionGrid(const AttentionShape& shape, int64_t row_count, int head_count) {
    constexpr int64_t kRows = AttentionTiles<T>::kRows;
    return dim3(Blocks((row_count + kRows - 1) / kRows), static_cast<unsigned>(head_count),
                Blocks(shape.sample_count));
  }

  template <int kSize>
  void Attend(const AttentionShape& shape, const void* q, const void* k, const void* v,
              void* output, void* kept) {
    using Tiles = AttentionTiles<T>;
    if (shape.query_count == 0) return;
    PARPLAN_LAUNCH(queue_, AttentionGrid(shape, shape.query_count, shape.head_count),
                   dim3(Tiles::kThreads), (Tiles::template ForwardBytes<kSize>()),
                   (AttendForward<T, kSize>), shape, IsWide(shape, {q, k, v}), ScoreScale(shape),
                   In(q), In(k), In(v), Out(output), Numbers(kept));
  }

  template <int kSize>
  void AttendBackward(const AttentionShape& shape, const void* q, const void* k, const void* v,
                      const void* output, const void* kept, const void* output_gradient, void* dq,
                      void* dk, void* dv) {
    using Tiles = AttentionTiles<T>;
    const bool is_wide = IsWide(shape, {q, k, v, output_gradient});
    const float scale = ScoreScale(shape);
    const int64_t rows = shape.sample_count * shape.head_count * shape.query_count;
    auto* const common = static_cast<float*>(
        queue_.Scratch(std::max<int64_t>(1, rows) * static_cast<int64_t>(sizeof(float))));
    if (common == nullptr) return;
    if (rows > 0) {
      PARPLAN_LAUNCH(queue_, WarpBlocks(rows), dim3(kRowThreads), 0, (SumOutputGradients<T>), shape,
                     In(output), In(output_gradient), common);
      PARPLAN_LAUNCH(queue_, AttentionGrid(shape, shape.query_count, shape.head_count),
                     dim3(Tiles::kThreads), (Tiles::template QueryBytes<kSize>()),
                     (AttendBackwardToQueries<T, kSize>), shape, is_wide, scale, In(q), In(k),
                     In(v), Numbers(kept), common, In(output_gradient), Out(dq));
    }
    if (shape.key_count == 0) return;
    PARPLAN_LAUNCH(queue_, AttentionGrid(shape, shape.key_count, shape.key_value_head_count),
                   dim3(Tiles::kThreads), (Tiles::template KeyBytes<kSize>()),
                   (AttendBackwardToKeys<T, kSize>), shape, is_wide, scale, In(q), In(k), In(v),
                   Numbers(kept), common, In(output_gradient), Out(dk), Out(dv));
  }

  KernelQueue& queue_;
  const bool fuses_;
};

}  // namespace parplan::cuda

#endif  // PARPLAN_EXECUTOR_DEVICE_CUDA_DEVICE_KERNELS_H_
