// The operations of a transformer's layers on one device: matrix products, norms, attention,
// activations, the loss and the optimizer, forward and backward.
//
// The executor trains with these and the profiler agent measures with them, so that what is
// predicted is what runs. Layers that are split over ranks combine them with a communicator; the
// kernels know nothing of other ranks.
//
// Every pointer is to device memory, to elements of `type()` unless the comment names another type.
// Statistics, which are sums or are kept for a later pass (`kept`, `largest`, `sums`, moments, and
// gradients of parameters), are of `statistics_type()`. Tokens and targets are in host memory and
// are read before the call returns.
//
// Matrices are row-major; the rows of activations are the tokens of all samples. Operations run in
// the order in which they are called; a device that runs them later returns their errors from
// `Synchronize`. A communicator's operation of the same device sees what operations before it
// wrote, and operations after its `Wait` see what it wrote, without `Synchronize`. One object
// belongs to one thread. Implementations: `MakeCpuKernels` below, and `DeviceKernels` of the CUDA
// plugin (executor/device/cuda/device_kernels.h).

#ifndef PARPLAN_EXECUTOR_DEVICE_KERNELS_LAYER_KERNELS_H_
#define PARPLAN_EXECUTOR_DEVICE_KERNELS_LAYER_KERNELS_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "executor/device/comm/communicator.h"

namespace parplan {

// The product c = op(a) op(b), or c += op(a) op(b). op(a) is [m x k], op(b) [k x n], c [m x n].
struct MatrixProduct {
  // Whether op takes the transpose of the matrix in memory. Rows lie one behind the other.
  bool transposes_a = false;
  bool transposes_b = false;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
  // Whether the product is added to `c`, which then holds values.
  bool adds = false;
  // Whether `c` has elements of `statistics_type()`, as gradients of parameters have.
  bool widens = false;
};

// Attention of queries to keys and values of the same samples. A row is one token with its heads
// side by side, `head_size` elements each; head h of the queries attends to head h / (head_count /
// key_value_head_count) of keys and values. REQUIRES, unchecked: `key_value_head_count` is above 0
// and divides `head_count`.
struct AttentionShape {
  int64_t sample_count = 0;
  // Queries and keys of one sample.
  int64_t query_count = 0;
  int64_t key_count = 0;
  int head_count = 0;
  int key_value_head_count = 0;
  int head_size = 0;
  // Whether query i sees only the keys up to i + first_query, which is included, not all. The sum
  // may be below 0: the query then sees no key.
  bool is_causal = false;
  int64_t first_query = 0;
  // Elements from one token of a sample to the next.
  int64_t query_stride = 0;
  int64_t key_value_stride = 0;
  int64_t output_stride = 0;
  // Elements from one sample to the next.
  int64_t query_sample_stride = 0;
  int64_t key_value_sample_stride = 0;
  int64_t output_sample_stride = 0;
  // Whether the backward pass adds to the gradients of queries, keys and values instead of
  // replacing them.
  bool adds_gradients = false;
};

// Rows [token][sample] with heads side by side: all samples of one position, then of the next.
struct RotaryShape {
  // Tokens of a sample, samples, heads of a row, and elements of a head.
  int64_t token_count = 0;
  int64_t sample_count = 0;
  int head_count = 0;
  int head_size = 0;
  // Position of the first token in its sample.
  int64_t first_position = 0;
  // Elements from one row to the next.
  int64_t row_stride = 0;
};

// Part of a matrix of normally distributed initial values: element [row][column] of the whole
// matrix is NormalNumber(stream, row * column_count + column) times `deviation` (mix_bits.h).
struct NormalMatrix {
  uint64_t stream = 0;
  double deviation = 1.0;
  // Columns of the whole matrix.
  int64_t column_count = 0;
  // The part that is written, as a matrix of its own.
  int64_t first_row = 0;
  int64_t first_column = 0;
  int64_t part_row_count = 0;
  int64_t part_column_count = 0;
};

// Adam without weight decay.
struct AdamSettings {
  // The symbols of Kingma and Ba, arXiv 1412.6980: alpha, beta_1, beta_2 and epsilon.
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
};

// Gradient descent whose moments are momentum * moments + gradients.
struct SgdSettings {
  double learning_rate = 1e-2;
  double momentum = 0.9;
};

// The kinds of norms, and the parameters that each has.
enum class NormKind {
  // Mean and variance, gain and bias.
  kLayerNorm,
  // Root mean square and gain.
  kRmsNorm,
};

// The end of a block of the residual stream and the norm of the next one: the sum, which holds
// values, is increased by the bias and the residual, and normalized. Arrays are those of `Norm`.
struct ResidualNorm {
  NormKind kind = NormKind::kLayerNorm;
  // [row_size]; null if the block has none.
  const void* bias = nullptr;
  // [row_count x row_size], both.
  const void* residual = nullptr;
  void* sum = nullptr;
  const void* gain = nullptr;
  const void* norm_bias = nullptr;
  void* normal = nullptr;
  void* kept = nullptr;
  int64_t row_count = 0;
  int64_t row_size = 0;
};

// The operations of one device for one type of elements, used by one thread. Sizes and counts are
// of elements unless named bytes. Operations return no errors; see the head of the file.
class LayerKernels {
 public:
  virtual ~LayerKernels() = default;

