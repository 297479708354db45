#include "tests/support/failing_allocations.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <new>

namespace {

// Allocations of this thread that succeed before one fails.
constexpr int64_t kAll = std::numeric_limits<int64_t>::max();
thread_local int64_t allocations_left = kAll;

void* Allocate(std::size_t size) noexcept {
  if (allocations_left != kAll && --allocations_left < 0) {
    allocations_left = kAll;
    return nullptr;
  }
  return std::malloc(size == 0 ? 1 : size);
}

}  // namespace

[[gnu::noinline]] void* operator new(std::size_t size) {
  if (void* const memory = Allocate(size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t& /*tag*/) noexcept {
  return Allocate(size);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t /*size*/) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, const std::nothrow_t& /*tag*/) noexcept {
  std::free(memory);
}

// Debian's libprotobuf loses the element that it was making when an allocation fails: 704 bytes in
// all failures of an upload. LeakSanitizer finds this function by its name.
extern "C" const char* __lsan_default_suppressions();

extern "C" const char* __lsan_default_suppressions() { return "leak:google::protobuf::\n"; }

namespace parplan {
namespace {

// How one run with a failing allocation ended.
enum class Outcome { kTook, kRefused, kNoMemory };

Outcome ParseWith(const Parser& parser, int64_t allocation_count) {
  allocations_left = allocation_count;
  Outcome outcome = Outcome::kNoMemory;
  try {
    outcome = parser.parse() ? Outcome::kTook : Outcome::kRefused;
  } catch (const std::bad_alloc&) {
  }
  return outcome;
}

}  // namespace

void ExpectToOutliveFailingAllocations(const Parser& parser) {
  SCOPED_TRACE(parser.name);
  ASSERT_EQ(ParseWith(parser, kAll), Outcome::kTook);
  int64_t count = 0;
  int64_t without_memory = 0;
  while (true) {
    const Outcome outcome = ParseWith(parser, count);
    const bool failed = allocations_left == kAll;
    allocations_left = kAll;
    // Fewer allocations than were allowed: none failed.
    if (!failed) {
      EXPECT_EQ(outcome, Outcome::kTook);
      break;
    }
    without_memory += outcome == Outcome::kNoMemory ? 1 : 0;
    ++count;
    // The next call has its memory again.
    ASSERT_EQ(ParseWith(parser, kAll), Outcome::kTook) << count;
  }
  EXPECT_GT(without_memory, 0);
}

}  // namespace parplan
