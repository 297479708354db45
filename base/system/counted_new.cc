// The `operator new` and `operator delete` of programs that count memory (memory_account.h). A
// source of the program itself: a library's would not replace those of the standard library. Blocks
// with a larger alignment than usual are not counted. Sanitizers have operators of their own.

#include "base/system/memory_account.h"

// GCC defines macros for its sanitizers, Clang has features.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PARPLAN_HAS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
    __has_feature(memory_sanitizer)
#define PARPLAN_HAS_SANITIZER 1
#endif
#endif

#ifndef PARPLAN_HAS_SANITIZER

#include <malloc.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

void* operator new(std::size_t size) {
  if (!parplan::MemoryAccount::MayTake(static_cast<int64_t>(size))) throw std::bad_alloc();
  while (true) {
    if (void* const memory = std::malloc(size == 0 ? 1 : size)) {
      if (parplan::MemoryAccount::OfThread() != nullptr) {
        parplan::MemoryAccount::Count(static_cast<int64_t>(malloc_usable_size(memory)));
      }
      return memory;
    }
    const std::new_handler handler = std::get_new_handler();
    if (handler == nullptr) throw std::bad_alloc();
    handler();
  }
}

void operator delete(void* memory) noexcept {
  if (memory != nullptr && parplan::MemoryAccount::OfThread() != nullptr) {
    parplan::MemoryAccount::Count(-static_cast<int64_t>(malloc_usable_size(memory)));
  }
  std::free(memory);
}

void operator delete(void* memory, std::size_t) noexcept { operator delete(memory); }

#endif
