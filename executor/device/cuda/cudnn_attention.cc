#include "executor/device/cuda/cudnn_attention.h"

#include <cuda_runtime_api.h>
#include <cudnn_frontend.h>
#include <dlfcn.h>

#include <array>
#include <cstdlib>
#include <exception>
#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "executor/device/cuda/cudnn_graph.h"

namespace cudnn_frontend {
// The library that the frontend looks functions up in; the program that includes it defines it.
void* cudnn_dlhandle = nullptr;
}  // namespace cudnn_frontend

namespace parplan::cuda {
namespace {

namespace fe = cudnn_frontend;

// Scores that deterministic gradients may keep before the ordered sum, which is slower, is taken.
// Not measured.
constexpr const char* kMaxScoreBytes = "268435456";
constexpr uintptr_t kAlignment = 16;

struct Loaded {
  int64_t version = 0;
  std::string reason;
};

Loaded LoadCudnn() {
  // The frontend looks for the runtime by name and takes version 12 first; it must be the one that
  // this plugin is linked with.
  static_cast<void>(::setenv("CUDNN_FRONTEND_CUDART_LIB_NAME",
                             absl::StrCat("libcudart.so.", CUDART_VERSION / 1000).c_str(), 0));
  static_cast<void>(::setenv("CUDNN_FRONTEND_ATTN_DP_WORKSPACE_LIMIT", kMaxScoreBytes, 0));
  Loaded loaded;
  // It stays loaded: the frontend keeps addresses of its functions.
  fe::cudnn_dlhandle = ::dlopen("libcudnn.so.9", RTLD_NOW | RTLD_LOCAL);
  if (fe::cudnn_dlhandle == nullptr) {
    const char* const error = ::dlerror();
    loaded.reason = error == nullptr ? "libcudnn.so.9 cannot be loaded" : error;
    return loaded;
  }
  if (::dlsym(fe::cudnn_dlhandle, "cudnnGetVersion") == nullptr ||
      ::dlsym(fe::cudnn_dlhandle, "cudnnBackendExecute") == nullptr) {
    loaded.reason = "libcudnn.so.9 lacks functions of cuDNN";
    return loaded;
  }
  loaded.version = static_cast<int64_t>(fe::detail::get_backend_version());
  return loaded;
}

const Loaded& TheCudnn() {
  static std::once_flag once;
  static Loaded* const loaded = new Loaded();
  std::call_once(once, [] {
    try {
      *loaded = LoadCudnn();
    } catch (const std::exception& error) {
      loaded->reason = error.what();
    }
  });
  return *loaded;
}

std::string Release(int64_t version) {
  return absl::StrCat(version / 10000, ".", version % 10000 / 100, ".", version % 100);
}

std::string Describe(const AttentionShape& shape, bool is_backward) {
  return absl::StrCat(is_backward ? "backward" : "forward", " attention of ", shape.sample_count,
                      " samples, ", shape.query_count, " queries, ", shape.key_count, " keys, ",
                      shape.head_count, "/", shape.key_value_head_count, " heads of ",
                      shape.head_size, shape.is_causal ? ", causal from " : "",
                      shape.is_causal ? absl::StrCat(shape.first_query) : "");
}

class CudnnAttention : public AttentionLibrary {
 public:
  CudnnAttention(bool is_deterministic, int compute_capability, cudnnHandle_t handle)
      : is_deterministic_(is_deterministic),
        compute_capability_(compute_capability),
        handle_(handle) {}
  ~CudnnAttention() override {
    graphs_.clear();
    if (workspace_ != nullptr) static_cast<void>(::cudaFree(workspace_));
    try {
      static_cast<void>(fe::detail::destroy_handle(handle_));
    } catch (const std::exception&) {
      // The process ends with it.
    }
  }

  bool Serves(const AttentionShape& shape, std::string& reason) override {
    if (shape.adds_gradients) {
      reason = "adds no gradients, as rings of context parallelism need it";
      return false;
    }
    for (const bool is_backward : {false, true}) {
      const size_t note_count = notes_.size();
      if (GraphOf(shape, shape, is_backward).graph != nullptr) continue;
      reason = notes_.size() > note_count ? absl::StrCat("refused it: ", notes_.back())
                                          : "has refused it before";
      return false;
    }
    return true;
  }

