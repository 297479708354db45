#include "server/rpc/request_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "base/error.h"
#include "tests/server/rpc/reason_matcher.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using Share = std::unique_ptr<const RequestMemory::Share>;

const int kCalls[4] = {};

TEST(RequestMemory, GivesBackWhatACallTook) {
  RequestMemory memory(100);
  EXPECT_TRUE(memory.Reserve(&kCalls[0], 50));
  {
    const Share share = memory.Take(&kCalls[0], "host");
    EXPECT_OK(share->status());
    EXPECT_EQ(memory.taken(), 50);
  }
  EXPECT_EQ(memory.taken(), 0);
  EXPECT_TRUE(memory.Reserve(&kCalls[1], 100));
  memory.Release(&kCalls[1]);
  EXPECT_EQ(memory.taken(), 0);
  // A stream, for which nothing is decoded by gRPC.
  EXPECT_OK(memory.Take(&kCalls[2], "host")->status());
  memory.Release(&kCalls[3]);
}

TEST(RequestMemory, RefusesBeforeDecodingAboveTheLimit) {
  RequestMemory memory(100);
  EXPECT_TRUE(memory.Reserve(&kCalls[0], 60));
  EXPECT_FALSE(memory.Reserve(&kCalls[1], 60));
  EXPECT_EQ(memory.taken(), 60);
  const Share refused = memory.Take(&kCalls[1], "host");
  EXPECT_THAT(refused->status(),
              IsRefused(absl::StatusCode::kResourceExhausted, Reason::kQueueFull));
  EXPECT_TRUE(GetRetryDelay(refused->status()).has_value());
  memory.Release(&kCalls[0]);
  EXPECT_FALSE(memory.Reserve(&kCalls[2], 101));
  memory.Release(&kCalls[2]);
  EXPECT_TRUE(memory.Reserve(&kCalls[3], 100));
}

TEST(RequestMemory, OneCallerHasHalfOfIt) {
  RequestMemory memory(100);
  ASSERT_TRUE(memory.Reserve(&kCalls[0], 40));
  const Share first = memory.Take(&kCalls[0], "greedy");
  EXPECT_OK(first->status());
  ASSERT_TRUE(memory.Reserve(&kCalls[1], 20));
  Share second = memory.Take(&kCalls[1], "greedy");
  EXPECT_THAT(second->status(),
              IsRefused(absl::StatusCode::kResourceExhausted, Reason::kQueueFull));
  ASSERT_TRUE(memory.Reserve(&kCalls[2], 40));
  const Share other = memory.Take(&kCalls[2], "modest");
  EXPECT_OK(other->status());
  // What was refused counts until it is gone.
  EXPECT_EQ(memory.taken(), 100);
  second.reset();
  EXPECT_EQ(memory.taken(), 80);
  ASSERT_TRUE(memory.Reserve(&kCalls[3], 10));
  EXPECT_OK(memory.Take(&kCalls[3], "greedy")->status());
}

}  // namespace
}  // namespace parplan
