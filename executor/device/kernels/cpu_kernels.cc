// The kernels on the processor.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <type_traits>

#include "executor/device/kernels/cpu_attention.h"
#include "executor/device/kernels/cpu_math.h"
#include "executor/device/kernels/cpu_product.h"
#include "executor/device/kernels/cpu_rotary.h"
#include "executor/device/kernels/layer_kernels.h"
#include "executor/device/kernels/mix_bits.h"

namespace parplan {
namespace {

// Added to variances; the value of Megatron-LM and GPT-2.
constexpr double kNormEpsilon = 1e-5;

// GELU's approximation x (1 + tanh(u)) / 2 with u = sqrt(2 / pi) (x + 0.044715 x^3), and its
// derivative; (1 + tanh(u)) / 2 = sigmoid(2 u).
template <typename T>
struct GeluTerms {
  explicit GeluTerms(T x) {
    constexpr T kTwoRootTwoOverPi = T(1.5957691216057307117597842397375);
    constexpr T kCubic = T(0.044715);
    const T square = x * x;
    gate = cpu_math::Sigmoid(kTwoRootTwoOverPi * x * (T(1) + kCubic * square));
    slope = gate + x * gate * (T(1) - gate) * kTwoRootTwoOverPi * (T(1) + T(3) * kCubic * square);
  }
  T gate;
  T slope;
};

template <typename T>
class CpuKernels : public LayerKernels {
 public:
  CpuKernels() { UseOneThreadForProducts(); }

  ElementType type() const override {
    return std::is_same_v<T, float> ? ElementType::kFloat32 : ElementType::kFloat64;
  }
  absl::Status Synchronize() override { return absl::OkStatus(); }

  void Zero(void* data, int64_t count) override { std::fill_n(Out(data), count, T(0)); }

  absl::Status CopyFromHost(const void* host, void* device, int64_t byte_count) override {
    std::memcpy(device, host, static_cast<size_t>(byte_count));
    return absl::OkStatus();
  }
  absl::Status CopyToHost(const void* device, void* host, int64_t byte_count) override {
    std::memcpy(host, device, static_cast<size_t>(byte_count));
    return absl::OkStatus();
  }

  void FillNormal(const NormalMatrix& matrix, void* data) override {
    T* out = Out(data);
    for (int64_t row = 0; row < matrix.part_row_count; ++row) {
      const int64_t first = (matrix.first_row + row) * matrix.column_count + matrix.first_column;
      for (int64_t column = 0; column < matrix.part_column_count; ++column) {
        const auto place = static_cast<uint64_t>(first + column);
        *out++ = static_cast<T>(NormalNumber(matrix.stream, place) * matrix.deviation);
      }
    }
  }

  // Statistics have the type of everything else here.
  void ToStatistics(const void* x, void* y, int64_t count) override {
    std::copy_n(In(x), count, Out(y));
  }

  void CopyRows(const void* from, int64_t from_stride, void* to, int64_t to_stride,
                int64_t row_count, int64_t row_size) override {
    for (int64_t row = 0; row < row_count; ++row) {
      std::copy_n(In(from) + row * from_stride, row_size, Out(to) + row * to_stride);
    }
  }

  void Multiply(const MatrixProduct& p) override {
    ::parplan::Multiply(CpuProduct<T>{.transposes_a = p.transposes_a,
                                      .transposes_b = p.transposes_b,
                                      .m = p.m,
                                      .n = p.n,
                                      .k = p.k,
                                      .a = In(p.a),
                                      .a_stride = p.transposes_a ? p.m : p.k,
                                      .b = In(p.b),
                                      .b_stride = p.transposes_b ? p.k : p.n,
                                      .c = Out(p.c),
                                      .c_stride = p.n,
                                      .adds = p.adds});
  }

  void Add(const void* x, void* y, int64_t count) override {
    const T* const in = In(x);
    T* const out = Out(y);
    for (int64_t i = 0; i < count; ++i) out[i] += in[i];
  }