  bool Attention(const AttentionShape& shape, const void* q, const void* k, const void* v,
                 void* output, void* kept) override {
    std::unordered_map<int64_t, void*> arrays = {
        {kQ, Mutable(q)}, {kK, Mutable(k)}, {kV, Mutable(v)}, {kO, output}, {kStats, kept}};
    return Run(shape, shape, /*is_backward=*/false, arrays);
  }

  bool AttentionBackward(const AttentionShape& shape, const AttentionShape& gradients,
                         const void* q, const void* k, const void* v, const void* output,
                         const void* kept, const void* output_gradient, void* dq, void* dk,
                         void* dv) override {
    std::unordered_map<int64_t, void*> arrays = {{kQ, Mutable(q)},
                                                 {kK, Mutable(k)},
                                                 {kV, Mutable(v)},
                                                 {kO, Mutable(output)},
                                                 {kStats, Mutable(kept)},
                                                 {kDo, Mutable(output_gradient)},
                                                 {kDq, dq},
                                                 {kDk, dk},
                                                 {kDv, dv}};
    return Run(shape, gradients, /*is_backward=*/true, arrays);
  }

  std::vector<std::string> Notes() const override {
    std::vector<std::string> notes = {
        absl::StrCat("attention: cuDNN ", Release(TheCudnn().version), ", ",
                     is_deterministic_ ? "deterministic" : "fastest", " gradients, ",
                     served_counts_[0], " shapes forward and ", served_counts_[1],
                     " backward, workspace of ", workspace_bytes_, " bytes")};
    notes.insert(notes.end(), notes_.begin(), notes_.end());
    return notes;
  }

 private:
  // Notes that are kept; a program with more shapes than that has said enough.
  static constexpr size_t kMaxNotes = 32;

  static void* Mutable(const void* data) { return const_cast<void*>(data); }

  void Note(std::string note) {
    if (notes_.size() < kMaxNotes) notes_.push_back(std::move(note));
  }

  // Returns the graph of a shape, which it makes the first time.
  CudnnGraph& GraphOf(const AttentionShape& shape, const AttentionShape& gradients,
                      bool is_backward) {
    const GraphKey key = KeyOf(shape, gradients, is_backward);
    const auto found = graphs_.find(key);
    if (found != graphs_.end()) return found->second;
    return graphs_.emplace(key, Make(shape, gradients, is_backward)).first->second;
  }

  bool Run(const AttentionShape& shape, const AttentionShape& gradients, bool is_backward,
           std::unordered_map<int64_t, void*>& arrays) {
    if (shape.sample_count <= 0 || shape.query_count <= 0 || shape.key_count <= 0 ||
        shape.head_count <= 0) {
      return false;
    }
    CudnnGraph& graph = GraphOf(shape, gradients, is_backward);
    if (graph.graph == nullptr) return false;
    for (const auto& [uid, array] : arrays) {
      if (reinterpret_cast<uintptr_t>(array) % kAlignment == 0) continue;
      if (!std::exchange(noted_alignment_, true)) {
        Note(absl::StrCat(Describe(shape, is_backward), " by own kernels: array ", uid,
                          " is not aligned to 16 bytes"));
      }
      return false;
    }
    std::string reason;
    if (Grow(graph.workspace_bytes, reason)) {
      try {
        const fe::error_t error = graph.graph->execute(handle_, arrays, workspace_);
        if (error.is_good()) return true;
        reason = ShortMessage(error.err_msg);
      } catch (const std::exception& error) {
        reason = error.what();
      }
      // The next launch would take it for its own.
      static_cast<void>(::cudaGetLastError());
    }
    Note(absl::StrCat(Describe(shape, is_backward), " by own kernels from now on: ", reason));
    graph.graph = nullptr;
    return false;
  }

  bool Grow(int64_t byte_count, std::string& reason) {
    if (byte_count <= workspace_bytes_) return true;
    // The GPU may still use the old memory; cudaFree waits for it.
    if (workspace_ != nullptr) static_cast<void>(::cudaFree(std::exchange(workspace_, nullptr)));
    workspace_bytes_ = 0;
    const cudaError_t error = ::cudaMalloc(&workspace_, static_cast<size_t>(byte_count));
    if (error != cudaSuccess) {
      static_cast<void>(::cudaGetLastError());
      workspace_ = nullptr;
      reason = absl::StrCat("workspace of ", byte_count, " bytes: ", cudaGetErrorString(error));
      return false;
    }
    workspace_bytes_ = byte_count;
    return true;
  }

