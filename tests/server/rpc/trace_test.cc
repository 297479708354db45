#include "server/rpc/trace.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace parplan {
namespace {

TEST(RequestId, IsAShortTokenOfSafeCharacters) {
  EXPECT_TRUE(IsRequestId("a"));
  EXPECT_TRUE(IsRequestId("Job-7_2.retry"));
  EXPECT_TRUE(IsRequestId(std::string(64, 'x')));
  EXPECT_FALSE(IsRequestId(""));
  EXPECT_FALSE(IsRequestId(std::string(65, 'x')));
  EXPECT_FALSE(IsRequestId("a b"));
  EXPECT_FALSE(IsRequestId("a\nb"));
  EXPECT_FALSE(IsRequestId("\"}"));
  EXPECT_FALSE(IsRequestId("\xc3\xa9"));
}

TEST(RequestId, MadeOnesAreValidAndDistinct) {
  std::set<std::string> made;
  for (int i = 0; i < 1000; ++i) {
    const std::string id = MakeRequestId();
    EXPECT_TRUE(IsRequestId(id));
    EXPECT_EQ(id.size(), 32u);
    EXPECT_TRUE(made.insert(id).second);
  }
}

TEST(TraceIdOf, ReadsTheExampleOfTheRecommendation) {
  EXPECT_EQ(TraceIdOf("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
            "0af7651916cd43dd8448eb211c80319c");
  EXPECT_EQ(TraceIdOf("01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more"),
            "0af7651916cd43dd8448eb211c80319c");
}

TEST(TraceIdOf, RefusesWhatHasAnotherForm) {
  EXPECT_EQ(TraceIdOf(""), "");
  EXPECT_EQ(TraceIdOf("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331"), "");
  EXPECT_EQ(TraceIdOf("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more"), "");
  EXPECT_EQ(TraceIdOf("ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"), "");
  EXPECT_EQ(TraceIdOf("00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01"), "");
  EXPECT_EQ(TraceIdOf("00-00000000000000000000000000000000-b7ad6b7169203331-01"), "");
  EXPECT_EQ(TraceIdOf("00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01"), "");
  EXPECT_EQ(TraceIdOf("00-0af7651916cd43dd8448eb211c80319-b7ad6b7169203331-01"), "");
}

}  // namespace
}  // namespace parplan
