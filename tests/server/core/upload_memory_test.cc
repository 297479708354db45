#include "server/core/upload_memory.h"

#include <gtest/gtest.h>

#include <optional>
#include <utility>

#include "base/error.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using absl::StatusCode;
using testing::HasSubstr;

TEST(UploadMemory, AHolderHasAtMostHalf) {
  UploadMemory memory(100);
  UploadMemory::Share first(memory, "cn:a");
  UploadMemory::Share second(memory, "cn:a");
  EXPECT_OK(first.Grow(30));
  EXPECT_OK(second.Grow(20));
  const absl::Status refused = second.Grow(1);
  EXPECT_THAT(refused, StatusIs(StatusCode::kResourceExhausted, HasSubstr("of this caller")));
  EXPECT_EQ(GetErrorDetail(refused)->reason, Reason::kQueueFull);
  UploadMemory::Share other(memory, "cn:b");
  EXPECT_OK(other.Grow(50));
}

TEST(UploadMemory, AllTogetherHaveTheLimit) {
  UploadMemory memory(100);
  UploadMemory::Share first(memory, "cn:a");
  UploadMemory::Share second(memory, "cn:b");
  UploadMemory::Share third(memory, "cn:c");
  EXPECT_OK(first.Grow(50));
  EXPECT_OK(second.Grow(40));
  EXPECT_OK(third.Grow(10));
  EXPECT_THAT(third.Grow(1),
              StatusIs(StatusCode::kResourceExhausted, HasSubstr("more than 100 bytes")));
}

TEST(UploadMemory, WhatEndsGivesItsPartBack) {
  UploadMemory memory(100);
  std::optional<UploadMemory::Share> first(std::in_place, memory, "cn:a");
  EXPECT_OK(first->Grow(50));
  UploadMemory::Share second(memory, "cn:a");
  EXPECT_THAT(second.Grow(50), StatusIs(StatusCode::kResourceExhausted));
  first.reset();
  EXPECT_OK(second.Grow(50));
}

}  // namespace
}  // namespace parplan
