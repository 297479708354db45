// The machine's first GPU, for tests that need one.

#ifndef PARPLAN_TESTS_EXECUTOR_DEVICE_CUDA_GPU_H_
#define PARPLAN_TESTS_EXECUTOR_DEVICE_CUDA_GPU_H_

#include <cstdlib>
#include <memory>
#include <string>

#include "executor/device/backend/load_backend.h"

namespace parplan {

// Loads the plugin of this build, or the one that PARPLAN_CUDA_PLUGIN names, by which a test that
// was moved to another machine finds it. Its error is a test's reason to skip.
inline absl::StatusOr<std::unique_ptr<DeviceBackend>> LoadGpus(
    GroupTransport groups = GroupTransport::kAutomatic,
    AttentionChoice attention = AttentionChoice::kAutomatic) {
  const char* const moved = std::getenv("PARPLAN_CUDA_PLUGIN");
  return LoadBackend("cuda", {.plugin = moved == nullptr ? PARPLAN_CUDA_PLUGIN_FILE : moved,
                              .groups = groups,
                              .attention = attention});
}

// Only where the machine has none: anything else that is wrong with the plugin is a failure.
inline bool IsReasonToSkip(const absl::Status& status) {
  const std::optional<BackendFault> fault = GetBackendFault(status);
  return fault == BackendFault::kNoDriver || fault == BackendFault::kDriverTooOld ||
         fault == BackendFault::kNoDevice;
}

}  // namespace parplan

// In a test: its GPUs as `backend`, or the reason why it is skipped.
#define PARPLAN_GPUS_OR_SKIP(backend, ...)                           \
  auto backend##_or = LoadGpus(__VA_ARGS__);                         \
  if (!backend##_or.ok() && IsReasonToSkip(backend##_or.status())) { \
    GTEST_SKIP() << backend##_or.status().message();                 \
  }                                                                  \
  ASSERT_TRUE(backend##_or.ok()) << backend##_or.status();           \
  const std::unique_ptr<DeviceBackend> backend = *std::move(backend##_or)

#endif  // PARPLAN_TESTS_EXECUTOR_DEVICE_CUDA_GPU_H_
