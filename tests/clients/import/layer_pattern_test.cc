#include "clients/import/layer_pattern.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace parplan {
namespace {

// Returns the entries as digits; `none` if there is no pattern.
std::string Digits(const std::string& text, size_t layer_count = 12) {
  const auto pattern = ReadLayerPattern(text, layer_count);
  if (!pattern.has_value()) return "none";
  std::string digits;
  for (const bool entry : *pattern) digits += entry ? '1' : '0';
  return digits;
}

// The first four are examples in the help of --moe-layer-freq and --window-attn-skip-freq.
TEST(ReadLayerPattern, EvaluatesListsAsPythonDoes) {
  EXPECT_EQ(Digits("([1]*3+[0]*1)*3"), "111011101110");
  EXPECT_EQ(Digits("([0]+[1]*11)"), "011111111111");
  EXPECT_EQ(Digits("([1]*3+[0]*2)*2"), "1110011100");
  EXPECT_EQ(Digits("[1,1,1,0]*3"), "111011101110");
  EXPECT_EQ(Digits("[0, 1] * 2 + [1]"), "01011");
  EXPECT_EQ(Digits("(([1]+[0])*2+[1])*2"), "1010110101");
  EXPECT_EQ(Digits("[1]*0+[0]"), "0");
  EXPECT_EQ(Digits("[0,1]*2*2"), "01010101");
}

TEST(ReadLayerPattern, RefusesWhatIsNoPatternOrTooLong) {
  for (const char* const text :
       {"",       "1",         "[]",         "[2]",  "[1",   "1]",     "([1]", "[1])",
        "[1]*",   "[1]*x",     "[1]*-1",     "[1]+", "+[1]", "[1]**2", "[1,]", "[1]*99999999999",
        "[1]*13", "([1]*7)*2", "[1]*12+[0]", "()",   "2*[1]"}) {
    EXPECT_EQ(Digits(text), "none") << text;
  }
  EXPECT_EQ(Digits("[1]*12").size(), 12);
  const std::string deep = absl::StrCat(std::string(16, '('), "[1]", std::string(16, ')'));
  EXPECT_EQ(Digits(deep), "1");
  EXPECT_EQ(Digits("(" + deep + ")"), "none");
  EXPECT_EQ(Digits(std::string(100000, '(')), "none");
}

}  // namespace
}  // namespace parplan