  // Type of parameters and activations.
  virtual ElementType type() const = 0;
  // Returns `type()`, but fp32 for 16-bit types.
  ElementType statistics_type() const {
    return type() == ElementType::kBfloat16 ? ElementType::kFloat32 : type();
  }
  // Waits for all earlier work and returns its first error.
  virtual absl::Status Synchronize() = 0;

  // Sets `count` elements to zero.
  virtual void Zero(void* data, int64_t count) = 0;
  // Copy between host and device memory, after all earlier work; the copy has ended on return. They
  // return the first error of that work and the copy: RESOURCE_EXHAUSTED, UNIMPLEMENTED or INTERNAL
  // on a GPU, none on the processor. `Synchronize` returns an error too.
  virtual absl::Status CopyFromHost(const void* host, void* device, int64_t byte_count) = 0;
  virtual absl::Status CopyToHost(const void* device, void* host, int64_t byte_count) = 0;
  // Writes the part of `matrix` to `data` [part_row_count x part_column_count]. Every device writes
  // the same elements, up to the rounding of their type.
  virtual void FillNormal(const NormalMatrix& matrix, void* data) = 0;
  // Copies `count` elements of `type()` to elements of `statistics_type()`.
  virtual void ToStatistics(const void* x, void* y, int64_t count) = 0;
  // Copies `row_count` rows of `row_size` elements; strides in elements. The ranges do not overlap.
  virtual void CopyRows(const void* from, int64_t from_stride, void* to, int64_t to_stride,
                        int64_t row_count, int64_t row_size) = 0;

  // Computes a product; nothing if m or n is 0. REQUIRES, unchecked: `c` overlaps neither `a` nor
  // `b`, and k is above 0: a GPU takes 0 as well, but the processor not for every product.
  virtual void Multiply(const MatrixProduct& product) = 0;
  // Computes y += x for `count` elements of `statistics_type()`.
  virtual void AddStatistics(const void* x, void* y, int64_t count) { Add(x, y, count); }
  // Compute y += x and y *= factor for `count` elements.
  virtual void Add(const void* x, void* y, int64_t count) = 0;
  virtual void Scale(double factor, void* y, int64_t count) = 0;
  // Adds `bias` [column_count] to columns [first_column, first_column + column_count) of each row
  // of y [row_count x row_size].
  virtual void AddBiasToColumns(const void* bias, void* y, int64_t row_count, int64_t row_size,
                                int64_t first_column, int64_t column_count) = 0;
  // Adds these columns of all rows of dy [row_count x row_size] to bias_gradient [column_count],
  // which are statistics.
  virtual void AddColumnsOfRows(const void* dy, int64_t row_count, int64_t row_size,
                                int64_t first_column, int64_t column_count,
                                void* bias_gradient) = 0;
  // Do the same with whole rows.
  void AddBias(const void* bias, void* y, int64_t row_count, int64_t row_size) {
    AddBiasToColumns(bias, y, row_count, row_size, 0, row_size);
  }
  void AddRows(const void* dy, void* bias_gradient, int64_t row_count, int64_t row_size) {
    AddColumnsOfRows(dy, row_count, row_size, 0, row_size, bias_gradient);
  }

