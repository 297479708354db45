#include "executor/device/comm/stall_inquiry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace parplan {
namespace {

using Cause = StallVerdict::Cause;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// A ring of four in which each waits for the one before it, as in a collective.
StallInquiry Ring(int asker, const std::vector<int>& silent = {}) {
  StallInquiry inquiry(4, asker);
  for (int rank = 0; rank < 4; ++rank) {
    bool answers = true;
    for (const int other : silent) answers = answers && other != rank;
    if (answers) inquiry.Answer(rank, (rank + 3) % 4);
  }
  return inquiry;
}

// Whoever asks first, and whoever waits for whom.
TEST(StallInquiry, ARankThatDoesNotAnswerIsTheCause) {
  for (int frozen = 0; frozen < 4; ++frozen) {
    for (int asker = 0; asker < 4; ++asker) {
      if (asker == frozen) continue;
      const StallInquiry inquiry = Ring(asker, {frozen});
      EXPECT_FALSE(inquiry.IsComplete());
      EXPECT_TRUE(inquiry.IsComplete(frozen));
      const StallVerdict verdict = inquiry.Judge();
      EXPECT_EQ(verdict.cause, Cause::kSilent);
      EXPECT_THAT(verdict.ranks, ElementsAre(frozen));
    }
  }
  EXPECT_THAT(Ring(0, {1, 3}).Judge().ranks, ElementsAre(1, 3));
}

TEST(StallInquiry, TheChainOfWaitsEndsAtTheOneThatWaitsForNone) {
  for (int busy = 0; busy < 4; ++busy) {
    for (int asker = 0; asker < 4; ++asker) {
      if (asker == busy) continue;
      StallInquiry inquiry = Ring(asker);
      inquiry.Answer(busy, -1);
      EXPECT_TRUE(inquiry.IsComplete());
      EXPECT_EQ(inquiry.Judge().cause, Cause::kBusy);
      EXPECT_THAT(inquiry.Judge().ranks, ElementsAre(busy));
      inquiry.HasLeft(busy);
      EXPECT_EQ(inquiry.Judge().cause, Cause::kLeft);
      EXPECT_THAT(inquiry.Judge().ranks, ElementsAre(busy));
    }
  }
}

TEST(StallInquiry, RanksThatWaitForEachOtherAreACircle) {
  // 0 waits for 1, and 1 and 2 for each other.
  StallInquiry inquiry(3, 0);
  inquiry.Answer(0, 1);
  inquiry.Answer(1, 2);
  inquiry.Answer(2, 1);
  EXPECT_EQ(inquiry.Judge().cause, Cause::kCircle);
  EXPECT_THAT(inquiry.Judge().ranks, ElementsAre(1));
}

TEST(StallInquiry, AnAskerThatDoesNotKnowItsRankBlamesNobodyWhoAnswers) {
  StallInquiry inquiry(2, 0);
  inquiry.Answer(0, -1);
  inquiry.Answer(1, 0);
  EXPECT_EQ(inquiry.Judge().cause, Cause::kUnknown);
  EXPECT_THAT(inquiry.Judge().ranks, ElementsAre());
}

TEST(StallInquiry, RanksThatAreNotOfTheJobAreNone) {
  StallInquiry inquiry(2, 0);
  inquiry.Answer(0, 1);
  inquiry.Answer(1, 7);
  EXPECT_EQ(inquiry.Judge().cause, Cause::kBusy);
  EXPECT_THAT(inquiry.Judge().ranks, ElementsAre(1));
}

TEST(DescribeVerdict, NamesRanksHostsAndTheOperation) {
  const std::vector<std::string> hosts = {"127.0.0.1", "h2", ""};
  const std::string one = DescribeVerdict({Cause::kSilent, {1}}, hosts, "a sum took long");
  EXPECT_THAT(one, HasSubstr("rank 1 on host h2 does not answer"));
  EXPECT_THAT(one, HasSubstr("; a sum took long"));
  EXPECT_THAT(one, Not(HasSubstr("rank 0")));
  EXPECT_THAT(DescribeVerdict({Cause::kSilent, {0, 2}}, hosts, "x"),
              HasSubstr("rank 0, rank 2 do not answer"));
  for (const Cause cause : {Cause::kBusy, Cause::kLeft, Cause::kCircle}) {
    EXPECT_THAT(DescribeVerdict({cause, {1}}, hosts, "x"), HasSubstr("rank 1 on host h2"));
  }
  EXPECT_THAT(DescribeVerdict({}, hosts, "x"), HasSubstr("not known; x"));
}

TEST(DescribeLoss, NamesAHostThatIsNotThisOne) {
  EXPECT_EQ(DescribeLoss(2, "h3", "why"), "rank 2 is lost on host h3: why");
  EXPECT_EQ(DescribeLoss(2, "127.0.0.1", "why"), "rank 2 is lost: why");
  EXPECT_EQ(DescribeLoss(2, "", "why"), "rank 2 is lost: why");
}

}  // namespace
}  // namespace parplan
