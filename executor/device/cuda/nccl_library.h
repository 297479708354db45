// NCCL's functions. The library is looked for when a GPU is described, whose description has the
// release, or when the first group is made, and not when the plugin is loaded. A rank that is alone
// needs none, and a process that has loaded NCCL already, as one with PyTorch, goes on with that
// one.

#ifndef PARPLAN_EXECUTOR_DEVICE_CUDA_NCCL_LIBRARY_H_
#define PARPLAN_EXECUTOR_DEVICE_CUDA_NCCL_LIBRARY_H_

#include <nccl.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// The functions that the back end calls: `use` of each.
#define PARPLAN_NCCL_FUNCTIONS(use) \
  use(ncclAllGather);               \
  use(ncclAllReduce);               \
  use(ncclBroadcast);               \
  use(ncclCommAbort);               \
  use(ncclCommCount);               \
  use(ncclCommDestroy);             \
  use(ncclCommGetAsyncError);       \
  use(ncclCommInitRankConfig);      \
  use(ncclCommSplit);               \
  use(ncclCommUserRank);            \
  use(ncclGetErrorString);          \
  use(ncclGetLastError);            \
  use(ncclGetUniqueId);             \
  use(ncclGetVersion);              \
  use(ncclGroupEnd);                \
  use(ncclGroupStart);              \
  use(ncclRecv);                    \
  use(ncclReduceScatter);           \
  use(ncclSend)

namespace parplan::cuda {

// A function of each name, of the type that NCCL's header declares.
struct NcclLibrary {
#define PARPLAN_NCCL_MEMBER(name) decltype(&::name) name = nullptr
  PARPLAN_NCCL_FUNCTIONS(PARPLAN_NCCL_MEMBER);
#undef PARPLAN_NCCL_MEMBER
};

// Loads the library of that file name, which stays loaded; without a folder, one that the process
// has already, else as the loader finds it. Returns FAILED_PRECONDITION, one line with the loader's
// reason or the function that is missing, and with what to install.
absl::StatusOr<NcclLibrary> LoadNccl(const std::string& file);

// Loads libnccl.so.2 at the first call, and returns how that ended at every call. Any thread.
absl::Status OpenNccl();
// Returns its functions. REQUIRES: `OpenNccl` is OK; aborts otherwise.
const NcclLibrary& Nccl();

}  // namespace parplan::cuda

#endif  // PARPLAN_EXECUTOR_DEVICE_CUDA_NCCL_LIBRARY_H_
