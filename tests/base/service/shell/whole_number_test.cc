#include "base/service/shell/whole_number.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/service/shell/command_line.h"

namespace parplan::shell {
namespace {

using ::testing::HasSubstr;

// Returns the error of CLI11 for `--number=TEXT`, and sets `number` to the value that it read.
template <typename T>
std::string ReadNumber(const std::string& text, T& number) {
  CommandLine line("", "program");
  line.root().AddOption("--number", number, "A number");
  return line.ParseWords({absl::StrCat("--number=", text)});
}

TEST(WholeNumber, OptionsOf64BitsTakeWhatFitsAndNothingElse) {
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  for (const int64_t value : {kLeast, int64_t{-1}, int64_t{0}, kMost}) {
    int64_t number = 7;
    std::optional<int64_t> other;
    EXPECT_EQ(ReadNumber(absl::StrCat(value), number), "");
    EXPECT_EQ(ReadNumber(absl::StrCat(value), other), "");
    EXPECT_EQ(number, value);
    EXPECT_EQ(other, value);
  }
  for (const char* const text : {"9223372036854775808", "-9223372036854775809", "1e30",
                                 "99999999999999999999999999", "0x8000000000000000"}) {
    int64_t number = 7;
    std::optional<int64_t> other;
    EXPECT_THAT(ReadNumber(text, number), HasSubstr("--number")) << text;
    EXPECT_THAT(ReadNumber(text, other), HasSubstr("--number")) << text;
  }
}

TEST(WholeNumber, ANumberWithoutASignHas64Bits) {
  for (const char* const text : {"0", "18446744073709551615", "0xffffffffffffffff"}) {
    EXPECT_EQ(CheckUnsigned(text), "") << text;
  }
  for (const char* const text : {"-1", " -1", "18446744073709551616", "-18446744073709551616"}) {
    EXPECT_THAT(CheckUnsigned(text), HasSubstr("from 0 to")) << text;
  }
}

}  // namespace
}  // namespace parplan::shell
