#include "studies/papers/unlike_devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iterator>
#include <string>
#include <vector>

#include "studies/papers/page_sections.h"
#include "studies/papers/papers_results.h"

namespace parplan::papers {
namespace {

TEST(UnlikeRowOf, MoreMemoryAndSpeedAreFaster) {
  // The smallest search of them.
  for (const UnlikeQuestion& question : UnlikeQuestions()) {
    if (question.family != Family::kVit) continue;
    const UnlikeRow row = UnlikeRowOf(question);
    EXPECT_EQ(row.model, "ViT-Huge-32");
    EXPECT_GT(row.weaker_alone, 0.0);
    EXPECT_GT(row.stronger_alone, row.weaker_alone);
    EXPECT_GT(row.alike, row.weaker_alone);
    EXPECT_DOUBLE_EQ(row.Apart(), row.weaker_alone + row.stronger_alone);
  }
}

TEST(UnlikeQuestions, HaveEveryFamilyWithUnlikeMemoryAndWithUnlikeKinds) {
  const std::vector<UnlikeQuestion> questions = UnlikeQuestions();
  ASSERT_EQ(questions.size(), 2 * std::size(kFamilies));
  for (const UnlikeQuestion& question : questions) {
    EXPECT_LT(question.weaker.memory_gb, question.stronger.memory_gb);
  }
  EXPECT_EQ(questions.front().weaker.kind, questions.front().stronger.kind);
  EXPECT_NE(questions.back().weaker.kind, questions.back().stronger.kind);
}

TEST(UnlikeSection, CountsRowsInWhichEqualGroupsLose) {
  PapersResults results;
  results.unlike = {{.model = "a", .alike = 10.0, .weaker_alone = 4.0, .stronger_alone = 5.0},
                    {.model = "b", .alike = 10.0, .weaker_alone = 6.0, .stronger_alone = 7.0},
                    {.model = "c", .alike = 10.0, .weaker_alone = 0.0, .stronger_alone = 20.0}};
  const UnlikeSummary summary = SummaryOf(results.unlike);
  EXPECT_EQ(summary.alone_is_faster_count, 1);
  EXPECT_EQ(summary.apart_is_faster_count, 2);
  const std::string page = UnlikeSection(results);
  EXPECT_THAT(page, testing::HasSubstr("| 10.00 | - | 20.00 | 2.00 | 20.00 | 2.00 |"));
  EXPECT_THAT(page, testing::HasSubstr("In 1 of 3 rows"));
  EXPECT_EQ(UnlikeSection({}), "");
}

}  // namespace
}  // namespace parplan::papers
