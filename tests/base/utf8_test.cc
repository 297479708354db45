#include "base/utf8.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace parplan {
namespace {

TEST(FirstUtf8Character, ReadsCharactersOfOneToFourBytes) {
  struct Case {
    const char* text;
    uint32_t code_point;
    size_t size;
  };
  for (const Case& one :
       {Case{"ax", 'a', 1}, Case{"\x7F", 0x7F, 1}, Case{"\xC2\x80", 0x80, 2},
        Case{"\xC3\xA9x", 0xE9, 2}, Case{"\xE0\xA0\x80", 0x800, 3}, Case{"\xE2\x82\xAC", 0x20AC, 3},
        Case{"\xF0\x90\x80\x80", 0x10000, 4}, Case{"\xF4\x8F\xBF\xBF", 0x10FFFF, 4}}) {
    const Utf8Character found = FirstUtf8Character(one.text);
    EXPECT_EQ(found.code_point, one.code_point) << one.text;
    EXPECT_EQ(found.size, one.size) << one.text;
  }
  EXPECT_EQ(FirstUtf8Character(absl::string_view("\0", 1)).size, 1u);
}

TEST(FirstUtf8Character, HasNoSizeForOtherBytes) {
  for (const char* const text : {
           "\x80",              // continues nothing
           "\xC3",              // ends too early
           "\xC3x",             // is not continued
           "\xE2\x82",          // ends too early
           "\xC0\x80",          // overlong: NUL
           "\xC1\xBF",          // overlong
           "\xE0\x9F\xBF",      // overlong
           "\xF0\x8F\xBF\xBF",  // overlong
           "\xED\xA0\x80",      // a surrogate
           "\xF4\x90\x80\x80",  // beyond U+10FFFF
           "\xF5\x80\x80\x80",  // beyond U+10FFFF
           "\xFF",
       }) {
    EXPECT_EQ(FirstUtf8Character(text).size, 0u) << absl::CHexEscape(text);
  }
}

TEST(Utf8Prefix, CutsBetweenCharacters) {
  EXPECT_EQ(Utf8Prefix("", 3), "");
  EXPECT_EQ(Utf8Prefix("abc", 3), "abc");
  EXPECT_EQ(Utf8Prefix("abcd", 3), "abc");
  EXPECT_EQ(Utf8Prefix("abcd", 0), "");
  EXPECT_EQ(Utf8Prefix("x\xC3\xA9\xC3\xA9", 2), "x\xC3\xA9");
  EXPECT_EQ(Utf8Prefix("\xF0\x90\x80\x80\xE2\x82\xAC", 1), "\xF0\x90\x80\x80");
}

TEST(Utf8Prefix, ReplacesEachByteOfNoCharacter) {
  EXPECT_EQ(Utf8Prefix("a\xFF\x80z", 9),
            absl::StrCat("a", kUtf8Replacement, kUtf8Replacement, "z"));
  EXPECT_EQ(Utf8Prefix("a\xFF\x80z", 2), absl::StrCat("a", kUtf8Replacement));
  EXPECT_EQ(Utf8Prefix("a\xC3", 9), absl::StrCat("a", kUtf8Replacement));
}

}  // namespace
}  // namespace parplan