  void Scale(double factor, void* y, int64_t count) override {
    T* const out = Out(y);
    for (int64_t i = 0; i < count; ++i) out[i] *= static_cast<T>(factor);
  }

  void AddBiasToColumns(const void* bias, void* y, int64_t row_count, int64_t row_size,
                        int64_t first_column, int64_t column_count) override {
    for (int64_t row = 0; row < row_count; ++row) {
      Add(bias, Out(y) + row * row_size + first_column, column_count);
    }
  }

  void AddColumnsOfRows(const void* dy, int64_t row_count, int64_t row_size, int64_t first_column,
                        int64_t column_count, void* bias_gradient) override {
    for (int64_t row = 0; row < row_count; ++row) {
      Add(In(dy) + row * row_size + first_column, bias_gradient, column_count);
    }
  }

  void Norm(NormKind kind, const void* x, const void* gain, const void* bias, void* y, void* kept,
            int64_t row_count, int64_t row_size) override {
    const T* const g = In(gain);
    const T* const b = In(bias);
    for (int64_t row = 0; row < row_count; ++row) {
      const T* const in = In(x) + row * row_size;
      T* const out = Out(y) + row * row_size;
      T mean = 0;
      if (kind == NormKind::kLayerNorm) {
        mean = cpu_math::SumOf<T>(row_size, [&](int64_t i) { return in[i]; }) /
               static_cast<T>(row_size);
      }
      const T squares =
          cpu_math::SumOf<T>(row_size, [&](int64_t i) { return (in[i] - mean) * (in[i] - mean); });
      const T reciprocal =
          T(1) / std::sqrt(squares / static_cast<T>(row_size) + static_cast<T>(kNormEpsilon));
      if (kind == NormKind::kLayerNorm) {
        for (int64_t i = 0; i < row_size; ++i) out[i] = (in[i] - mean) * reciprocal * g[i] + b[i];
      } else {
        for (int64_t i = 0; i < row_size; ++i) out[i] = in[i] * reciprocal * g[i];
      }
      Out(kept)[2 * row] = mean;
      Out(kept)[2 * row + 1] = reciprocal;
    }
  }

  // With n = (x - mean) r and d = dy gain: dx = r (d - mean(d) - n mean(d n)). An RMS norm has no
  // mean(d).
  void NormBackward(NormKind kind, const void* dy, const void* x, const void* gain,
                    const void* kept, void* dx, void* gain_gradient, void* bias_gradient,
                    int64_t row_count, int64_t row_size) override {
    const T* const g = In(gain);
    T* const dg = Out(gain_gradient);
    T* const db = Out(bias_gradient);
    for (int64_t row = 0; row < row_count; ++row) {
      const T* const in = In(x) + row * row_size;
      const T* const d = In(dy) + row * row_size;
      T* const out = Out(dx) + row * row_size;
      const T mean = In(kept)[2 * row];
      const T reciprocal = In(kept)[2 * row + 1];
      const T size = static_cast<T>(row_size);
      const T scaled =
          cpu_math::SumOf<T>(row_size,
                             [&](int64_t i) { return d[i] * g[i] * (in[i] - mean) * reciprocal; }) /
          size;
      T plain = 0;
      if (kind == NormKind::kLayerNorm) {
        plain = cpu_math::SumOf<T>(row_size, [&](int64_t i) { return d[i] * g[i]; }) / size;
        for (int64_t i = 0; i < row_size; ++i) db[i] += d[i];
      }
      for (int64_t i = 0; i < row_size; ++i) {
        const T normal = (in[i] - mean) * reciprocal;
        dg[i] += d[i] * normal;
        out[i] += reciprocal * (d[i] * g[i] - plain - normal * scaled);
      }
    }
  }

  void Gelu(const void* x, void* y, int64_t count) override {
    const T* const in = In(x);
    T* const out = Out(y);
    for (int64_t i = 0; i < count; ++i) out[i] = in[i] * GeluTerms<T>(in[i]).gate;
  }

