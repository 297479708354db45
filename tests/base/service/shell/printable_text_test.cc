#include "base/service/shell/printable_text.h"

#include <gtest/gtest.h>

#include <string>

#include <nlohmann/json.hpp>

namespace parplan::shell {
namespace {

TEST(PrintableTextTest, ShowsControlCharactersAndKeepsLinesTabsAndLetters) {
  EXPECT_EQ(PrintableText("a\x1b[2J\rb\x07\x7f"), "a\\u001b[2J\\u000db\\u0007\\u007f");
  EXPECT_EQ(PrintableText(std::string("\0x", 2)), "\\u0000x");
  EXPECT_EQ(PrintableText("one\ttwo\n8 × 300 µs, é\n"), "one\ttwo\n8 × 300 µs, é\n");
  EXPECT_EQ(PrintableText(""), "");
}

// U+009B is ESC [ in one character; U+00A0 is the first after the controls.
TEST(PrintableTextTest, ShowsControlCharactersOfTwoBytes) {
  EXPECT_EQ(PrintableText("\xc2\x9b"
                          "31m"),
            "\\u009b31m");
  EXPECT_EQ(PrintableText("\xc2\xa0"), "\xc2\xa0");
  EXPECT_EQ(PrintableText("end\xc2"), "end\xc2");
}

TEST(PrintableTextTest, JsonStaysTheSameJson) {
  nlohmann::json value;
  value["text"] = "a\x1b\r\n\t\x7f\xc2\x9b\"\\";
  const std::string dumped = value.dump(2);
  EXPECT_EQ(nlohmann::json::parse(PrintableText(dumped)), value);
}

}  // namespace
}  // namespace parplan::shell
