#include "clients/import/shell_expansion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>

namespace parplan {
namespace {

std::optional<std::string> Changed(const std::string& text, const std::string& change) {
  int64_t steps = int64_t{1} << 30;
  return ChangedText(text, change, &steps);
}

// GNU bash 5.2 writes these values for `${V...}`.
TEST(ChangedText, IsThatOfAShell) {
  const struct {
    const char* text;
    const char* change;
    const char* expected;
  } cases[] = {
      {"train_8b.json", "%.json", "train_8b"},
      {"a.b.c", "%.*", "a.b"},
      {"a.b.c", "%%.*", "a"},
      {"a/b/c", "##*/", "c"},
      {"a/b/c", "#*/", "b/c"},
      {"llama-8b", "/-/_", "llama_8b"},
      {"a-b-c", "//-/+", "a+b+c"},
      {"a-b-c", "/-/+", "a+b-c"},
      {"aXbX", "/%X/y", "aXby"},
      {"aXbX", "/#a/z", "zXbX"},
      {"abc", "/b", "ac"},
      {"abc", "/b/", "ac"},
      {"8B", ",,", "8b"},
      {"8b", "^^", "8B"},
      {"abcdef", ":2", "cdef"},
      {"abcdef", ":1:3", "bcd"},
      {"abc", ":9", ""},
      {"abc", "%x", "abc"},
      {"abcabc", "/b*/Z", "aZ"},
      {"abab", "//?b/-", "--"},
      {"abc", "/x/y", "abc"},
      {"aaa", "%a*", "aa"},
      {"aaa", "%%a*", ""},
      {"", "%a", ""},
      {"a.b", "/./-", "a-b"},
      {"", "/*/7", "7"},
      {"", "//*/7", "7"},
      {"", "/#*/7", "7"},
      {"", "/%*/7", "7"},
      {"", "/a*/7", ""},
      {"ab", "//*/7", "7"},
      {"abcbc", "%%b*c", "a"},
      {"abcbc", "%b*c", "abc"},
      {"abcbc", "#*b?", "bc"},
      {"abcbc", "/b*b/x", "axc"},
      {"abcdef", ":0:2", "ab"},
  };
  for (const auto& test : cases) {
    EXPECT_EQ(Changed(test.text, test.change), std::optional<std::string>(test.expected))
        << test.text << test.change;
  }
}

TEST(ChangedText, IsNotKnownOfOtherChanges) {
  for (const char* change :
       {"%[a-z]", "%$X",  "%\"x\"", "%'x'", "/a/$B",  "/a/&",  "@Q",  "^",    "~~",
        ":-1",    ": -1", ":1:-1",  ":a",   ":1:2:3", "?x",    "+x",  "/",    "//",
        "",       ":+1",  ":+x",    ":?x",  ":010",   ":1:+1", ": 1", ":1: 1"}) {
    EXPECT_EQ(Changed("abc", change), std::nullopt) << change;
  }
  EXPECT_EQ(Changed(std::string(2000, 'a'), "%a"), std::nullopt);
  // The locale decides what is one letter.
  for (const char* change : {"^^", ",,", ":1:1", "#?", "%?", "/?/x"}) {
    EXPECT_EQ(Changed("\xc3\xa9t", change), std::nullopt) << change;
  }
}

TEST(ChangedText, BoundsTheWorkOfPatterns) {
  const std::string text(1000, 'a');
  EXPECT_EQ(Changed(text, "//*" + std::string(500, 'a') + "b/"), std::nullopt);
  EXPECT_EQ(Changed(text, "//b/"), text);
  int64_t steps = 100;
  EXPECT_EQ(ChangedText("abcd", "%d", &steps), "abc");
  EXPECT_EQ(steps, 50);
  EXPECT_EQ(ChangedText("abcd", "%d", &steps), "abc");
  EXPECT_EQ(ChangedText("abcd", "%d", &steps), std::nullopt);
}

}  // namespace
}  // namespace parplan
