// Kernels that handle each element, or a pack of N adjacent ones, by itself. T: float or Bfloat16;
// all compute in fp32. Each Work is one operation of LayerKernels (layer_kernels.h), which has the
// formulas and shapes and is named above it: work(i) handles element or pack i. Pointers are to
// device memory, with the names that the operation gives its arguments. Started by DeviceKernels
// alone. Packs are read and written at once, so pointers are aligned to a pack.

#ifndef PARPLAN_EXECUTOR_DEVICE_CUDA_ELEMENT_KERNELS_H_
#define PARPLAN_EXECUTOR_DEVICE_CUDA_ELEMENT_KERNELS_H_

#include "executor/device/cuda/language.h"
#include "executor/device/kernels/layer_kernels.h"
#include "executor/device/kernels/mix_bits.h"

namespace parplan::cuda {

// Calls work(i) for all i in [0, count).
template <typename Work>
__global__ void ForEach(int64_t count, Work work) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += step) {
    work(i);
  }
}

// `Zero`.
template <typename T, int N>
struct ZeroWork {
  T* y;
  __device__ void operator()(int64_t i) const {
    Pack<T, N> pack;
    for (int k = 0; k < N; ++k) pack.elements[k] = FromFloat<T>(0.0f);
    StorePack<N>(y, i, pack);
  }
};

// Writes a part of a matrix of normally distributed numbers.
template <typename T>
struct FillNormalWork {
  NormalMatrix matrix;
  T* y;
  __device__ void operator()(int64_t i) const {
    const int64_t row = i / matrix.part_column_count;
    const int64_t column = i - row * matrix.part_column_count;
    const int64_t place =
        (matrix.first_row + row) * matrix.column_count + matrix.first_column + column;
    const double value =
        NormalNumber(matrix.stream, static_cast<uint64_t>(place)) * matrix.deviation;
    y[i] = FromFloat<T>(static_cast<float>(value));
  }
};

// `ToStatistics`.
template <typename T>
struct ToStatisticsWork {
  const T* x;
  float* y;
  __device__ void operator()(int64_t i) const { y[i] = ToFloat(x[i]); }
};

// Copies rows; sizes and strides in packs.
template <typename T, int N>
struct CopyRowsWork {
  const T* from;
  int64_t from_stride;
  T* to;
  int64_t to_stride;
  int64_t row_size;
  __device__ void operator()(int64_t i) const {
    const int64_t row = i / row_size;
    const int64_t column = i - row * row_size;
    StorePack<N>(to, row * to_stride + column, LoadPack<N>(from, row * from_stride + column));
  }
};

// `Add`: y += x.
template <typename T, int N>
struct AddWork {
  const T* x;
  T* y;
  __device__ void operator()(int64_t i) const {
    const Pack<T, N> a = LoadPack<N>(x, i);
    Pack<T, N> b = LoadPack<N>(static_cast<const T*>(y), i);
    for (int k = 0; k < N; ++k) {
      b.elements[k] = FromFloat<T>(ToFloat(b.elements[k]) + ToFloat(a.elements[k]));
    }
    StorePack<N>(y, i, b);
  }
};

// Returns a + b, rounded to T.
template <typename T, int N>
__device__ __forceinline__ Pack<T, N> AddRounded(Pack<T, N> a, const Pack<T, N>& b) {
  for (int k = 0; k < N; ++k) {
    a.elements[k] = FromFloat<T>(ToFloat(a.elements[k]) + ToFloat(b.elements[k]));
  }
  return a;
}

// `Scale`: y *= factor.
template <typename T, int N>
struct ScaleWork {
  float factor;
  T* y;
  __device__ void operator()(int64_t i) const {
    Pack<T, N> b = LoadPack<N>(static_cast<const T*>(y), i);
    for (int k = 0; k < N; ++k) b.elements[k] = FromFloat<T>(ToFloat(b.elements[k]) * factor);
    StorePack<N>(y, i, b);
  }
};

