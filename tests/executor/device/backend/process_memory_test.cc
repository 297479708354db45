#include "executor/device/backend/process_memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "executor/device/backend/context_memory.h"
#include "executor/device/kernels/kernel_libraries.h"
#include "executor/device/kernels/layer_kernels.h"

namespace parplan {
namespace {

TEST(PrivateMemoryOf, CountsThePagesThatWereWritten) {
  const int64_t page = ::sysconf(_SC_PAGESIZE);
  std::string path = testing::TempDir() + "/private memory-XXXXXX";
  const int file = ::mkstemp(path.data());
  ASSERT_GE(file, 0);
  ASSERT_EQ(::ftruncate(file, 8 * page), 0);
  EXPECT_EQ(PrivateMemoryOf(path), Bytes());
  void* const mapping =
      ::mmap(nullptr, 8 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, /*offset=*/0);
  ASSERT_NE(mapping, MAP_FAILED);
  auto* const bytes = static_cast<volatile char*>(mapping);
  // To read is not to have.
  int64_t sum = 0;
  for (int64_t k = 0; k < 8; ++k) sum += bytes[k * page];
  EXPECT_EQ(sum, 0);
  EXPECT_EQ(PrivateMemoryOf(path), Bytes());
  for (const int64_t k : {1, 3, 4}) bytes[k * page] = 'x';
  EXPECT_EQ(PrivateMemoryOf(path), Bytes::Of(3 * page));
  ::munmap(mapping, 8 * page);
  EXPECT_EQ(PrivateMemoryOf(path), Bytes());
  ::close(file);
  ::unlink(path.c_str());
}

TEST(PrivateMemoryOf, IsNothingOfAFileThatIsNotThere) {
  EXPECT_EQ(PrivateMemoryOf("/no/such/library.so"), Bytes());
}

TEST(CpuContextMemory, IsThatOfTheLibraryOfKernelsAlone) {
  if (CpuKernelLibraryPath().empty()) GTEST_SKIP() << "oneDNN is a part of this program";
  const Bytes before = CpuContextMemory();
  EXPECT_GT(before, Bytes());
  // Neither other memory of a program nor making kernels changes it.
  constexpr int64_t kSize = int64_t{16} << 20;
  const std::vector<char> filled(kSize, 'x');
  const std::unique_ptr<LayerKernels> kernels = MakeCpuKernels(ElementType::kFloat32);
  ASSERT_NE(kernels, nullptr);
  EXPECT_EQ(CpuContextMemory(), before) << filled[kSize / 2];
}

}  // namespace
}  // namespace parplan
