#include "executor/device/kernels/array_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <utility>

#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

// Keeps what is allocated, and may say that it reuses what is freed.
class CountedMemory : public DeviceMemory {
 public:
  explicit CountedMemory(bool reuses) : reuses_(reuses) {}
  absl::StatusOr<void*> Allocate(Bytes size, Lifetime lifetime) override {
    absl::StatusOr<void*> data = inner_->Allocate(size, lifetime);
    if (data.ok()) lifetimes[*data] = lifetime;
    return data;
  }
  void Free(void* data) override {
    lifetimes.erase(data);
    inner_->Free(data);
  }
  bool reuses_freed() const override { return reuses_; }

  std::map<void*, Lifetime> lifetimes;

 private:
  const bool reuses_;
  const std::unique_ptr<DeviceMemory> inner_ = MakeHostMemory();
};

Array Taken(ArrayPool& pool, ArrayUse use, int64_t size) {
  absl::StatusOr<Array> array = pool.Take(use, Bytes::Of(size));
  EXPECT_OK(array.status());
  return array.ok() ? *std::move(array) : Array();
}

TEST(ArrayPool, KeepsFreedBlocksOnlyWhereTheMemoryDoesNotReuseThem) {
  for (const bool reuses : {false, true}) {
    CountedMemory memory(reuses);
    ArrayPool pool(memory);
    Array array = Taken(pool, ArrayUse::kActivations, 100);
    void* const data = array.data();
    array.Reset();
    EXPECT_EQ(memory.lifetimes.size(), reuses ? 0u : 1u);
    const Array again = Taken(pool, ArrayUse::kActivations, 100);
    EXPECT_TRUE(reuses || again.data() == data);
  }
}

TEST(ArrayPool, FreesEverythingAtItsEnd) {
  for (const bool reuses : {false, true}) {
    CountedMemory memory(reuses);
    {
      ArrayPool pool(memory);
      const Array array = Taken(pool, ArrayUse::kActivations, 100);
      Taken(pool, ArrayUse::kTransient, 50);
    }
    EXPECT_THAT(memory.lifetimes, IsEmpty());
  }
}

TEST(ArrayPool, TheUseDecidesTheLifetimeUnlessItIsNamed) {
  CountedMemory memory(/*reuses=*/true);
  ArrayPool pool(memory);
  const std::pair<ArrayUse, Lifetime> uses[] = {
      {ArrayUse::kParameters, Lifetime::kLasting},
      {ArrayUse::kActivations, Lifetime::kLasting},
      {ArrayUse::kCheckpoints, Lifetime::kLasting},
      {ArrayUse::kTransient, Lifetime::kPassing},
      {ArrayUse::kLogits, Lifetime::kPassing},
      {ArrayUse::kGatheredParameters, Lifetime::kPassing},
  };
  for (const auto& [use, lifetime] : uses) {
    const Array array = Taken(pool, use, 8);
    EXPECT_THAT(memory.lifetimes, ElementsAre(Pair(array.data(), lifetime)));
  }
  ASSERT_OK_AND_ASSIGN(const Array output,
                       pool.Take(ArrayUse::kTransient, Bytes::Of(8), Lifetime::kLasting));
  EXPECT_THAT(memory.lifetimes, ElementsAre(Pair(output.data(), Lifetime::kLasting)));
  EXPECT_EQ(pool.usage()[ArrayUse::kTransient], Bytes::Of(8));
}

TEST(ArrayPool, RemembersTheUsesAtTheHighestTotal) {
  CountedMemory memory(/*reuses=*/true);
  ArrayPool pool(memory);
  Array output = Taken(pool, ArrayUse::kTransient, 10);
  Array other = Taken(pool, ArrayUse::kLogits, 20);
  other.Reset();
  output.set_use(ArrayUse::kCheckpoints);
  EXPECT_EQ(pool.at_peak()[ArrayUse::kTransient], Bytes::Of(10));
  EXPECT_EQ(pool.at_peak().Total(), Bytes::Of(30));
  EXPECT_EQ(pool.usage()[ArrayUse::kCheckpoints], Bytes::Of(10));
  pool.ResetPeaks();
  EXPECT_EQ(pool.at_peak().Total(), Bytes::Of(10));
}

}  // namespace
}  // namespace parplan