// Adds a bias to columns of rows; columns and strides in packs.
template <typename T, int N>
struct AddBiasWork {
  const T* bias;
  T* y;
  int64_t row_stride;
  int64_t first_column;
  int64_t column_count;
  __device__ void operator()(int64_t i) const {
    const int64_t row = i / column_count;
    const int64_t column = i - row * column_count;
    const int64_t at = row * row_stride + first_column + column;
    const Pack<T, N> a = LoadPack<N>(bias, column);
    Pack<T, N> b = LoadPack<N>(static_cast<const T*>(y), at);
    for (int k = 0; k < N; ++k) {
      b.elements[k] = FromFloat<T>(ToFloat(b.elements[k]) + ToFloat(a.elements[k]));
    }
    StorePack<N>(y, at, b);
  }
};

// `AddResidual` with a bias; columns in packs. Rounds between the two, as they do one by one.
template <typename T, int N>
struct AddResidualWork {
  const T* bias;
  const T* x;
  T* y;
  int64_t row_size;
  __device__ void operator()(int64_t i) const {
    StorePack<N>(y, i,
                 AddRounded(AddRounded(LoadPack<N>(static_cast<const T*>(y), i),
                                       LoadPack<N>(bias, i % row_size)),
                            LoadPack<N>(x, i)));
  }
};

// Returns 1 / (1 + e^-x).
__device__ __forceinline__ float SigmoidOf(float x) { return 1.0f / (1.0f + expf(-x)); }

// GELU's tanh approximation divided by x, and its derivative, `slope`.
struct GeluParts {
  __device__ __forceinline__ explicit GeluParts(float x) {
    constexpr float kTwoRootTwoOverPi = 1.5957691216057308f;
    constexpr float kCubic = 0.044715f;
    const float square = x * x;
    gate = SigmoidOf(kTwoRootTwoOverPi * x * (1.0f + kCubic * square));
    slope = gate + x * gate * (1.0f - gate) * kTwoRootTwoOverPi * (1.0f + 3.0f * kCubic * square);
  }
  float gate;
  float slope;
};

// `Gelu`: y = x gate(x).
template <typename T, int N>
struct GeluWork {
  const T* x;
  T* y;
  __device__ void operator()(int64_t i) const {
    Pack<T, N> a = LoadPack<N>(x, i);
    for (int k = 0; k < N; ++k) {
      const float value = ToFloat(a.elements[k]);
      a.elements[k] = FromFloat<T>(value * GeluParts(value).gate);
    }
    StorePack<N>(y, i, a);
  }
};

// `AddBiasAndGelu`; columns in packs. GELU is of the rounded sum, which the backward pass reads.
template <typename T, int N>
struct AddBiasAndGeluWork {
  const T* bias;
  T* x;
  T* y;
  int64_t row_size;
  __device__ void operator()(int64_t i) const {
    Pack<T, N> a =
        AddRounded(LoadPack<N>(static_cast<const T*>(x), i), LoadPack<N>(bias, i % row_size));
    StorePack<N>(x, i, a);
    for (int k = 0; k < N; ++k) {
      const float value = ToFloat(a.elements[k]);
      a.elements[k] = FromFloat<T>(value * GeluParts(value).gate);
    }
    StorePack<N>(y, i, a);
  }
};

// `GeluBackward`; dx may be dy.
template <typename T, int N>
struct GeluBackwardWork {
  const T* x;
  const T* dy;
  T* dx;
  __device__ void operator()(int64_t i) const {
    const Pack<T, N> a = LoadPack<N>(x, i);
    Pack<T, N> d = LoadPack<N>(dy, i);
    for (int k = 0; k < N; ++k) {
      d.elements[k] =
          FromFloat<T>(ToFloat(d.elements[k]) * GeluParts(ToFloat(a.elements[k])).slope);
    }
    StorePack<N>(dx, i, d);
  }
};

// Computes SiLU(gate) up; a row of x is a row of gates and one of what they gate. Sizes in packs.
template <typename T, int N>
struct SwigluWork {
  const T* x;
  T* y;
  int64_t row_size;
  __device__ void operator()(int64_t i) const {
    const int64_t gate_at = i + i / row_size * row_size;
    Pack<T, N> gate = LoadPack<N>(x, gate_at);
    const Pack<T, N> up = LoadPack<N>(x, gate_at + row_size);
    for (int k = 0; k < N; ++k) {
      const float g = ToFloat(gate.elements[k]);
      gate.elements[k] = FromFloat<T>(g * SigmoidOf(g) * ToFloat(up.elements[k]));
    }
    StorePack<N>(y, i, gate);
  }
};

