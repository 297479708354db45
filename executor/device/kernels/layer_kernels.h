// What the layers of a transformer are made of, on one device: matrix products, norms,
// attention, activations, the loss and the optimizer, forward and backward.
//
// The executor trains with these and the profiler agent measures with them, so that what is
// predicted and what runs are the same. Layers that are split over ranks are put together
// from them and a communicator; nothing here knows of other ranks.
//
// Every pointer is to memory of the device, to elements of `type()` where nothing else is
// said. What is summed or kept for a later pass besides activations (statistics: `kept`,
// `largest`, `sums`, moments) is of `statistics_type()`. Tokens and targets are in memory of the
// host and read before a call returns.
//
// Matrices lie row by row; rows of activations are tokens of samples. Operations run in the
// order in which they are called; a device that runs them later tells its errors in `Synchronize`.
// One object belongs to one thread.

#ifndef PARPLAN_EXECUTOR_DEVICE_KERNELS_LAYER_KERNELS_H_
#define PARPLAN_EXECUTOR_DEVICE_KERNELS_LAYER_KERNELS_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "executor/device/comm/communicator.h"

namespace parplan {

// c = op(a) op(b), or c + that. op(a) is m x k, op(b) k x n, c m x n.
struct MatrixProduct {
  bool transposes_a = false;
  bool transposes_b = false;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
  bool adds = false;
};

// Attention of queries to keys and values of the same samples. Heads lie side by side in a
// row, `head_size` elements each; head h of the queries attends to head
// h / (head_count / key_value_head_count) of keys and values.
struct AttentionShape {
  int64_t sample_count = 0;
  // Of a sample.
  int64_t query_count = 0;
  int64_t key_count = 0;
  int head_count = 0;
  int key_value_head_count = 0;
  int head_size = 0;
  // Query i sees keys up to i + first_query only; else all.
  bool is_causal = false;
  int64_t first_query = 0;
  // Elements from one token of a sample to the next,
  int64_t query_stride = 0;
  int64_t key_value_stride = 0;
  int64_t output_stride = 0;
  // and from one sample to the next.
  int64_t query_sample_stride = 0;
  int64_t key_value_sample_stride = 0;
  int64_t output_sample_stride = 0;
  // The backward pass adds to gradients of queries, keys and values; else it replaces them.
  bool adds_gradients = false;
};

// Heads side by side in rows: all samples of a token, then those of the next.
struct RotaryShape {
  int64_t token_count = 0;
  int64_t sample_count = 0;
  int head_count = 0;
  int head_size = 0;
  // Of the first token in its sample.
  int64_t first_position = 0;
  // Elements from one row to the next.
  int64_t row_stride = 0;
};

struct AdamSettings {
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
};

struct SgdSettings {
  double learning_rate = 1e-2;
  double momentum = 0.9;
};

enum class NormKind {
  // Mean and variance, gain and bias.
  kLayerNorm,
  // Root mean square and gain.
  kRmsNorm,
};

class LayerKernels {
 public:
  virtual ~LayerKernels() = default;

  virtual ElementType type() const = 0;
  // `type()`, but fp32 for 16-bit types.
  ElementType statistics_type() const {
    return type() == ElementType::kBfloat16 ? ElementType::kFloat32 : type();
  }
  // Waits for everything called so far, and tells how it went.
  virtual absl::Status Synchronize() = 0;

  // Memory.
  virtual void Zero(void* data, int64_t count) = 0;
  // Between memory of the host and of the device, after everything called so far; both have
  // ended on return. The error is also told by `Synchronize`.
  virtual absl::Status CopyFromHost(const void* host, void* device, int64_t byte_count) = 0;
  virtual absl::Status CopyToHost(const void* device, void* host, int64_t byte_count) = 0;
  // `row_count` rows of `row_size` elements; strides in elements. The two do not overlap.
  virtual void CopyRows(const void* from, int64_t from_stride, void* to, int64_t to_stride,
                        int64_t row_count, int64_t row_size) = 0;

  virtual void Multiply(const MatrixProduct& product) = 0;
  // y += x; y *= factor.
  virtual void Add(const void* x, void* y, int64_t count) = 0;
  virtual void Scale(double factor, void* y, int64_t count) = 0;
  // Columns [first_column, first_column + column_count) of each row of y += bias.
  virtual void AddBiasToColumns(const void* bias, void* y, int64_t row_count, int64_t row_size,
                                int64_t first_column, int64_t column_count) = 0;
  // bias_gradient += those columns of all rows of dy.
  virtual void AddColumnsOfRows(const void* dy, int64_t row_count, int64_t row_size,
                                int64_t first_column, int64_t column_count,
                                void* bias_gradient) = 0;
  // The same of whole rows.
  void AddBias(const void* bias, void* y, int64_t row_count, int64_t row_size) {
    AddBiasToColumns(bias, y, row_count, row_size, 0, row_size);
  }
  void AddRows(const void* dy, void* bias_gradient, int64_t row_count, int64_t row_size) {
    AddColumnsOfRows(dy, row_count, row_size, 0, row_size, bias_gradient);
  }

