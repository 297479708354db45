#include "executor/device/kernels/cpu_attention.h"

#include <algorithm>
#include <cmath>

#include "executor/device/kernels/cpu_math.h"
#include "executor/device/kernels/cpu_product.h"

namespace parplan {
namespace {

// Queries of a block, few enough that their weights stay in the second-level cache.
constexpr int64_t kBlock = 64;

// The queries [first, first + count) of one head of one sample.
struct Block {
  int64_t first;
  int64_t count;
  // Number of keys that any of these queries sees; they are the first ones.
  int64_t key_count;
};

// Returns the number of keys that query `index` of a sample sees.
int64_t SeenKeys(const AttentionShape& shape, int64_t index) {
  if (!shape.is_causal) return shape.key_count;
  return std::clamp<int64_t>(index + shape.first_query + 1, 0, shape.key_count);
}

template <typename F>
void ForEachBlock(const AttentionShape& shape, F work) {
  for (int64_t first = 0; first < shape.query_count; first += kBlock) {
    const int64_t count = std::min(kBlock, shape.query_count - first);
    work(Block{first, count, SeenKeys(shape, first + count - 1)});
  }
}

// Offsets of the first element of a head of a sample.
struct HeadOffsets {
  int64_t query;
  int64_t key_value;
  int64_t output;
  int64_t kept;
};

template <typename F>
void ForEachHead(const AttentionShape& shape, F work) {
  const int group = shape.head_count / shape.key_value_head_count;
  for (int64_t sample = 0; sample < shape.sample_count; ++sample) {
    for (int head = 0; head < shape.head_count; ++head) {
      const int64_t at = static_cast<int64_t>(head) * shape.head_size;
      work(HeadOffsets{.query = sample * shape.query_sample_stride + at,
                       .key_value = sample * shape.key_value_sample_stride +
                                    static_cast<int64_t>(head / group) * shape.head_size,
                       .output = sample * shape.output_sample_stride + at,
                       .kept = (sample * shape.head_count + head) * shape.query_count});
    }
  }
}

}  // namespace

template <typename T>
void CpuAttention<T>::Forward(const AttentionShape& shape, const T* q, const T* k, const T* v,
                              T* output, T* kept) {
  weights_.resize(kBlock * shape.key_count);
  const T scale = T(1) / std::sqrt(static_cast<T>(shape.head_size));
  ForEachHead(shape, [&](const HeadOffsets& at) {
    ForEachBlock(shape, [&](const Block& block) {
      T* const out = output + at.output + block.first * shape.output_stride;
      if (block.key_count == 0) {
        for (int64_t i = 0; i < block.count; ++i) {
          std::fill_n(out + i * shape.output_stride, shape.head_size, T(0));
          kept[at.kept + block.first + i] = T(0);
        }
        return;
      }
      T* const weights = weights_.data();
      Multiply(CpuProduct<T>{.transposes_b = true,
                             .m = block.count,
                             .n = block.key_count,
                             .k = shape.head_size,
                             .a = q + at.query + block.first * shape.query_stride,
                             .a_stride = shape.query_stride,
                             .b = k + at.key_value,
                             .b_stride = shape.key_value_stride,
                             .c = weights,
                             .c_stride = block.key_count});
      for (int64_t i = 0; i < block.count; ++i) {
        T* const row = weights + i * block.key_count;
        const int64_t seen = std::min(block.key_count, SeenKeys(shape, block.first + i));
        T sum = T(1);
        T largest = T(0);
        if (seen > 0) {
          for (int64_t j = 0; j < seen; ++j) row[j] *= scale;
          largest = cpu_math::LargestOf(row, seen);
          for (int64_t j = 0; j < seen; ++j) row[j] = cpu_math::Exp(row[j] - largest);
          sum = cpu_math::SumOf<T>(seen, [&](int64_t j) { return row[j]; });
          const T share = T(1) / sum;
          for (int64_t j = 0; j < seen; ++j) row[j] *= share;
        }
        std::fill(row + seen, row + block.key_count, T(0));
        kept[at.kept + block.first + i] = largest + std::log(sum);
      }
      Multiply(CpuProduct<T>{.m = block.count,
                             .n = shape.head_size,
                             .k = block.key_count,
                             .a = weights,
                             .a_stride = block.key_count,
                             .b = v + at.key_value,
                             .b_stride = shape.key_value_stride,
                             .c = out,
                             .c_stride = shape.output_stride});
    });
  });
}

template <typename T>
void CpuAttention<T>::Backward(const AttentionShape& shape, const T* q, const T* k, const T* v,
                               const T* output, const T* kept, const T* output_gradient, T* dq,
                               T* dk, T* dv) {
  weights_.resize(kBlock * shape.key_count);
  gradients_.resize(kBlock * shape.key_count);
  const T scale = T(1) / std::sqrt(static_cast<T>(shape.head_size));
  const int64_t key_value_size = static_cast<int64_t>(shape.key_value_head_count) * shape.head_size;
  for (int64_t sample = 0; sample < shape.sample_count && !shape.adds_gradients; ++sample) {
    for (int64_t j = 0; j < shape.key_count; ++j) {
      const int64_t at = sample * shape.key_value_sample_stride + j * shape.key_value_stride;
      std::fill_n(dk + at, key_value_size, T(0));
      std::fill_n(dv + at, key_value_size, T(0));
    }
  }
  ForEachHead(shape, [&](const HeadOffsets& at) {
    ForEachBlock(shape, [&](const Block& block) {
      const int64_t query = at.query + block.first * shape.query_stride;
      const int64_t out = at.output + block.first * shape.output_stride;
      if (block.key_count == 0) {
        for (int64_t i = 0; i < block.count && !shape.adds_gradients; ++i) {
          std::fill_n(dq + query + i * shape.query_stride, shape.head_size, T(0));
        }
        return;
      }
      const CpuProduct<T> scores{.transposes_b = true,
                                 .m = block.count,
                                 .n = block.key_count,
                                 .k = shape.head_size,
                                 .a = q + query,
                                 .a_stride = shape.query_stride,
                                 .b = k + at.key_value,
                                 .b_stride = shape.key_value_stride,
                                 .c = weights_.data(),
                                 .c_stride = block.key_count};
      Multiply(scores);
      CpuProduct<T> weight_gradients = scores;
      weight_gradients.a = output_gradient + out;
      weight_gradients.a_stride = shape.output_stride;
      weight_gradients.b = v + at.key_value;
      weight_gradients.c = gradients_.data();
      Multiply(weight_gradients);
      for (int64_t i = 0; i < block.count; ++i) {
        T* const weight = weights_.data() + i * block.key_count;
        T* const gradient = gradients_.data() + i * block.key_count;
        const int64_t seen = std::min(block.key_count, SeenKeys(shape, block.first + i));
        const T logarithm = kept[at.kept + block.first + i];
        const T* const y = output + out + i * shape.output_stride;
        const T* const dy = output_gradient + out + i * shape.output_stride;
        // The part of the gradient that all weights of the row share, since they add up to 1.
        const T common =
            cpu_math::SumOf<T>(shape.head_size, [&](int64_t j) { return y[j] * dy[j]; });
        for (int64_t j = 0; j < seen; ++j) {
          weight[j] = cpu_math::Exp(weight[j] * scale - logarithm);
          gradient[j] = weight[j] * (gradient[j] - common) * scale;
        }
        std::fill(weight + seen, weight + block.key_count, T(0));
        std::fill(gradient + seen, gradient + block.key_count, T(0));
      }
      // dv += weights^T dy; dk += gradients^T q; dq = gradients k.
      CpuProduct<T> sum{.transposes_a = true,
                        .m = block.key_count,
                        .n = shape.head_size,
                        .k = block.count,
                        .a = weights_.data(),
                        .a_stride = block.key_count,
                        .b = output_gradient + out,
                        .b_stride = shape.output_stride,
                        .c = dv + at.key_value,
                        .c_stride = shape.key_value_stride,
                        .adds = true};
      Multiply(sum);
      sum.a = gradients_.data();
      sum.b = q + query;
      sum.b_stride = shape.query_stride;
      sum.c = dk + at.key_value;
      Multiply(sum);
      Multiply(CpuProduct<T>{.m = block.count,
                             .n = shape.head_size,
                             .k = block.key_count,
                             .a = gradients_.data(),
                             .a_stride = block.key_count,
                             .b = k + at.key_value,
                             .b_stride = shape.key_value_stride,
                             .c = dq + query,
                             .c_stride = shape.query_stride,
                             .adds = shape.adds_gradients});
    });
  });
}

template <typename T>
void CpuAttention<T>::Merge(const AttentionShape& shape, const T* part, const T* part_kept,
                            T* output, T* kept) {
  ForEachHead(shape, [&](const HeadOffsets& at) {
    for (int64_t i = 0; i < shape.query_count; ++i) {
      T& logarithm = kept[at.kept + i];
      const T other = part_kept[at.kept + i];
      const T largest = std::max(logarithm, other);
      const T sum = largest + std::log(std::exp(logarithm - largest) + std::exp(other - largest));
      const T weight = std::exp(logarithm - sum);
      const T part_weight = std::exp(other - sum);
      const int64_t row = at.output + i * shape.output_stride;
      for (int64_t j = 0; j < shape.head_size; ++j) {
        output[row + j] = output[row + j] * weight + part[row + j] * part_weight;
      }
      logarithm = sum;
    }
  });
}

template class CpuAttention<float>;
template class CpuAttention<double>;

}  // namespace parplan
