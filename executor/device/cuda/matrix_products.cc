#include "executor/device/cuda/matrix_products.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "executor/device/cuda/cuda_status.h"

namespace parplan::cuda {
namespace {

// Workspace of products, as NVIDIA recommends for Hopper.
constexpr size_t kWorkspaceBytes = size_t{32} << 20;

// Algorithms of bf16 that are timed at the first product of a shape, and runs of each: some
// milliseconds a shape. Not measured.
constexpr int kMaxCandidates = 8;
constexpr int kRuns = 3;
// An algorithm that is faster by less than this is not taken: times of one algorithm differ as
// much. Not measured.
constexpr float kMinGain = 0.02f;

#define PARPLAN_RETURN_IF_CUBLAS_ERROR(call) PARPLAN_RETURN_IF_ERROR(CublasStatus(call, #call))

cudaDataType_t DataType(ElementType type) {
  return type == ElementType::kFloat32 ? CUDA_R_32F : CUDA_R_16BF;
}

// Returns the type of the elements of c.
ElementType ResultType(ElementType type, const MatrixProduct& product) {
  return product.widens ? ElementType::kFloat32 : type;
}

// Returns the largest power of two up to 256 that divides the address.
int AlignmentOf(const void* data) {
  const auto address = reinterpret_cast<uintptr_t>(data);
  int alignment = 256;
  while (address % alignment != 0) alignment /= 2;
  return alignment;
}

}  // namespace

struct MatrixProducts::Choice {
  ~Choice() {
    for (const cublasLtMatrixLayout_t layout : {first, second, result}) {
      if (layout != nullptr) static_cast<void>(::cublasLtMatrixLayoutDestroy(layout));
    }
    if (operation != nullptr) static_cast<void>(::cublasLtMatmulDescDestroy(operation));
  }
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t first = nullptr;
  cublasLtMatrixLayout_t second = nullptr;
  cublasLtMatrixLayout_t result = nullptr;
  cublasLtMatmulAlgo_t algorithm = {};
  // Whether the library has an algorithm.
  bool is_known = false;
};

absl::StatusOr<std::unique_ptr<MatrixProducts>> MatrixProducts::Create() {
  std::unique_ptr<MatrixProducts> products(new MatrixProducts());
  PARPLAN_RETURN_IF_CUBLAS_ERROR(::cublasLtCreate(&products->handle_));
  PARPLAN_RETURN_IF_CUDA_ERROR(::cudaMalloc(&products->workspace_, kWorkspaceBytes));
  return products;
}

MatrixProducts::~MatrixProducts() {
  choices_.clear();
  if (workspace_ != nullptr) static_cast<void>(::cudaFree(workspace_));
  if (handle_ != nullptr) static_cast<void>(::cublasLtDestroy(handle_));
}

// Chooses an algorithm. The library's matrices are column-major, so it computes c' = op(b)' op(a)':
// a row-major matrix is the column-major transpose.
absl::StatusOr<std::unique_ptr<MatrixProducts::Choice>> MatrixProducts::Choose(
    ElementType type, const MatrixProduct& p, const Key& key, cudaStream_t stream) {
  auto choice = std::make_unique<Choice>();
  const cudaDataType_t data = DataType(type);
  PARPLAN_RETURN_IF_CUBLAS_ERROR(
      ::cublasLtMatmulDescCreate(&choice->operation, CUBLAS_COMPUTE_32F, CUDA_R_32F));
  const cublasOperation_t first = p.transposes_b ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasOperation_t second = p.transposes_a ? CUBLAS_OP_T : CUBLAS_OP_N;
  PARPLAN_RETURN_IF_CUBLAS_ERROR(::cublasLtMatmulDescSetAttribute(
      choice->operation, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof(first)));
  PARPLAN_RETURN_IF_CUBLAS_ERROR(::cublasLtMatmulDescSetAttribute(
      choice->operation, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof(second)));
  const auto make = [](cublasLtMatrixLayout_t& layout, cudaDataType_t data, int64_t rows,
                       int64_t columns) {
    return ::cublasLtMatrixLayoutCreate(&layout, data, static_cast<uint64_t>(rows),
                                        static_cast<uint64_t>(columns), rows);
  };
  PARPLAN_RETURN_IF_CUBLAS_ERROR(p.transposes_b ? make(choice->first, data, p.k, p.n)
                                                : make(choice->first, data, p.n, p.k));
  PARPLAN_RETURN_IF_CUBLAS_ERROR(p.transposes_a ? make(choice->second, data, p.m, p.k)
                                                : make(choice->second, data, p.k, p.m));
  PARPLAN_RETURN_IF_CUBLAS_ERROR(make(choice->result, DataType(ResultType(type, p)), p.n, p.m));

  cublasLtMatmulPreference_t preference = nullptr;
  PARPLAN_RETURN_IF_CUBLAS_ERROR(::cublasLtMatmulPreferenceCreate(&preference));
  const std::unique_ptr<cublasLtMatmulPreferenceOpaque_t,
                        cublasStatus_t (*)(cublasLtMatmulPreference_t)>
      owned(preference, ::cublasLtMatmulPreferenceDestroy);
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    return ::cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof(value));
  };
  PARPLAN_RETURN_IF_CUBLAS_ERROR(prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspaceBytes));
  const uint32_t a_alignment = static_cast<uint32_t>(std::get<8>(key));
  const uint32_t b_alignment = static_cast<uint32_t>(std::get<9>(key));
  const uint32_t c_alignment = static_cast<uint32_t>(std::get<10>(key));
  // The library's first matrix is our second.
  PARPLAN_RETURN_IF_CUBLAS_ERROR(prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, b_alignment));
  PARPLAN_RETURN_IF_CUBLAS_ERROR(prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, a_alignment));
  PARPLAN_RETURN_IF_CUBLAS_ERROR(prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, c_alignment));
  PARPLAN_RETURN_IF_CUBLAS_ERROR(prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, c_alignment));
  std::array<cublasLtMatmulHeuristicResult_t, kMaxCandidates> results = {};
  int found = 0;
  const cublasStatus_t status = ::cublasLtMatmulAlgoGetHeuristic(
      handle_, choice->operation, choice->first, choice->second, choice->result, choice->result,
      preference, type == ElementType::kBfloat16 ? kMaxCandidates : 1, results.data(), &found);
  if (status != CUBLAS_STATUS_NOT_SUPPORTED) {
    PARPLAN_RETURN_IF_ERROR(CublasStatus(status, "cublasLtMatmulAlgoGetHeuristic"));
  }
  std::vector<cublasLtMatmulAlgo_t> candidates;
  if (status == CUBLAS_STATUS_SUCCESS) {
    for (int i = 0; i < found; ++i) {
      if (results[i].state == CUBLAS_STATUS_SUCCESS) candidates.push_back(results[i].algo);
    }
  }
  choice->is_known = !candidates.empty();
  if (choice->is_known) choice->algorithm = candidates.front();
  if (candidates.size() > 1) ChooseFastest(type, p, candidates, *choice, stream);
  return choice;
}

