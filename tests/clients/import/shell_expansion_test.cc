#include "clients/import/shell_expansion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

namespace parplan {
namespace {

// What GNU bash 5.2 writes for `${V...}`.
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
  };
  for (const auto& test : cases) {
    EXPECT_EQ(ChangedText(test.text, test.change), std::optional<std::string>(test.expected))
        << test.text << test.change;
  }
}

TEST(ChangedText, IsNotKnownOfOtherChanges) {
  for (const char* change : {"%[a-z]", "%$X", "%\"x\"", "%'x'", "/a/$B", "/a/&", "@Q", "^", "~~",
                             ":-1", ": -1", ":1:-1", ":a", ":1:2:3", "?x", "+x", "/", "//", ""}) {
    EXPECT_EQ(ChangedText("abc", change), std::nullopt) << change;
  }
  EXPECT_EQ(ChangedText(std::string(2000, 'a'), "%a"), std::nullopt);
}

}  // namespace
}  // namespace parplan
