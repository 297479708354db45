// Matrix products on the processor.

#ifndef PARPLAN_EXECUTOR_DEVICE_KERNELS_CPU_PRODUCT_H_
#define PARPLAN_EXECUTOR_DEVICE_KERNELS_CPU_PRODUCT_H_

#include <cstdint>

namespace parplan {

// c = op(a) op(b), or c + that; strides are elements from one row of the matrix as it lies
// in memory to the next. On one thread.
template <typename T>
struct CpuProduct {
  bool transposes_a = false;
  bool transposes_b = false;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  const T* a = nullptr;
  int64_t a_stride = 0;
  const T* b = nullptr;
  int64_t b_stride = 0;
  T* c = nullptr;
  int64_t c_stride = 0;
  bool adds = false;
};

// By oneDNN.
void Multiply(const CpuProduct<float>& product);
// By Eigen.
void Multiply(const CpuProduct<double>& product);

// oneDNN's threads would spin against other ranks of the machine: none are started by
// products of the calling thread after this.
void UseOneThreadForProducts();

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_DEVICE_KERNELS_CPU_PRODUCT_H_
