// Matrix products on the processor. Part of the processor's kernels (cpu_kernels.cc,
// cpu_attention.cc).

#ifndef PARPLAN_EXECUTOR_DEVICE_KERNELS_CPU_PRODUCT_H_
#define PARPLAN_EXECUTOR_DEVICE_KERNELS_CPU_PRODUCT_H_

#include <cstdint>

namespace parplan {

// The product c = op(a) op(b), or c += op(a) op(b): op(a) is [m x k], op(b) [k x n], c [m x n]. A
// stride is the number of elements from one row in memory to the next. REQUIRES: no stride is below
// the elements of its row; for float aborts otherwise, for double unchecked. REQUIRES, unchecked: k
// is above 0, and `c` overlaps neither `a` nor `b`. If m or n is 0, nothing is computed.
template <typename T>
struct CpuProduct {
  // Whether op takes the transpose of the matrix in memory.
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
  // Whether the product is added to `c`, which then holds values.
  bool adds = false;
};

// Computes the product with oneDNN, on one thread after UseOneThreadForProducts on this thread.
void Multiply(const CpuProduct<float>& product);
// Computes the product with Eigen.
void Multiply(const CpuProduct<double>& product);

// Makes products of the calling thread start no threads from now on: oneDNN's threads would spin
// against the other ranks of the machine.
void UseOneThreadForProducts();

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_DEVICE_KERNELS_CPU_PRODUCT_H_
