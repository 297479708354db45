#include "executor/device/cuda/matrix_products.h"

#include <algorithm>
#include <utility>

#include "executor/device/cuda/cuda_status.h"

namespace parplan::cuda {
namespace {

// Workspace of products, as NVIDIA recommends for Hopper.
constexpr size_t kWorkspaceBytes = size_t{32} << 20;

#define PARPLAN_RETURN_IF_CUBLAS_ERROR(call) PARPLAN_RETURN_IF_ERROR(CublasStatus(call, #call))

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
    ElementType type, const MatrixProduct& p, const Key& key) {
  auto choice = std::make_unique<Choice>();
  const cudaDataType_t data = type == ElementType::kFloat32 ? CUDA_R_32F : CUDA_R_16BF;
  PARPLAN_RETURN_IF_CUBLAS_ERROR(
      ::cublasLtMatmulDescCreate(&choice->operation, CUBLAS_COMPUTE_32F, CUDA_R_32F));
  const cublasOperation_t first = p.transposes_b ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasOperation_t second = p.transposes_a ? CUBLAS_OP_T : CUBLAS_OP_N;
  PARPLAN_RETURN_IF_CUBLAS_ERROR(::cublasLtMatmulDescSetAttribute(
      choice->operation, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof(first)));
  PARPLAN_RETURN_IF_CUBLAS_ERROR(::cublasLtMatmulDescSetAttribute(
      choice->operation, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof(second)));
  const auto make = [&](cublasLtMatrixLayout_t& layout, int64_t rows, int64_t columns) {
    return ::cublasLtMatrixLayoutCreate(&layout, data, static_cast<uint64_t>(rows),
                                        static_cast<uint64_t>(columns), rows);
  };
  PARPLAN_RETURN_IF_CUBLAS_ERROR(p.transposes_b ? make(choice->first, p.k, p.n)
                                                : make(choice->first, p.n, p.k));
  PARPLAN_RETURN_IF_CUBLAS_ERROR(p.transposes_a ? make(choice->second, p.m, p.k)
                                                : make(choice->second, p.k, p.m));
  PARPLAN_RETURN_IF_CUBLAS_ERROR(make(choice->result, p.n, p.m));

  cublasLtMatmulPreference_t preference = nullptr;
  PARPLAN_RETURN_IF_CUBLAS_ERROR(::cublasLtMatmulPreferenceCreate(&preference));
  const std::unique_ptr<cublasLtMatmulPreferenceOpaque_t,
                        cublasStatus_t (*)(cublasLtMatmulPreference_t)>
      owned(preference, ::cublasLtMatmulPreferenceDestroy);
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    return ::cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof(value));
  };
  PARPLAN_RETURN_IF_CUBLAS_ERROR(prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspaceBytes));
  const uint32_t a_alignment = static_cast<uint32_t>(std::get<7>(key));
  const uint32_t b_alignment = static_cast<uint32_t>(std::get<8>(key));
  const uint32_t c_alignment = static_cast<uint32_t>(std::get<9>(key));
  // The library's first matrix is our second.
  PARPLAN_RETURN_IF_CUBLAS_ERROR(prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, b_alignment));
  PARPLAN_RETURN_IF_CUBLAS_ERROR(prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, a_alignment));
  PARPLAN_RETURN_IF_CUBLAS_ERROR(prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, c_alignment));
  PARPLAN_RETURN_IF_CUBLAS_ERROR(prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, c_alignment));
  cublasLtMatmulHeuristicResult_t result = {};
  int found = 0;
  const cublasStatus_t status = ::cublasLtMatmulAlgoGetHeuristic(
      handle_, choice->operation, choice->first, choice->second, choice->result, choice->result,
      preference, 1, &result, &found);
  if (status != CUBLAS_STATUS_NOT_SUPPORTED) {
    PARPLAN_RETURN_IF_ERROR(CublasStatus(status, "cublasLtMatmulAlgoGetHeuristic"));
  }
  choice->is_known =
      status == CUBLAS_STATUS_SUCCESS && found > 0 && result.state == CUBLAS_STATUS_SUCCESS;
  choice->algorithm = result.algo;
  return choice;
}

absl::Status MatrixProducts::Multiply(ElementType type, const MatrixProduct& p,
                                      cudaStream_t stream) {
  const Key key(type, p.transposes_a, p.transposes_b, p.m, p.n, p.k, p.adds, AlignmentOf(p.a),
                AlignmentOf(p.b), AlignmentOf(p.c));
  auto found = choices_.find(key);
  if (found == choices_.end()) {
    PARPLAN_ASSIGN_OR_RETURN(std::unique_ptr<Choice> choice, Choose(type, p, key));
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