  void GeluBackward(const void* x, const void* dy, void* dx, int64_t count) override {
    const T* const in = In(x);
    const T* const d = In(dy);
    T* const out = Out(dx);
    for (int64_t i = 0; i < count; ++i) out[i] = d[i] * GeluTerms<T>(in[i]).slope;
  }

  void Swiglu(const void* x, void* y, int64_t row_count, int64_t row_size) override {
    for (int64_t row = 0; row < row_count; ++row) {
      const T* const gate = In(x) + 2 * row * row_size;
      const T* const up = gate + row_size;
      T* const out = Out(y) + row * row_size;
      for (int64_t i = 0; i < row_size; ++i) {
        out[i] = gate[i] * cpu_math::Sigmoid(gate[i]) * up[i];
      }
    }
  }

  void SwigluBackward(const void* x, const void* dy, void* dx, int64_t row_count,
                      int64_t row_size) override {
    for (int64_t row = 0; row < row_count; ++row) {
      const T* const gate = In(x) + 2 * row * row_size;
      const T* const up = gate + row_size;
      const T* const d = In(dy) + row * row_size;
      T* const gate_gradient = Out(dx) + 2 * row * row_size;
      T* const up_gradient = gate_gradient + row_size;
      for (int64_t i = 0; i < row_size; ++i) {
        const T sigmoid = cpu_math::Sigmoid(gate[i]);
        const T silu = gate[i] * sigmoid;
        const T gradient = d[i] * up[i] * (sigmoid + silu * (T(1) - sigmoid));
        up_gradient[i] = d[i] * silu;
        gate_gradient[i] = gradient;
      }
    }
  }

  void Attention(const AttentionShape& shape, const void* q, const void* k, const void* v,
                 void* output, void* kept) override {
    attention_.Forward(shape, In(q), In(k), In(v), Out(output), Out(kept));
  }

  void AttentionBackward(const AttentionShape& shape, const void* q, const void* k, const void* v,
                         const void* output, const void* kept, const void* output_gradient,
                         void* dq, void* dk, void* dv) override {
    attention_.Backward(shape, In(q), In(k), In(v), In(output), In(kept), In(output_gradient),
                        Out(dq), Out(dk), Out(dv));
  }

  void MergeAttention(const AttentionShape& shape, const void* part, const void* part_kept,
                      void* output, void* kept) override {
    CpuAttention<T>::Merge(shape, In(part), In(part_kept), Out(output), Out(kept));
  }

  void Rotate(const RotaryShape& shape, bool inverse, void* x) override {
    rotary_.ApplyRotary(shape, inverse, Out(x));
  }

  void Embed(const int32_t* tokens, int64_t token_count, const void* table, int64_t first_token,
             int64_t row_count, int64_t row_size, void* y) override {
    for (int64_t i = 0; i < token_count; ++i) {
      const int64_t row = tokens[i] - first_token;
      T* const out = Out(y) + i * row_size;
      if (row < 0 || row >= row_count) {
        std::fill_n(out, row_size, T(0));
      } else {
        std::copy_n(In(table) + row * row_size, row_size, out);
      }
    }
  }

  void EmbedBackward(const int32_t* tokens, int64_t token_count, const void* dy,
                     int64_t first_token, int64_t row_count, int64_t row_size,
                     void* table_gradient) override {
    for (int64_t i = 0; i < token_count; ++i) {
      const int64_t row = tokens[i] - first_token;
      if (row < 0 || row >= row_count) continue;
      Add(In(dy) + i * row_size, Out(table_gradient) + row * row_size, row_size);
    }
  }

  void LargestLogits(const void* logits, int64_t row_count, int64_t row_size,
                     void* largest) override {
    for (int64_t row = 0; row < row_count; ++row) {
      Out(largest)[row] = cpu_math::LargestOf(In(logits) + row * row_size, row_size);
    }
  }

