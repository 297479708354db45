#include "clients/report/html.h"

#include <cmath>
#include <limits>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "clients/report/style.h"

namespace parplan::report {
namespace {

const std::string kReplacement = "\xEF\xBF\xBD";

TEST(Change, IsSignedAndFinite) {
  EXPECT_EQ(Change(0.031), "+3.1 %");
  EXPECT_EQ(Change(-0.12), "-12.0 %");
  EXPECT_EQ(Change(0.0004), "+0.04 %");
  EXPECT_EQ(Change(0.0), "±0 %");
  EXPECT_EQ(Change(-1e-9), "±0 %");
  EXPECT_EQ(Change(std::nan("")), "–");
}

TEST(Escape, LeavesNoMarkup) {
  EXPECT_EQ(Escape("<b a=\"1\" c='2'>&amp;</b>"),
            "&lt;b a=&quot;1&quot; c=&#39;2&#39;&gt;&amp;amp;&lt;/b&gt;");
}

TEST(Escape, KeepsTextOfAnyLanguage) {
  for (const std::string text : {"Zürich", "東京", "\xF0\x9F\x9A\x80", "a–b"}) {
    EXPECT_EQ(Escape(text), text);
  }
}

TEST(Clean, MakesControlCharactersSpaces) {
  EXPECT_EQ(Clean(std::string("a\0b\x01\t\n\x1F\x7F"
                              "c",
                              9)),
            "a b     c");
  EXPECT_EQ(Clean("a\xC2\x85"
                  "b\xC2\x9F"
                  "c"),
            "a b c");  // U+0085, U+009F
}

TEST(Clean, ReplacesWhatIsNoUtf8) {
  EXPECT_EQ(Clean("a\xFF"
                  "b"),
            "a" + kReplacement + "b");
  EXPECT_EQ(Clean("\xC3"), kReplacement);                                        // cut off
  EXPECT_EQ(Clean("\xC3("), kReplacement + "(");                                 // not continued
  EXPECT_EQ(Clean("\xC0\xAF"), kReplacement + kReplacement);                     // overlong /
  EXPECT_EQ(Clean("\xE0\x80\xBC"), kReplacement + kReplacement + kReplacement);  // overlong <
  EXPECT_EQ(Clean("\xED\xA0\x80"), kReplacement + kReplacement + kReplacement);  // surrogate
  EXPECT_EQ(Clean("\xF4\x90\x80\x80"),
            kReplacement + kReplacement + kReplacement + kReplacement);  // above U+10FFFF
}

TEST(Clean, ReplacesMarksThatTurnText) {
  EXPECT_EQ(Clean("a\xE2\x80\xAE"
                  "b"),
            "a" + kReplacement + "b");  // U+202E
  EXPECT_EQ(Clean("a\xE2\x81\xA6"
                  "b"),
            "a" + kReplacement + "b");             // U+2066
  EXPECT_EQ(Clean("\xEF\xBF\xBE"), kReplacement);  // U+FFFE
}

TEST(Shorten, CountsCharactersNotBytes) {
  EXPECT_EQ(Shorten("東京東京", 4), "東京東京");
  EXPECT_EQ(Shorten("東京東京", 3), "東京…");
  EXPECT_EQ(Shorten("abc", 1), "…");
  EXPECT_EQ(Shorten("", 1), "");
  EXPECT_EQ(Shorten("\xFF\xFF\xFF", 2), kReplacement + "…");
}

TEST(Numbers, AreSaidForPeople) {
  EXPECT_EQ(Percent(0.1234), "12.3 %");
  EXPECT_EQ(Percent(std::numeric_limits<double>::infinity()), "–");
  EXPECT_EQ(Rate(0.187), "0.19");
  EXPECT_EQ(Rate(18.72), "18.7");
  EXPECT_EQ(Rate(std::numeric_limits<double>::infinity()), "–");
  EXPECT_EQ(Range(4, 1), "4");
  EXPECT_EQ(Range(4, 4), "4–7");
  EXPECT_EQ(Count(1, "sample"), "1 sample");
  EXPECT_EQ(Count(2, "sample"), "2 samples");
}

TEST(Letter, CountsLikeColumnsOfASheet) {
  EXPECT_EQ(Letter(0), "A");
  EXPECT_EQ(Letter(25), "Z");
  EXPECT_EQ(Letter(26), "AA");
  EXPECT_EQ(Letter(26 * 27), "AAA");
  std::set<std::string> letters;
  for (int i = 0; i < 2000; ++i) letters.insert(Letter(i));
  EXPECT_EQ(letters.size(), 2000u);
}

TEST(StrategyWords, SaysWhatTheNotationMeans) {
  EXPECT_EQ(StrategyWords({}), "one device");
  EXPECT_EQ(StrategyWords({.context_parallel_degree = 4}), "context parallel 4");
  EXPECT_EQ(StrategyWords({.data_parallel_degree = 2,
                           .context_parallel_degree = 4,
                           .context_kind = ContextKind::kUlysses}),
            "data parallel 2, sequences split by all-to-all (Ulysses) 4");
  EXPECT_EQ(StrategyWords({.tensor_parallel_degree = 8}), "tensor parallel 8");
  EXPECT_EQ(StrategyWords({.data_parallel_degree = 8,
                           .sharding_level = ShardingLevel::kParameters,
                           .recompute_level = RecomputeLevel::kFull}),
            "data parallel 8 with parameters sharded, activations recomputed");
  EXPECT_EQ(StrategyWords({.tensor_parallel_degree = 4,
                           .data_parallel_degree = 2,
                           .rank_order = RankOrder::kDataInnermost,
                           .sequence_parallel = true}),
            "tensor parallel 4 with sequence parallelism on distant devices, data parallel 2");
}

TEST(GroupsText, IsForGroupsOfAnotherSizeThanThePipeline) {
  EXPECT_EQ(GroupsText({}), "");
  Plan plan;
  plan.micro_batch_group_size = 12;
  EXPECT_EQ(GroupsText(plan), ", groups of 12");
}

TEST(StrategyFillClass, DistinguishesThirtyTwoStrategies) {
  std::set<std::string> fills;
  for (int i = 0; i < 32; ++i) fills.insert(StrategyFillClass(i));
  EXPECT_EQ(fills.size(), 32u);
  EXPECT_EQ(StrategyFillClass(32), StrategyFillClass(0));
}

TEST(PageHead, HasEveryFillAndAsksForNothingOutside) {
  const std::string head = PageHead("title");
  const size_t begin = head.find("<style>") + std::string("<style>").size();
  const std::string sheet = head.substr(begin, head.find("</style>") - begin);
  const std::string textures = Textures();
  for (int i = 0; i < 32; ++i) {
    const std::string fill = StrategyFillClass(i);
    EXPECT_NE(sheet.find("." + fill + "{"), std::string::npos) << fill;
    const std::string number = fill.substr(1);
    if (number[1] != '0') {
      EXPECT_NE(textures.find("id=\"p" + number + "\""), std::string::npos) << fill;
    }
  }
  EXPECT_EQ(sheet.find("@import"), std::string::npos);
  EXPECT_EQ(sheet.find("http"), std::string::npos);
  EXPECT_EQ(sheet.find('<'), std::string::npos);
  EXPECT_EQ(sheet.find('&'), std::string::npos);
}

}  // namespace
}  // namespace parplan::report
