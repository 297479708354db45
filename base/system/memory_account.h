// Counts the memory that the threads of one piece of work take, so that it can end before it has
// too much. The server's `SearchPool` has an account for each search.
//
//   MemoryAccount account(int64_t{512} << 20);
//   const MemoryAccount::Scope scope(&account);  // counts what this thread allocates
//   while (!account.IsUsedUp()) Search();
//
// Memory is counted only in programs that link counted_new.cc (the server, not planctl) and are
// built without a sanitizer. In all others an account stays empty.

#ifndef PARPLAN_BASE_SYSTEM_MEMORY_ACCOUNT_H_
#define PARPLAN_BASE_SYSTEM_MEMORY_ACCOUNT_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>

namespace parplan {

// Bytes that threads allocated minus those that they freed while they counted for the account. A
// block counts with the size that the allocator gives it, which may be more than was asked for.
// `operator new` and `delete` count, also those of arrays. `malloc` does not count, nor do the
// operators of types with a larger alignment than `operator new` gives by itself. Memory stays
// counted if a thread that does not count for the account frees it. Nothing is refused up to the
// ceiling: the work has to ask whether the budget is used up. What it takes between two questions
// beyond the ceiling `operator new` refuses by std::bad_alloc. Safe to use from any thread.
class MemoryAccount {
 public:
  // The number of bytes that an account may have above its budget. Work that asks often stays far
  // below it.
  static constexpr int64_t kMostAbove = int64_t{64} << 20;

  // `budget` is the number of bytes above which the account is used up.
  explicit MemoryAccount(int64_t budget)
      : budget_(budget),
        ceiling_(std::min(budget, std::numeric_limits<int64_t>::max() / 2) + kMostAbove) {}

  MemoryAccount(const MemoryAccount&) = delete;
  MemoryAccount& operator=(const MemoryAccount&) = delete;

  // Returns the bytes counted so far. Each thread keeps its own until they are 64 KiB, above or
  // below 0, or until one of its scopes begins or ends, and then adds them to the account for which
  // they were counted. So the number may be wrong by up to 64 KiB a thread. May be below 0: a
  // thread may free what was allocated before it counted.
  int64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  // Returns the largest value that `bytes` ever had, at least 0.
  int64_t peak_bytes() const { return peak_bytes_.load(std::memory_order_relaxed); }
  // Return the bytes above which the account is used up, and whether it is used up now.
  int64_t budget() const { return budget_; }
  bool IsUsedUp() const { return bytes() > budget_; }

  // Returns the account that the calling thread counts for; null for none. A search asks it
  // whether its memory is used up, and helper threads (worker_threads.h) count for the account of
  // the thread that gave them work. The pointer is valid while the scope that set it lives.
  static MemoryAccount* OfThread();

  // Returns whether the account of the calling thread, if it has one, may take `bytes` more. Called
  // by `operator new`.
  static bool MayTake(int64_t bytes);

  // Counts bytes for the account of the calling thread, if it has one; below 0 when they are freed.
  // Called by `operator new` and `operator delete`, so it allocates nothing.
  static void Count(int64_t bytes);

  // Lets the calling thread count for an account while the scope lives, and afterwards for the
  // account before it. REQUIRES, unchecked: the scope ends on the thread that began it, and the
  // scopes of a thread end in the reverse order of their beginning.
  class Scope {
   public:
    // The account, which may be null for none, outlives the scope.
    explicit Scope(MemoryAccount* account);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    MemoryAccount* const before_;
  };

 private:
  void Add(int64_t bytes);

  const int64_t budget_;
  const int64_t ceiling_;
  std::atomic<int64_t> bytes_ = 0;
  std::atomic<int64_t> peak_bytes_ = 0;
};

// Returns to the system the memory that this process has freed, which the allocator would keep.
// Takes about ten milliseconds for a gigabyte.
void ReturnFreedMemory();

}  // namespace parplan

#endif  // PARPLAN_BASE_SYSTEM_MEMORY_ACCOUNT_H_