  void SumLogits(const void* logits, const int32_t* targets, const void* largest, int64_t row_count,
                 int64_t row_size, int64_t first_column, void* sums) override {
    for (int64_t row = 0; row < row_count; ++row) {
      const T* const in = In(logits) + row * row_size;
      const T row_max = In(largest)[row];
      Out(sums)[2 * row] =
          cpu_math::SumOf<T>(row_size, [&](int64_t i) { return cpu_math::Exp(in[i] - row_max); });
      const int64_t column = targets[row] - first_column;
      Out(sums)[2 * row + 1] = column < 0 || column >= row_size ? T(0) : in[column] - row_max;
    }
  }

  void LogitGradients(void* logits, const int32_t* targets, const void* largest, const void* sums,
                      double factor, int64_t row_count, int64_t row_size,
                      int64_t first_column) override {
    for (int64_t row = 0; row < row_count; ++row) {
      T* const out = Out(logits) + row * row_size;
      const T row_max = In(largest)[row];
      const T share = static_cast<T>(factor) / In(sums)[2 * row];
      for (int64_t i = 0; i < row_size; ++i) out[i] = cpu_math::Exp(out[i] - row_max) * share;
      const int64_t column = targets[row] - first_column;
      if (column >= 0 && column < row_size) out[column] -= static_cast<T>(factor);
    }
  }

  void AddLosses(const void* sums, double factor, int64_t row_count, double* loss) override {
    const T* const numbers = In(sums);
    double losses = 0.0;
    for (int64_t row = 0; row < row_count; ++row) {
      losses += factor * (std::log(static_cast<double>(numbers[2 * row])) -
                          static_cast<double>(numbers[2 * row + 1]));
    }
    *loss += losses;
  }

  void AdamStep(const AdamSettings& settings, int64_t step, const void* gradients,
                void* first_moments, void* second_moments, void* /*masters*/, void* parameters,
                int64_t count) override {
    const T b1 = static_cast<T>(settings.beta1);
    const T b2 = static_cast<T>(settings.beta2);
    const T rate = static_cast<T>(settings.learning_rate /
                                  (1.0 - std::pow(settings.beta1, static_cast<double>(step))));
    const T correction =
        static_cast<T>(1.0 / (1.0 - std::pow(settings.beta2, static_cast<double>(step))));
    const T epsilon = static_cast<T>(settings.epsilon);
    const T* const g = In(gradients);
    T* const m = Out(first_moments);
    T* const v = Out(second_moments);
    T* const p = Out(parameters);
    for (int64_t i = 0; i < count; ++i) {
      m[i] = b1 * m[i] + (T(1) - b1) * g[i];
      v[i] = b2 * v[i] + (T(1) - b2) * g[i] * g[i];
      p[i] -= rate * m[i] / (std::sqrt(v[i] * correction) + epsilon);
    }
  }

  void SgdStep(const SgdSettings& settings, const void* gradients, void* moments, void* /*masters*/,
               void* parameters, int64_t count) override {
    const T momentum = static_cast<T>(settings.momentum);
    const T rate = static_cast<T>(settings.learning_rate);
    const T* const g = In(gradients);
    T* const m = Out(moments);
    T* const p = Out(parameters);
    if (m == nullptr) {
      for (int64_t i = 0; i < count; ++i) p[i] -= rate * g[i];
      return;
    }
    for (int64_t i = 0; i < count; ++i) {
      m[i] = momentum * m[i] + g[i];
      p[i] -= rate * m[i];
    }
  }

 private:
  static const T* In(const void* data) { return static_cast<const T*>(data); }
  static T* Out(void* data) { return static_cast<T*>(data); }

  CpuAttention<T> attention_;
  CpuRotary<T> rotary_;
};

}  // namespace

std::unique_ptr<LayerKernels> MakeCpuKernels(ElementType type) {
  if (type == ElementType::kFloat32) return std::make_unique<CpuKernels<float>>();
  if (type == ElementType::kFloat64) return std::make_unique<CpuKernels<double>>();
  return nullptr;
}

}  // namespace parplan