  // Normalizes each row of x [row_count x row_size] into y. Keeps two numbers per row for the
  // backward pass: [2 * row] the mean (0 for an RMS norm) and [2 * row + 1] the reciprocal of the
  // deviation, for which 1e-5 is added to the variance. gain and bias are [row_size]; `bias` is
  // null for an RMS norm.
  virtual void Norm(NormKind kind, const void* x, const void* gain, const void* bias, void* y,
                    void* kept, int64_t row_count, int64_t row_size) = 0;
  // Adds the gradients of x, gain and bias to dx, gain_gradient and bias_gradient; the last two are
  // statistics, and the last is null for an RMS norm.
  virtual void NormBackward(NormKind kind, const void* dy, const void* x, const void* gain,
                            const void* kept, void* dx, void* gain_gradient, void* bias_gradient,
                            int64_t row_count, int64_t row_size) = 0;

  // Computes y = GELU(x) in its tanh approximation (Hendrycks and Gimpel 2016, section 2).
  virtual void Gelu(const void* x, void* y, int64_t count) = 0;
  // The next three are those operations one after the other, to the last bit; a GPU has a kernel
  // for each, which reads and writes less. AddBiasAndGelu: `AddBias` of x, and y = GELU(x).
  virtual void AddBiasAndGelu(const void* bias, void* x, void* y, int64_t row_count,
                              int64_t row_size) {
    AddBias(bias, x, row_count, row_size);
    Gelu(x, y, row_count * row_size);
  }
  // `AddBias` of y unless `bias` is null, and y += x.
  virtual void AddResidual(const void* bias, const void* x, void* y, int64_t row_count,
                           int64_t row_size) {
    if (bias != nullptr) AddBias(bias, y, row_count, row_size);
    Add(x, y, row_count * row_size);
  }
  // `AddResidual` of the sum, and its `Norm`.
  virtual void AddResidualAndNorm(const ResidualNorm& n) {
    AddResidual(n.bias, n.residual, n.sum, n.row_count, n.row_size);
    Norm(n.kind, n.sum, n.gain, n.norm_bias, n.normal, n.kept, n.row_count, n.row_size);
  }
  // Computes dx = dy GELU'(x); dx may be dy.
  virtual void GeluBackward(const void* x, const void* dy, void* dx, int64_t count) = 0;
  // Computes y = SiLU(gate) up (Shazeer 2020). x is [row_count x 2 row_size], each row gate and
  // then up; y is [row_count x row_size].
  virtual void Swiglu(const void* x, void* y, int64_t row_count, int64_t row_size) = 0;
  // Computes the gradient of x; dx may be x.
  virtual void SwigluBackward(const void* x, const void* dy, void* dx, int64_t row_count,
                              int64_t row_size) = 0;

  // Returns whether these kernels compute attention of this shape, forward and backward:
  // UNIMPLEMENTED with the reason if they do not. It may take seconds, so it is asked once a layer,
  // before the first step.
  virtual absl::Status CheckAttention(const AttentionShape& shape) {
    static_cast<void>(shape);
    return absl::OkStatus();
  }
  // Computes softmax attention scaled by 1 / sqrt(head_size). `kept` is [sample][head][query], the
  // logarithms of the sums of exponentials. A query that sees no key gets the output 0 and the
  // logarithm 0. REQUIRES: `CheckAttention(shape)` is OK; otherwise `Synchronize` and copies return
  // its error on a GPU, and the processor takes every shape.
  virtual void Attention(const AttentionShape& shape, const void* q, const void* k, const void* v,
                         void* output, void* kept) = 0;
  // Computes the gradients dq, dk and dv, which have the layouts of q, k and v. If `output` and
  // `kept` are of attention to more keys than these, the results are the part of these keys.
  virtual void AttentionBackward(const AttentionShape& shape, const void* q, const void* k,
                                 const void* v, const void* output, const void* kept,
                                 const void* output_gradient, void* dq, void* dk, void* dv) = 0;
  // Combines attention of the same queries to two sets of keys into attention to both: merges
  // `part`, which has the layout of `output`, into `output`, and `part_kept` into `kept` (Liu et
  // al. 2023, section 3). REQUIRES, unchecked: every query sees a key of each set.
  virtual void MergeAttention(const AttentionShape& shape, const void* part, const void* part_kept,
                              void* output, void* kept) = 0;
  // Rotates elements i and head_size / 2 + i of every head, for i below head_size / 2, by the angle
  // position * 10000^(-2 i / head_size) (Su et al. 2021, section 3.2.2), or by its negative if
  // `inverse`.
  virtual void Rotate(const RotaryShape& shape, bool inverse, void* x) = 0;

