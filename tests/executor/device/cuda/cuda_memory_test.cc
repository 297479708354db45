#include "executor/device/cuda/cuda_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "executor/device/cuda/cuda_queue.h"
#include "tests/executor/device/cuda/fake_cuda.h"
#include "tests/executor/device/cuda/fake_runtime.h"
#include "tests/support/status_matchers.h"

namespace parplan::cuda {
namespace {

using testing::HasSubstr;

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kPiece = 16 * kMiB;

// Memory of the fake's device 0, which has 1024 MiB beside its context.
class CudaMemoryTest : public testing::Test {
 protected:
  void SetUp() override {
    ResetFakes();
    ASSERT_OK_AND_ASSIGN(queue_, CudaQueue::Create(0));
    ASSERT_OK_AND_ASSIGN(memory_, CudaMemory::Create(0, queue_->compute_stream()));
  }
  void TearDown() override {
    memory_.reset();
    EXPECT_EQ(fake::HeldBytes(0), 0u);
  }
  // Returns null, and fails the test, if there is no memory.
  void* Take(int64_t size, Lifetime lifetime = Lifetime::kLasting) {
    const absl::StatusOr<void*> data = memory_->Allocate(Bytes::Of(size), lifetime);
    EXPECT_OK(data.status());
    return data.value_or(nullptr);
  }

  std::unique_ptr<CudaQueue> queue_;
  std::unique_ptr<CudaMemory> memory_;
};

TEST_F(CudaMemoryTest, HoldsChunksAndTheirPeak) {
  EXPECT_EQ(memory_->held(), Bytes());
  void* const small = Take(1);
  ASSERT_NE(small, nullptr);
  EXPECT_EQ(memory_->held(), Bytes::Of(kPiece));
  // The lifetimes have chunks of their own.
  void* const passing = Take(kPiece + 1, Lifetime::kPassing);
  EXPECT_EQ(memory_->held(), Bytes::Of(3 * kPiece));
  memory_->Free(passing);
  EXPECT_EQ(memory_->held(), Bytes::Of(3 * kPiece));
  EXPECT_OK(memory_->ResetPeak());
  EXPECT_EQ(memory_->held(), Bytes::Of(kPiece));
  EXPECT_EQ(memory_->held_peak(), Bytes::Of(kPiece));
  memory_->Free(small);
}

TEST_F(CudaMemoryTest, FreedNeighboursServeALargerArray) {
  void* const first = Take(40 * kMiB);
  void* const second = Take(50 * kMiB);
  void* const last = Take(1);
  memory_->Free(first);
  memory_->Free(second);
  EXPECT_EQ(Take(90 * kMiB), first);
  EXPECT_EQ(memory_->held(), Bytes::Of(6 * kPiece));
  memory_->Free(first);
  memory_->Free(last);
}

TEST_F(CudaMemoryTest, WhatOneLifetimeLeftServesTheOther) {
  void* const lasting = Take(900 * kMiB);
  memory_->Free(lasting);
  void* const passing = Take(1000 * kMiB, Lifetime::kPassing);
  ASSERT_NE(passing, nullptr);
  std::memset(passing, 1, 1000 * kMiB);
  EXPECT_EQ(memory_->held(), Bytes::Of(63 * kPiece));
  memory_->Free(passing);
}

TEST_F(CudaMemoryTest, SaysWhenThereIsNoMoreAndGoesOn) {
  void* const held = Take(600 * kMiB);
  for (const int64_t size : {500 * kMiB, int64_t{1} << 50}) {
    EXPECT_THAT(memory_->Allocate(Bytes::Of(size), Lifetime::kPassing).status(),
                StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("bytes of the GPU")));
  }
  // Nothing is left of the attempts.
  EXPECT_EQ(memory_->held(), Bytes::Of(38 * kPiece));
  void* const passing = Take(400 * kMiB, Lifetime::kPassing);
  memory_->Free(passing);
  memory_->Free(held);
}

TEST_F(CudaMemoryTest, ArraysKeepTheirContent) {
  std::mt19937 random(7);
  // [array] its size and what it is filled with.
  std::map<char*, std::pair<int64_t, char>> arrays;
  const auto free = [&](std::map<char*, std::pair<int64_t, char>>::iterator array) {
    char* const data = array->first;
    const std::pair<int64_t, char> content = array->second;
    EXPECT_TRUE(
        std::all_of(data, data + content.first, [&](char each) { return each == content.second; }));
    memory_->Free(data);
    arrays.erase(array);
  };
  for (int k = 0; k < 2000; ++k) {
    if (!arrays.empty() && random() % 5 < 2) {
      free(std::next(arrays.begin(), random() % arrays.size()));
    }
    if (random() % 50 == 0) {
      EXPECT_OK(memory_->ResetPeak());
    }
    if (arrays.size() > 60) continue;
    const int64_t size = random() % (random() % 20 == 0 ? 20 * kMiB : 20000);
    const auto lifetime = random() % 2 == 0 ? Lifetime::kLasting : Lifetime::kPassing;
    char* const data = static_cast<char*>(Take(size, lifetime));
    ASSERT_NE(data, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % 256, 0u);
    const char content = static_cast<char>(random());
    std::memset(data, content, size);
    EXPECT_TRUE(arrays.emplace(data, std::pair(size, content)).second);
    EXPECT_GE(fake::HeldBytes(0), static_cast<size_t>(size));
    EXPECT_EQ(static_cast<size_t>(memory_->held().count()), fake::HeldBytes(0));
  }
  while (!arrays.empty()) free(arrays.begin());
}

TEST(CudaMemoryWithoutVirtualMemory, AllocatesFromTheRuntime) {
  ResetFakes();
  TheFakeCuda().has_virtual_memory = false;
  ASSERT_OK_AND_ASSIGN(const auto queue, CudaQueue::Create(0));
  ASSERT_OK_AND_ASSIGN(const auto memory, CudaMemory::Create(0, queue->compute_stream()));
  EXPECT_FALSE(memory->reuses_freed());
  ASSERT_OK_AND_ASSIGN(void* const data, memory->Allocate(Bytes::Of(8), Lifetime::kLasting));
  EXPECT_EQ(memory->held(), Bytes());
  EXPECT_EQ(fake::HeldBytes(0), 0u);
  memory->Free(data);
}

// A call that gets memory may wait for the whole device, so none comes after the first upload.
TEST(CudaQueueTest, UploadsOfOneSizeGetMemoryOnce) {
  ResetFakes();
  ASSERT_OK_AND_ASSIGN(const auto queue, CudaQueue::Create(0));
  const std::vector<int32_t> tokens(64, 7);
  const auto count = static_cast<int64_t>(tokens.size());
  ASSERT_NE(queue->Upload(tokens.data(), count), nullptr);
  const int allocations = TheFakeCuda().allocations;
  for (int k = 0; k < 8; ++k) ASSERT_NE(queue->Upload(tokens.data(), count), nullptr);
  EXPECT_EQ(TheFakeCuda().allocations, allocations);
}

}  // namespace
}  // namespace parplan::cuda
