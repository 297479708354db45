#include "tests/support/allocation_count.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(__clang__)

namespace parplan {
std::optional<int64_t> AllocationCount() { return std::nullopt; }
}  // namespace parplan

#else

#include <cstddef>
#include <cstdlib>
#include <new>

namespace {
thread_local int64_t count = 0;
}  // namespace

void* operator new(std::size_t size) {
  ++count;
  if (void* const memory = std::malloc(size == 0 ? 1 : size)) return memory;
  std::abort();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace parplan {
std::optional<int64_t> AllocationCount() { return count; }
}  // namespace parplan

#endif