  // Sets row i of y [token_count x row_size] to row tokens[i] - first_token of the table
  // [row_count x row_size]; to 0 if another rank has that row.
  virtual void Embed(const int32_t* tokens, int64_t token_count, const void* table,
                     int64_t first_token, int64_t row_count, int64_t row_size, void* y) = 0;
  // Adds the rows of dy to those of table_gradient, which are statistics, that the tokens name, and
  // skips tokens of other ranks' rows.
  virtual void EmbedBackward(const int32_t* tokens, int64_t token_count, const void* dy,
                             int64_t first_token, int64_t row_count, int64_t row_size,
                             void* table_gradient) = 0;

  // The next three compute cross-entropy over logits [row_count x row_size] whose columns are split
  // over ranks, with a reduction over these ranks after the first and after the second. Targets are
  // tokens of the whole vocabulary, of which column 0 here is token `first_column`. Writes the
  // largest logit of each row to largest [row_count]; to be reduced by the maximum. REQUIRES,
  // unchecked: a row has at least one logit.
  virtual void LargestLogits(const void* logits, int64_t row_count, int64_t row_size,
                             void* largest) = 0;
  // Writes sums [2 * row_count]: [2 * row] the sum of exp(logit - largest) and [2 * row + 1] the
  // target's logit minus the largest, 0 if the target is in another rank's columns; to be reduced
  // by the sum.
  virtual void SumLogits(const void* logits, const int32_t* targets, const void* largest,
                         int64_t row_count, int64_t row_size, int64_t first_column, void* sums) = 0;
  // Replaces the logits by the gradient of `factor` times the sum of all rows' losses. The loss of
  // a row is log(sums[2 * row]) - sums[2 * row + 1].
  virtual void LogitGradients(void* logits, const int32_t* targets, const void* largest,
                              const void* sums, double factor, int64_t row_count, int64_t row_size,
                              int64_t first_column) = 0;

  // Adds `factor` times the sum of all rows' losses to `*loss`, one fp64 in device memory, so that
  // a step need not wait for its losses.
  virtual void AddLosses(const void* sums, double factor, int64_t row_count, double* loss) = 0;

  // Makes one Adam step of `count` parameters; `step` counts from 1. Gradients and moments are of
  // `statistics_type()`. For 16-bit types `masters` are the parameters in fp32, and `parameters`
  // are set to them, rounded; null for other types.
  virtual void AdamStep(const AdamSettings& settings, int64_t step, const void* gradients,
                        void* first_moments, void* second_moments, void* masters, void* parameters,
                        int64_t count) = 0;
  // Makes one SGD step, with `masters` as for Adam. Without `moments` (null) the momentum counts as
  // 0, whatever it is.
  virtual void SgdStep(const SgdSettings& settings, const void* gradients, void* moments,
                       void* masters, void* parameters, int64_t count) = 0;
};

// Makes the processor's kernels. They compute on the calling thread alone; oneDNN starts no more
// threads for it, even in products elsewhere (UseOneThreadForProducts). `type` is kFloat32
// (products by oneDNN) or kFloat64 (products by Eigen; the reference for every other back end).
// Null for other types.
std::unique_ptr<LayerKernels> MakeCpuKernels(ElementType type);

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_DEVICE_KERNELS_LAYER_KERNELS_H_
