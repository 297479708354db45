#include "clients/planctl/view/text_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_split.h"

namespace parplan::planctl {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Le;
using ::testing::ResultOf;

TEST(Wrap, LeavesAShortTextAsItIs) {
  EXPECT_EQ(Wrap("a b", 10), "a b");
  EXPECT_EQ(Wrap("", 10), "");
}

TEST(Wrap, KeepsEveryWordAndEveryLineWithinTheWidth) {
  std::string text;
  for (int i = 0; i < 200; ++i) text += std::string(static_cast<size_t>(1 + i % 9), 'w') + " ";
  const std::string wrapped = Wrap(text, 13);
  const std::vector<std::string> lines = absl::StrSplit(wrapped, '\n');
  EXPECT_GT(lines.size(), 5u);
  EXPECT_THAT(lines, Each(ResultOf([](const std::string& line) { return ColumnCount(line); },
                                   Le(kTextWidth))));
  const std::vector<std::string> before = absl::StrSplit(text, ' ', absl::SkipEmpty());
  const std::vector<std::string> after =
      absl::StrSplit(wrapped, absl::ByAnyChar(" \n"), absl::SkipEmpty());
  EXPECT_EQ(after, before);
}

TEST(Wrap, KeepsANumberAndItsUnitTogether) {
  const std::string long_word(static_cast<size_t>(kTextWidth - 6), 'w');
  EXPECT_EQ(Wrap(long_word + " 4.2 ms, x", 0), long_word + "\n4.2 ms, x");
}

TEST(ColumnCount, CountsCharacters) { EXPECT_EQ(ColumnCount("8 × µs"), 6); }

TEST(FoldGist, WritesEqualStagesOnce) {
  EXPECT_EQ(FoldGist("1-1-8f x34"), "1-1-8f x34");
  EXPECT_EQ(FoldGist("8-1-1 x5 | 8-1-1 x4 | 8-1-1 x4 | 8-1-1 x5"),
            "8-1-1 x5 | 8-1-1 x4 (2 stages) | 8-1-1 x5");
  EXPECT_EQ(FoldGist("2-1-4 x2, 2-4-1 x3 | 2-1-4 x2, 2-4-1 x3"), "2-1-4 x2, 2-4-1 x3 (2 stages)");
}

TEST(WrapGist, BreaksBetweenEntriesOnly) {
  std::string gist = "16-1-1 x0";
  for (int i = 1; i < 16; ++i) gist += " | 16-1-1 x" + std::to_string(i);
  for (const std::string& line :
       std::vector<std::string>(absl::StrSplit(WrapGist(gist, 0), '\n'))) {
    EXPECT_EQ(line.find("16-1-1 x"), 0u) << line;
  }
}

TEST(JoinSubjects, JoinsSentencesWithTheSameRest) {
  EXPECT_THAT(JoinSubjects({"layer `a`: guessed", "all-gather: near", "layer `b`: guessed",
                            "layer `a`: halved", "alone", "all-reduce: near"}),
              ElementsAre("layers `a`, `b`: guessed", "all-gather, all-reduce: near",
                          "layer `a`: halved", "alone"));
}

}  // namespace
}  // namespace parplan::planctl