// `SwigluBackward`; sizes in packs.
template <typename T, int N>
struct SwigluBackwardWork {
  const T* x;
  const T* dy;
  // May be equal to x.
  T* dx;
  int64_t row_size;
  __device__ void operator()(int64_t i) const {
    const int64_t gate_at = i + i / row_size * row_size;
    Pack<T, N> gate = LoadPack<N>(x, gate_at);
    Pack<T, N> up = LoadPack<N>(x, gate_at + row_size);
    const Pack<T, N> d = LoadPack<N>(dy, i);
    for (int k = 0; k < N; ++k) {
      const float g = ToFloat(gate.elements[k]);
      const float sigmoid = SigmoidOf(g);
      const float silu = g * sigmoid;
      const float dk = ToFloat(d.elements[k]);
      gate.elements[k] =
          FromFloat<T>(dk * ToFloat(up.elements[k]) * (sigmoid + silu * (1.0f - sigmoid)));
      up.elements[k] = FromFloat<T>(dk * silu);
    }
    StorePack<N>(dx, gate_at, gate);
    StorePack<N>(dx, gate_at + row_size, up);
  }
};

// Rotates one pair of elements of one token, in all heads of all samples.
template <typename T>
struct RotateWork {
  T* x;
  int64_t sample_count;
  int64_t row_stride;
  int64_t first_position;
  int head_count;
  int head_size;
  bool inverse;
  __device__ void operator()(int64_t i) const {
    const int pairs = head_size / 2;
    const int64_t token = i / pairs;
    const int pair = static_cast<int>(i - token * pairs);
    // In fp64: the angle of a far position is large, and only its remainder counts.
    const double angle =
        static_cast<double>(first_position + token) * pow(10000.0, -2.0 * pair / head_size);
    const float cosine = static_cast<float>(cos(angle));
    const float forward_sine = static_cast<float>(sin(angle));
    const float sine = inverse ? -forward_sine : forward_sine;
    for (int64_t sample = 0; sample < sample_count; ++sample) {
      T* const row = x + (token * sample_count + sample) * row_stride;
      for (int head = 0; head < head_count; ++head) {
        T& first = row[static_cast<int64_t>(head) * head_size + pair];
        T& second = row[static_cast<int64_t>(head) * head_size + pairs + pair];
        const float a = ToFloat(first);
        const float b = ToFloat(second);
        first = FromFloat<T>(a * cosine - b * sine);
        second = FromFloat<T>(a * sine + b * cosine);
      }
    }
  }
};

// Makes an optimizer step in fp32; in `masters` if T has 16 bits, else that is null. `rate` is the
// learning rate / (1 - beta1^step), `correction` 1 / (1 - beta2^step).
template <typename T>
struct AdamWork {
  float beta1;
  float beta2;
  float rate;
  float correction;
  float epsilon;
  const float* gradients;
  float* first;
  float* second;
  float* masters;
  T* parameters;
  __device__ void operator()(int64_t i) const {
    const float g = gradients[i];
    const float m = beta1 * first[i] + (1.0f - beta1) * g;
    const float v = beta2 * second[i] + (1.0f - beta2) * g * g;
    first[i] = m;
    second[i] = v;
    const float before = masters == nullptr ? ToFloat(parameters[i]) : masters[i];
    const float after = before - rate * m / (sqrtf(v * correction) + epsilon);
    if (masters != nullptr) masters[i] = after;
    parameters[i] = FromFloat<T>(after);
  }
};

// `SgdStep`, in fp32; in `masters` if T has 16 bits, else that is null. `rate` is the learning
// rate.
template <typename T>
struct SgdWork {
  float momentum;
  float rate;
  const float* gradients;
  // Null without momentum.
  float* moments;
  float* masters;
  T* parameters;
  __device__ void operator()(int64_t i) const {
    float m = gradients[i];
    if (moments != nullptr) {
      m += momentum * moments[i];
      moments[i] = m;
    }
    const float before = masters == nullptr ? ToFloat(parameters[i]) : masters[i];
    const float after = before - rate * m;
    if (masters != nullptr) masters[i] = after;
    parameters[i] = FromFloat<T>(after);
  }
};

}  // namespace parplan::cuda

#endif  // PARPLAN_EXECUTOR_DEVICE_CUDA_ELEMENT_KERNELS_H_
