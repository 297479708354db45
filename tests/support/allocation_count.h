// How often a program allocates.

#ifndef PARPLAN_TESTS_SUPPORT_ALLOCATION_COUNT_H_
#define PARPLAN_TESTS_SUPPORT_ALLOCATION_COUNT_H_

#include <cstdint>
#include <optional>

namespace parplan {

// Calls of `operator new` of this thread so far; nothing under sanitizers, which
// bring their own allocator.
std::optional<int64_t> AllocationCount();

}  // namespace parplan

#endif  // PARPLAN_TESTS_SUPPORT_ALLOCATION_COUNT_H_
