#include "executor/device/cuda/nccl_library.h"

#include <dlfcn.h>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace parplan::cuda {
namespace {

constexpr char kRemedy[] =
    "; groups of several GPUs need NCCL 2.18 or later: install it (libnccl2, or nvidia-nccl-cu13 "
    "as with PyTorch), or name its folder in LD_LIBRARY_PATH";

const absl::StatusOr<NcclLibrary>& TheNccl() {
  static const auto* const library = new absl::StatusOr<NcclLibrary>(LoadNccl("libnccl.so.2"));
  return *library;
}

}  // namespace

absl::StatusOr<NcclLibrary> LoadNccl(const std::string& file) {
  void* const handle = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) {
    const char* const why = ::dlerror();
    return absl::FailedPreconditionError(absl::StrCat(
        file, " cannot be loaded: ", why == nullptr ? "the loader says no more" : why, kRemedy));
  }
  NcclLibrary library;
#define PARPLAN_NCCL_FIND(name)                                                          \
  library.name = reinterpret_cast<decltype(library.name)>(::dlsym(handle, #name));       \
  if (library.name == nullptr) {                                                         \
    return absl::FailedPreconditionError(absl::StrCat(file, " has no " #name, kRemedy)); \
  }
  PARPLAN_NCCL_FUNCTIONS(PARPLAN_NCCL_FIND);
#undef PARPLAN_NCCL_FIND
  return library;
}

absl::Status OpenNccl() { return TheNccl().status(); }

const NcclLibrary& Nccl() {
  PARPLAN_CHECK(TheNccl().ok());
  return *TheNccl();
}

}  // namespace parplan::cuda
