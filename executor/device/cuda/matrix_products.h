// Matrix products by cuBLASLt, which is asked for its best algorithms once per shape; those of bf16
// are timed then. `CudaQueue` has one.

#ifndef PARPLAN_EXECUTOR_DEVICE_CUDA_MATRIX_PRODUCTS_H_
#define PARPLAN_EXECUTOR_DEVICE_CUDA_MATRIX_PRODUCTS_H_

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/device/kernels/layer_kernels.h"

namespace parplan::cuda {

// The products of one device, used by its thread: fp32 (without TF32) and bf16, summed in fp32.
class MatrixProducts {
 public:
  // Takes 32 MiB of the thread's current device as workspace. RESOURCE_EXHAUSTED without memory,
  // else INTERNAL.
  static absl::StatusOr<std::unique_ptr<MatrixProducts>> Create();
  ~MatrixProducts();
  MatrixProducts(const MatrixProducts&) = delete;
  MatrixProducts& operator=(const MatrixProducts&) = delete;

  // Starts a product on `stream`. The first one of a shape in bf16 waits for the stream, and takes
  // memory for a second result meanwhile; without that memory it is not timed, and the library's
  // first choice is taken. A shape has the alignment of its arrays, too. UNIMPLEMENTED if the
  // library has no algorithm for the shape, then nothing is started; INTERNAL for its other errors.
  // REQUIRES, unchecked: m, n and k are above 0.
  absl::Status Multiply(ElementType type, const MatrixProduct& product, cudaStream_t stream);

 private:
  // Types of a and b, and of c, transpositions, m, n, k, whether it adds, and the alignments of a,
  // b and c.
  using Key = std::tuple<ElementType, ElementType, bool, bool, int64_t, int64_t, int64_t, bool, int,
                         int, int>;
  struct Choice;

  MatrixProducts() = default;
  absl::StatusOr<std::unique_ptr<Choice>> Choose(ElementType type, const MatrixProduct& product,
                                                 const Key& key, cudaStream_t stream);
  void ChooseFastest(ElementType type, const MatrixProduct& product,
                     const std::vector<cublasLtMatmulAlgo_t>& candidates, Choice& choice,
                     cudaStream_t stream);

  cublasLtHandle_t handle_ = nullptr;
  void* workspace_ = nullptr;
  std::map<Key, std::unique_ptr<Choice>> choices_;
};

}  // namespace parplan::cuda

#endif  // PARPLAN_EXECUTOR_DEVICE_CUDA_MATRIX_PRODUCTS_H_