  // Keeps two numbers a row for the backward pass: [2 * row] the mean (0 of an RMS norm) and
  // [2 * row + 1] the reciprocal of the deviation. `bias` is null for an RMS norm.
  virtual void Norm(NormKind kind, const void* x, const void* gain, const void* bias, void* y,
                    void* kept, int64_t row_count, int64_t row_size) = 0;
  // dx += the gradient of x; gain_gradient and bias_gradient += theirs.
  virtual void NormBackward(NormKind kind, const void* dy, const void* x, const void* gain,
                            const void* kept, void* dx, void* gain_gradient, void* bias_gradient,
                            int64_t row_count, int64_t row_size) = 0;

  // y = GELU(x), by the tangent's approximation (Hendrycks and Gimpel, section 2).
  virtual void Gelu(const void* x, void* y, int64_t count) = 0;
  // dx = dy GELU'(x); dx may be dy.
  virtual void GeluBackward(const void* x, const void* dy, void* dx, int64_t count) = 0;
  // y = SiLU(gate) up (Shazeer 2020). Rows of x hold gate and up, `row_size` each.
  virtual void Swiglu(const void* x, void* y, int64_t row_count, int64_t row_size) = 0;
  // dx may be x.
  virtual void SwigluBackward(const void* x, const void* dy, void* dx, int64_t row_count,
                              int64_t row_size) = 0;

  // Softmax attention scaled by 1 / sqrt(head_size). Keeps the logarithm of the sum of
  // exponentials of each query and head: [sample][head][query].
  virtual void Attention(const AttentionShape& shape, const void* q, const void* k, const void* v,
                         void* output, void* kept) = 0;
  // dq, dk and dv lie as q, k and v do. With the `output` and `kept` of attention to more keys
  // than these they are these keys' part of the gradients.
  virtual void AttentionBackward(const AttentionShape& shape, const void* q, const void* k,
                                 const void* v, const void* output, const void* kept,
                                 const void* output_gradient, void* dq, void* dk, void* dv) = 0;
  // From attention of the same queries to two sets of keys, that to both of them together:
  // `part`, which lies as `output` does, goes into `output` and `part_kept` into `kept` (Liu et
  // al. 2023, section 3). REQUIRES: every query sees a key of either set.
  virtual void MergeAttention(const AttentionShape& shape, const void* part, const void* part_kept,
                              void* output, void* kept) = 0;
  // Turns elements i and head_size / 2 + i of every head by position * 10000^(-2 i / head_size)
  // (Su et al. 2021, section 3.2.2), or by as much the other way.
  virtual void Rotate(const RotaryShape& shape, bool inverse, void* x) = 0;

  // Row i of y = row tokens[i] - first_token of the table; 0 where that is no row of it,
  // because another rank has it.
  virtual void Embed(const int32_t* tokens, int64_t token_count, const void* table,
                     int64_t first_token, int64_t row_count, int64_t row_size, void* y) = 0;
  // table_gradient += the rows of dy.
  virtual void EmbedBackward(const int32_t* tokens, int64_t token_count, const void* dy,
                             int64_t first_token, int64_t row_count, int64_t row_size,
                             void* table_gradient) = 0;

  // Cross-entropy over logits whose columns several ranks may share, in three steps with a
  // reduction over those ranks between them:
  // the largest logit of each row (to be reduced by the maximum);
  virtual void LargestLogits(const void* logits, int64_t row_count, int64_t row_size,
                             void* largest) = 0;
  // [2 * row] the sum of exp(logit - largest), [2 * row + 1] the logit of the row's target
  // less the largest, 0 where the target is in another rank's columns (both to be added up);
  virtual void SumLogits(const void* logits, const int32_t* targets, const void* largest,
                         int64_t row_count, int64_t row_size, int64_t first_column, void* sums) = 0;
  // and then the gradient of `factor` times the sum of all rows' losses, in the logits'
  // place. A row's loss is log(sum) - target's logit.
  virtual void LogitGradients(void* logits, const int32_t* targets, const void* largest,
                              const void* sums, double factor, int64_t row_count, int64_t row_size,
                              int64_t first_column) = 0;

  // One step of `count` parameters; `step` counts from 1. Moments are of the type that the
  // optimizer computes with: `type()`, fp32 for 16-bit types. For those `masters` are the
  // parameters in fp32, of which `parameters` become the rounded ones; null for other types.
  virtual void AdamStep(const AdamSettings& settings, int64_t step, const void* gradients,
                        void* first_moments, void* second_moments, void* masters, void* parameters,
                        int64_t count) = 0;
  // `moments` may be null where there is no momentum.
  virtual void SgdStep(const SgdSettings& settings, const void* gradients, void* moments,
                       void* masters, void* parameters, int64_t count) = 0;
};

// On the processor, one thread: `type` is kFloat32 (oneDNN's products) or kFloat64
// (Eigen's; the reference of every other back end). Null for other types.
std::unique_ptr<LayerKernels> MakeCpuKernels(ElementType type);

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_DEVICE_KERNELS_LAYER_KERNELS_H_
