// Softmax attention on the processor, a block of queries at a time, so that memory grows with the
// sequence and not with its square: the backward pass recomputes the weights from the logarithms of
// their sums (Dao et al. 2022, section 3). Part of the processor's kernels (cpu_kernels.cc).

#ifndef PARPLAN_EXECUTOR_DEVICE_KERNELS_CPU_ATTENTION_H_
#define PARPLAN_EXECUTOR_DEVICE_KERNELS_CPU_ATTENTION_H_

#include <vector>

#include "executor/device/kernels/layer_kernels.h"

namespace parplan {

// `Forward`, `Backward` and `Merge` implement `LayerKernels::Attention`, `AttentionBackward` and
// `MergeAttention`, with their arguments. T: float or double. Used by one thread.
template <typename T>
class CpuAttention {
 public:
  // Computes attention, and in `kept` what the backward pass needs: [sample][head][query]
  // logarithms of the sums of exponentials.
  void Forward(const AttentionShape& shape, const T* q, const T* k, const T* v, T* output, T* kept);
  // Computes the gradients of queries, keys and values; adds them if `shape.adds_gradients`.
  void Backward(const AttentionShape& shape, const T* q, const T* k, const T* v, const T* output,
                const T* kept, const T* output_gradient, T* dq, T* dk, T* dv);
  // Merges attention to further keys into `output` and `kept`.
  static void Merge(const AttentionShape& shape, const T* part, const T* part_kept, T* output,
                    T* kept);

 private:
  // [query of the block x key] attention weights and their gradients.
  std::vector<T> weights_;
  std::vector<T> gradients_;
};

extern template class CpuAttention<float>;
extern template class CpuAttention<double>;

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_DEVICE_KERNELS_CPU_ATTENTION_H_
