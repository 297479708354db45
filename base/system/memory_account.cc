#include "base/system/memory_account.h"

#include <malloc.h>

namespace parplan {
namespace {

// Bytes that a thread counts on its own before it adds them to the account, whose number all
// threads of a search share. Not measured for other values.
constexpr int64_t kShare = int64_t{64} << 10;

struct ThreadShare {
  MemoryAccount* account = nullptr;
  int64_t bytes = 0;
};

constinit thread_local ThreadShare thread_share;

}  // namespace

MemoryAccount* MemoryAccount::OfThread() { return thread_share.account; }

bool MemoryAccount::MayTake(int64_t bytes) {
  const MemoryAccount* const account = thread_share.account;
  return account == nullptr || bytes <= account->ceiling_ - account->bytes();
}

void MemoryAccount::Count(int64_t bytes) {
  if (thread_share.account == nullptr) return;
  thread_share.bytes += bytes;
  if (thread_share.bytes < kShare && thread_share.bytes > -kShare) return;
  thread_share.account->Add(thread_share.bytes);
  thread_share.bytes = 0;
}

void MemoryAccount::Add(int64_t bytes) {
  const int64_t sum = bytes_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  int64_t peak = peak_bytes_.load(std::memory_order_relaxed);
  while (sum > peak && !peak_bytes_.compare_exchange_weak(peak, sum, std::memory_order_relaxed)) {
  }
}

MemoryAccount::Scope::Scope(MemoryAccount* account) : before_(thread_share.account) {
  if (before_ != nullptr) before_->Add(thread_share.bytes);
  thread_share = {account, 0};
}

MemoryAccount::Scope::~Scope() {
  if (thread_share.account != nullptr) thread_share.account->Add(thread_share.bytes);
  thread_share = {before_, 0};
}

void ReturnFreedMemory() { malloc_trim(0); }

}  // namespace parplan
