#include "executor/device/kernels/cpu_product.h"

#include <dnnl.h>

#include <Eigen/Core>

#include "base/check.h"

// Declared here, since the header that Clang finds may be that of another OpenMP than the one that
// oneDNN runs on (cmake/FindGomp.cmake).
extern "C" void omp_set_num_threads(int count);

namespace parplan {

void UseOneThreadForProducts() { ::omp_set_num_threads(1); }

void Multiply(const CpuProduct<float>& p) {
  if (p.m == 0 || p.n == 0) return;
  const dnnl_status_t status = ::dnnl_sgemm(
      p.transposes_a ? 'T' : 'N', p.transposes_b ? 'T' : 'N', p.m, p.n, p.k, /*alpha=*/1.0f, p.a,
      p.a_stride, p.b, p.b_stride, /*beta=*/p.adds ? 1.0f : 0.0f, p.c, p.c_stride);
  // The call only fails if a stride is less than a row.
  PARPLAN_CHECK(status == dnnl_success);
}

void Multiply(const CpuProduct<double>& p) {
  using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  using Stride = Eigen::OuterStride<>;
  using In = Eigen::Map<const Matrix, 0, Stride>;
  const In a(p.a, p.transposes_a ? p.k : p.m, p.transposes_a ? p.m : p.k, Stride(p.a_stride));
  const In b(p.b, p.transposes_b ? p.n : p.k, p.transposes_b ? p.k : p.n, Stride(p.b_stride));
  Eigen::Map<Matrix, 0, Stride> c(p.c, p.m, p.n, Stride(p.c_stride));
  if (!p.adds) c.setZero();
  if (p.transposes_a && p.transposes_b) {
    c.noalias() += a.transpose() * b.transpose();
  } else if (p.transposes_a) {
    c.noalias() += a.transpose() * b;
  } else if (p.transposes_b) {
    c.noalias() += a * b.transpose();
  } else {
    c.noalias() += a * b;
  }
}

}  // namespace parplan
