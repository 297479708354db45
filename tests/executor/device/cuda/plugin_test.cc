// The real plugin: it loads, is of this build, and says in one line what the machine lacks.

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/executor/device/cuda/gpu.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;

// Neither is needed by a rank that is alone and computes in fp32. The first test: a description of
// a GPU asks both for their releases.
TEST(CudaPlugin, LoadsWithoutNcclAndCudnn) {
  static_cast<void>(LoadGpus());
  const char* const moved = std::getenv("PARPLAN_CUDA_PLUGIN");
  const char* const plugin = moved == nullptr ? PARPLAN_CUDA_PLUGIN_FILE : moved;
  EXPECT_NE(::dlopen(plugin, RTLD_NOW | RTLD_NOLOAD), nullptr) << ::dlerror();
  for (const char* const library : {"libnccl.so.2", "libcudnn.so.9"}) {
    EXPECT_EQ(::dlopen(library, RTLD_NOW | RTLD_NOLOAD), nullptr) << library;
  }
}

TEST(CudaPlugin, LoadsAndSaysWhatTheMachineLacks) {
  const absl::StatusOr<std::unique_ptr<DeviceBackend>> backend = LoadGpus();
  if (backend.ok()) {
    EXPECT_EQ((*backend)->name(), "cuda");
    EXPECT_GE((*backend)->device_count(), 1);
    ASSERT_OK_AND_ASSIGN(const DeviceFacts facts, (*backend)->Describe(0));
    EXPECT_THAT(facts.kind, Not(testing::IsEmpty()));
    EXPECT_GT(facts.memory, Bytes::Of(int64_t{1} << 30));
    return;
  }
  // Built, of this build, and with all its libraries: what is left is the machine.
  EXPECT_TRUE(IsReasonToSkip(backend.status())) << backend.status();
  EXPECT_THAT(backend.status(), StatusIs(absl::StatusCode::kUnavailable,
                                         AnyOf(HasSubstr("no driver"), HasSubstr("too old"),
                                               HasSubstr("no device"))));
  EXPECT_THAT(std::string(backend.status().message()), Not(HasSubstr("\n")));
}

// NVML, which the agent reads, knows one order only.
TEST(CudaPlugin, NumbersGpusInTheOrderOfTheirBusUnlessAnotherIsSet) {
  ::unsetenv("CUDA_DEVICE_ORDER");
  static_cast<void>(LoadGpus());
  EXPECT_STREQ(std::getenv("CUDA_DEVICE_ORDER"), "PCI_BUS_ID");
  ::setenv("CUDA_DEVICE_ORDER", "FASTEST_FIRST", /*overwrite=*/1);
  static_cast<void>(LoadGpus());
  EXPECT_STREQ(std::getenv("CUDA_DEVICE_ORDER"), "FASTEST_FIRST");
}

// Arrays are mapped for their own GPU alone (cuda_memory.cc).
TEST(CudaPlugin, KeepsNcclOutOfArraysOfOtherGpusOfTheProcess) {
  ::unsetenv("NCCL_P2P_DIRECT_DISABLE");
  static_cast<void>(LoadGpus());
  EXPECT_STREQ(std::getenv("NCCL_P2P_DIRECT_DISABLE"), "1");
}

}  // namespace
}  // namespace parplan
