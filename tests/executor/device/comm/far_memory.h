// Memory that only copies can reach, as that of a GPU: its addresses are none of the process,
// so whoever touches it ends there.

#ifndef PARPLAN_TESTS_EXECUTOR_DEVICE_COMM_FAR_MEMORY_H_
#define PARPLAN_TESTS_EXECUTOR_DEVICE_COMM_FAR_MEMORY_H_

#include <cstdint>
#include <cstring>

#include "executor/device/comm/staged_communicator.h"

namespace parplan {

// No address of x86-64 or AArch64 has it.
inline constexpr uintptr_t kFarBit = uintptr_t{1} << 55;

template <typename T>
T* Far(T* near) {
  if (near == nullptr) return nullptr;
  return reinterpret_cast<T*>(reinterpret_cast<uintptr_t>(near) | kFarBit);
}
template <typename T>
T* Near(T* far) {
  return reinterpret_cast<T*>(reinterpret_cast<uintptr_t>(far) & ~kFarBit);
}
template <typename T>
bool IsFar(T* pointer) {
  return (reinterpret_cast<uintptr_t>(pointer) & kFarBit) != 0;
}

class FarCopies : public StagingCopies {
 public:
  absl::Status ToHost(const void* device, void* host, int64_t byte_count) override {
    if (!IsFar(device) || IsFar(host)) return absl::InternalError("copied from the wrong side");
    std::memcpy(host, Near(device), static_cast<size_t>(byte_count));
    return absl::OkStatus();
  }
  absl::Status FromHost(const void* host, void* device, int64_t byte_count) override {
    if (!IsFar(device) || IsFar(host)) return absl::InternalError("copied to the wrong side");
    if (fails) return absl::InternalError("the copy failed");
    std::memcpy(Near(device), host, static_cast<size_t>(byte_count));
    return absl::OkStatus();
  }
  // Whether copies to the device do.
  bool fails = false;
};

}  // namespace parplan

#endif  // PARPLAN_TESTS_EXECUTOR_DEVICE_COMM_FAR_MEMORY_H_