  CudnnGraph Make(const AttentionShape& shape, const AttentionShape& gradients, bool is_backward) {
    CudnnGraph graph;
    if (MaskOf(shape) == CudnnMask::kUnknown) {
      Note(absl::StrCat(Describe(shape, is_backward), " by own kernels: cuDNN has no such mask"));
      return graph;
    }
    std::string reasons;
    for (const bool is_deterministic : {true, false}) {
      if (is_deterministic && !(is_backward && is_deterministic_)) continue;
      std::string reason;
      try {
        reason = BuildGraph({shape, gradients, is_backward, is_deterministic, compute_capability_},
                            handle_, graph);
      } catch (const std::exception& error) {
        reason = error.what();
      }
      if (reason.empty()) {
        ++served_counts_[is_backward ? 1 : 0];
        if (!reasons.empty()) {
          Note(absl::StrCat(Describe(shape, is_backward), ": sums in no fixed order:", reasons));
        }
        return graph;
      }
      graph = CudnnGraph();
      absl::StrAppend(&reasons, " ", is_deterministic ? "deterministic: " : "", reason);
    }
    // An error of CUDA must not be taken for one of the next kernel.
    static_cast<void>(::cudaGetLastError());
    Note(absl::StrCat(Describe(shape, is_backward), " by own kernels:", reasons));
    return graph;
  }

  const bool is_deterministic_;
  // 90 for 9.0.
  const int compute_capability_;
  const cudnnHandle_t handle_;
  std::map<GraphKey, CudnnGraph> graphs_;
  void* workspace_ = nullptr;
  int64_t workspace_bytes_ = 0;
  // Shapes served, forward and backward.
  std::array<int, 2> served_counts_ = {};
  std::vector<std::string> notes_;
  bool noted_alignment_ = false;
};

// Returns the choice of the variable PARPLAN_ATTENTION.
AttentionChoice ChoiceOfEnvironment() {
  const char* const value = std::getenv("PARPLAN_ATTENTION");
  const std::string name = value == nullptr ? "" : value;
  if (name == "own") return AttentionChoice::kOwn;
  if (name == "cudnn-fast") return AttentionChoice::kCudnnFastest;
  return AttentionChoice::kCudnn;
}

}  // namespace

int64_t CudnnVersion(std::string& reason) {
  const Loaded& loaded = TheCudnn();
  reason = loaded.reason;
  return loaded.version;
}

std::unique_ptr<AttentionLibrary> MakeCudnnAttention(AttentionChoice choice, cudaStream_t stream,
                                                     std::string& reason) {
  if (choice == AttentionChoice::kAutomatic) choice = ChoiceOfEnvironment();
  if (choice == AttentionChoice::kOwn) {
    reason = "own kernels were asked for";
    return nullptr;
  }
  if (CudnnVersion(reason) == 0) return nullptr;
  int device = 0;
  int major = 0;
  int minor = 0;
  if (::cudaGetDevice(&device) != cudaSuccess ||
      ::cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) != cudaSuccess ||
      ::cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) != cudaSuccess) {
    static_cast<void>(::cudaGetLastError());
    reason = "CUDA does not say what the GPU can do";
    return nullptr;
  }
  try {
    cudnnHandle_t handle = nullptr;
    cudnnStatus_t status = fe::detail::create_handle(&handle);
    if (status != CUDNN_STATUS_SUCCESS) {
      static_cast<void>(::cudaGetLastError());
      reason = absl::StrCat("cudnnCreate: status ", static_cast<int>(status));
      return nullptr;
    }
    auto library = std::make_unique<CudnnAttention>(choice == AttentionChoice::kCudnn,
                                                    major * 10 + minor, handle);
    status = fe::detail::set_stream(handle, stream);
    if (status != CUDNN_STATUS_SUCCESS) {
      reason = absl::StrCat("cudnnSetStream: status ", static_cast<int>(status));
      return nullptr;
    }
    return library;
  } catch (const std::exception& error) {
    reason = error.what();
    return nullptr;
  }
}

}  // namespace parplan::cuda
