// The operators of counted_new.cc, which this program is built with.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <new>
#include <string>
#include <thread>

#include "base/system/memory_account.h"

namespace parplan {
namespace {

// More than a thread may hold back, so that each block shows.
constexpr size_t kBlock = size_t{1} << 20;
constexpr int64_t kShare = int64_t{64} << 10;

void ExpectNear(const MemoryAccount& account, int64_t bytes) {
  EXPECT_LE(account.bytes(), bytes + kShare);
  EXPECT_GE(account.bytes(), bytes - kShare);
}

// One way to take memory, and to give it back.
struct Operators {
  std::string name;
  void* (*take)();
  void (*give_back)(void*);
};

class CountedNew : public testing::TestWithParam<Operators> {};

TEST_P(CountedNew, CountsWhatItTakesAndGivesBack) {
  MemoryAccount account(int64_t{64} << 20);
  const MemoryAccount::Scope scope(&account);
  void* blocks[4] = {};
  for (void*& block : blocks) block = GetParam().take();
  ExpectNear(account, 4 * int64_t{kBlock});
  for (void* const block : blocks) GetParam().give_back(block);
  ExpectNear(account, 0);
}

const Operators kOperators[] = {
    {"Single", [] { return ::operator new(kBlock); },
     [](void* block) { ::operator delete(block); }},
    {"Array", [] { return ::operator new[](kBlock); },
     [](void* block) { ::operator delete[](block); }},
    {"Nothrow", [] { return ::operator new(kBlock, std::nothrow); },
     [](void* block) { ::operator delete(block, std::nothrow); }},
    {"NothrowArray", [] { return ::operator new[](kBlock, std::nothrow); },
     [](void* block) { ::operator delete[](block, std::nothrow); }},
// Clang has these calls with a flag alone.
#ifdef __cpp_sized_deallocation
    {"Sized", [] { return ::operator new(kBlock); },
     [](void* block) { ::operator delete(block, kBlock); }},
    {"SizedArray", [] { return ::operator new[](kBlock); },
     [](void* block) { ::operator delete[](block, kBlock); }},
#endif
};

INSTANTIATE_TEST_SUITE_P(Operators, CountedNew, testing::ValuesIn(kOperators),
                         [](const testing::TestParamInfo<Operators>& info) {
                           return info.param.name;
                         });

TEST(CountedNewOperators, NothingIsTakenBeyondTheCeiling) {
  MemoryAccount account(int64_t{1} << 20);
  const MemoryAccount::Scope scope(&account);
  constexpr auto kMost = static_cast<size_t>(MemoryAccount::kMostAbove);
  EXPECT_THROW((void)::operator new(2 * kMost), std::bad_alloc);
  EXPECT_EQ(::operator new(2 * kMost, std::nothrow), nullptr);
  void* const block = ::operator new(kMost);
  EXPECT_TRUE(account.IsUsedUp());
  EXPECT_THROW((void)::operator new(4 * kBlock), std::bad_alloc);
  ::operator delete(block);
  ::operator delete(::operator new(4 * kBlock));
}

TEST(CountedNewOperators, AlignedBlocksAreNotCounted) {
  MemoryAccount account(int64_t{64} << 20);
  const MemoryAccount::Scope scope(&account);
  constexpr std::align_val_t kAlignment{64};
  void* const block = ::operator new(kBlock, kAlignment);
  ExpectNear(account, 0);
  ::operator delete(block, kAlignment);
  ExpectNear(account, 0);
}

TEST(CountedNewOperators, ABlockThatAnotherThreadFreesStaysCounted) {
  MemoryAccount account(int64_t{64} << 20);
  MemoryAccount other(int64_t{64} << 20);
  const MemoryAccount::Scope scope(&account);
  void* const first = ::operator new(kBlock);
  void* const second = ::operator new(kBlock);
  std::thread([&] {
    ::operator delete(first);
    // It is taken off the account of the thread that frees it, if that has one.
    const MemoryAccount::Scope other_scope(&other);
    ::operator delete(second);
  }).join();
  ExpectNear(account, 2 * int64_t{kBlock});
  ExpectNear(other, -int64_t{kBlock});
}

// Blocks that are not counted must work too.
TEST(CountedNewOperators, NothingIsCountedWithoutAnAccount) {
  MemoryAccount account(int64_t{64} << 20);
  void* const block = ::operator new(kBlock);
  const MemoryAccount::Scope scope(&account);
  ExpectNear(account, 0);
  ::operator delete(nullptr);
  ::operator delete(::operator new(0));
  ::operator delete(block);
  ExpectNear(account, -int64_t{kBlock});
}

}  // namespace
}  // namespace parplan