// Keeps the first candidate, which the library holds for the best, unless another is measured to be
// faster by kMinGain; whatever goes wrong leaves it at that.
void MatrixProducts::ChooseFastest(ElementType type, const MatrixProduct& p,
                                   const std::vector<cublasLtMatmulAlgo_t>& candidates,
                                   Choice& choice, cudaStream_t stream) {
  // The result must stay as it is.
  void* result = nullptr;
  const auto size = static_cast<size_t>(p.m * p.n * ElementSize(ResultType(type, p)));
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  const float one = 1.0f;
  const auto run = [&](const cublasLtMatmulAlgo_t& algorithm) {
    // Adds to nothing where products add, so that the result is read as it is later.
    const float before = p.adds ? 1.0f : 0.0f;
    return ::cublasLtMatmul(handle_, choice.operation, &one, p.b, choice.first, p.a, choice.second,
                            &before, result, choice.result, result, choice.result, &algorithm,
                            workspace_, kWorkspaceBytes, stream) == CUBLAS_STATUS_SUCCESS;
  };
  // Returns the best of some runs, infinite if there is none.
  const auto measure = [&](const cublasLtMatmulAlgo_t& algorithm) {
    float best = std::numeric_limits<float>::infinity();
    for (int i = 0; i < kRuns; ++i) {
      float milliseconds = 0.0f;
      if (::cudaEventRecord(begin, stream) != cudaSuccess || !run(algorithm) ||
          ::cudaEventRecord(end, stream) != cudaSuccess ||
          ::cudaEventSynchronize(end) != cudaSuccess ||
          ::cudaEventElapsedTime(&milliseconds, begin, end) != cudaSuccess) {
        break;
      }
      best = std::min(best, milliseconds);
    }
    return best;
  };
  if (::cudaMalloc(&result, size) == cudaSuccess && ::cudaEventCreate(&begin) == cudaSuccess &&
      ::cudaEventCreate(&end) == cudaSuccess &&
      ::cudaMemsetAsync(result, 0, size, stream) == cudaSuccess) {
    // The GPU has a clock to reach.
    measure(candidates.front());
    float best = measure(candidates.front()) * (1.0f - kMinGain);
    for (size_t i = 1; i < candidates.size(); ++i) {
      const float time = measure(candidates[i]);
      if (time >= best) continue;
      best = time;
      choice.algorithm = candidates[i];
    }
  }
  static_cast<void>(::cudaStreamSynchronize(stream));
  if (begin != nullptr) static_cast<void>(::cudaEventDestroy(begin));
  if (end != nullptr) static_cast<void>(::cudaEventDestroy(end));
  if (result != nullptr) static_cast<void>(::cudaFree(result));
  // A failed allocation must not be taken for an error of a kernel.
  static_cast<void>(::cudaGetLastError());
}

absl::Status MatrixProducts::Multiply(ElementType type, const MatrixProduct& p,
                                      cudaStream_t stream) {
  const Key key(type, ResultType(type, p), p.transposes_a, p.transposes_b, p.m, p.n, p.k, p.adds,
                AlignmentOf(p.a), AlignmentOf(p.b), AlignmentOf(p.c));
  auto found = choices_.find(key);
  if (found == choices_.end()) {
    PARPLAN_ASSIGN_OR_RETURN(std::unique_ptr<Choice> choice, Choose(type, p, key, stream));
    found = choices_.emplace(key, std::move(choice)).first;
  }
  const Choice& choice = *found->second;
  if (!choice.is_known) {
    return absl::UnimplementedError(
        absl::StrCat("cuBLASLt has no algorithm for ", p.m, " x ", p.n, " x ", p.k));
  }
  const float one = 1.0f;
  const float before = p.adds ? 1.0f : 0.0f;
  return CublasStatus(
      ::cublasLtMatmul(handle_, choice.operation, &one, p.b, choice.first, p.a, choice.second,
                       &before, p.c, choice.result, p.c, choice.result, &choice.algorithm,
                       workspace_, kWorkspaceBytes, stream),
      "cublasLtMatmul");
}

}  // namespace parplan::cuda
