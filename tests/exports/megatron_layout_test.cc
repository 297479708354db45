#include "exports/megatron_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using ::testing::HasSubstr;

using Stages = std::vector<std::string>;

TEST(ParseMegatronLayout, ReadsTheExamplesOfTheProgram) {
  // Comments of parse_str_to_list: xy(ab|cd|ef)*2,pq; (ab)*3; ab,(cd|)*2; (|ab)*2,cd.
  EXPECT_THAT(ParseMegatronLayout("Et(tt|m|t)*2,tL", "f"),
              IsOkAndHolds(Stages{"Ettt", "m", "ttt", "m", "ttL"}));
  EXPECT_THAT(ParseMegatronLayout("(tt)*3", "f"), IsOkAndHolds(Stages{"tttttt"}));
  EXPECT_THAT(ParseMegatronLayout("Et,(tt|)*2", "f"), IsOkAndHolds(Stages{"Ettt", "tt", ""}));
  EXPECT_THAT(ParseMegatronLayout("(|tt)*2,tL", "f"), IsOkAndHolds(Stages{"", "tt", "tttL"}));
  // DeepSeek-V3 of the user guide: 16 ranks of 2 virtual stages.
  ASSERT_OK_AND_ASSIGN(const Stages deepseek, ParseMegatronLayout("Et*3|(tt|)*29,m|L", "f"));
  ASSERT_EQ(deepseek.size(), 32);
  EXPECT_EQ(deepseek[0], "Ettt");
  EXPECT_EQ(deepseek[29], "tt");
  EXPECT_EQ(deepseek[30], "m");
  EXPECT_EQ(deepseek[31], "L");
  // Llama-3-70B, tuned by hand for 8 ranks of 5 virtual stages (Megatron-Bridge).
  ASSERT_OK_AND_ASSIGN(const Stages llama,
                       ParseMegatronLayout("Et*2|(t*2|)*34,t*3|(t*2|)*3,tL", "f"));
  ASSERT_EQ(llama.size(), 40);
  EXPECT_EQ(llama[35], "ttt");
  std::string layers;
  for (const std::string& stage : llama) layers += stage;
  EXPECT_EQ(layers, "E" + std::string(80, 't') + "L");
}

// re.sub with r'\(([^)]+)\)\*(\d+)' and r'(.)\*(\d+)' has these corners.
TEST(ParseMegatronLayout, HasTheCornersOfTheProgramsPatterns) {
  EXPECT_THAT(ParseMegatronLayout("t|*2L", "f"), IsOkAndHolds(Stages{"t", "", "L"}));
  EXPECT_THAT(ParseMegatronLayout("Et*0L", "f"), IsOkAndHolds(Stages{"EL"}));
  EXPECT_THAT(ParseMegatronLayout("t*1,2", "f"), IsOkAndHolds(Stages{std::string(12, 't')}));
  EXPECT_THAT(ParseMegatronLayout("", "f"), IsOkAndHolds(Stages{""}));
  for (const char* const broken :
       {"((t|)*2)*3", "(t|t", "()*2", "(t)", "t**2", "t*", "x", "e", "T"}) {
    EXPECT_THAT(ParseMegatronLayout(broken, "layout"),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("layout: has `")))
        << broken;
  }
}

TEST(ParseMegatronLayout, RefusesWhatWouldFillTheMemory) {
  for (const char* const large :
       {"t*99999999", "(t|)*999999", "(t*9999|)*9999", "t*99999999999999999999999999"}) {
    EXPECT_THAT(
        ParseMegatronLayout(large, "layout"),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("layout: must have at most")))
        << large;
  }
  EXPECT_THAT(ParseMegatronLayout(std::string(kMaxLayoutSize + 1, 't'), "layout"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("must not exceed")));
  EXPECT_OK(ParseMegatronLayout(std::string(kMaxLayoutSize, 't'), "layout"));
}

TEST(FormatMegatronLayout, ReadsBackForRandomStages) {
  EXPECT_EQ(FormatMegatronLayout({"Ett", "tt", "tt", "tt", "ttt", "tL"}), "Et*2|(t*2|)*3t*3|tL");
  EXPECT_EQ(FormatMegatronLayout({"EtL"}), "EtL");
  std::mt19937_64 random(1);
  for (int i = 0; i < 2000; ++i) {
    Stages stages;
    const uint64_t count = 1 + random() % 12;
    // Few lengths make runs of equal stages, also at the end; some stages are empty.
    for (uint64_t j = 0; j < count; ++j) stages.emplace_back(random() % 3, 't');
    if (random() % 2 == 0) stages.front() = "E" + stages.front();
    if (random() % 2 == 0) stages.back() += "L";
    const std::string text = FormatMegatronLayout(stages);
    ASSERT_THAT(ParseMegatronLayout(text, "f"), IsOkAndHolds(stages)) << text;
  }
}

}  // namespace
}  // namespace parplan
