#include "base/json/json_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

auto IsRefused(const std::string& text) {
  return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(text));
}

TEST(ReadJsonText, KnowsTheLineOfEveryValue) {
  ASSERT_OK_AND_ASSIGN(const JsonValue root,
                       ReadJsonText("\n[1,\n2\n,true,\n\"a\",\n\n{\n\"k\":\n3\n}]\n", "f"));
  std::vector<int> lines = {root.line};
  for (const JsonValue& item : root.items) lines.push_back(item.line);
  EXPECT_THAT(lines, testing::ElementsAre(2, 2, 3, 4, 5, 7));
  EXPECT_EQ(root.items[4].items[0].line, 9);
  EXPECT_EQ(root.items[4].items[0].key, "k");
}

TEST(ReadJsonText, KeepsNumbersTextsAndTheOrderOfMembers) {
  ASSERT_OK_AND_ASSIGN(
      const JsonValue root,
      ReadJsonText(R"({"b": -3, "a": "\u00e9", "c": 1.5, "d": 18446744073709551615, "a": null})",
                   "f"));
  ASSERT_EQ(root.items.size(), 5u);
  EXPECT_EQ(root.items[0].integer, -3);
  EXPECT_EQ(root.items[1].text, "\xc3\xa9");
  EXPECT_EQ(root.items[2].number, 1.5);
  EXPECT_EQ(root.items[3].type, JsonValue::Type::kNumber) << "it does not fit 64 bits with a sign";
  EXPECT_EQ(root.Find("a"), &root.items[1]) << "the first of two";
  EXPECT_EQ(root.Find("e"), nullptr);
  EXPECT_EQ(root.items[1].Find("a"), nullptr) << "no object has no members";
}

TEST(ReadJsonText, RefusesRepeatedMembersWhereAskedTo) {
  const JsonLimits strict = {.refuses_repeated_members = true};
  EXPECT_THAT(ReadJsonText("{\"a\": 1,\n\"a\": 2}", "f", strict),
              IsRefused("f:2: has the member `a` twice in one object"));
  EXPECT_THAT(ReadJsonText(R"([{"a": {"b": 1, "b": 1}}])", "f", strict), IsRefused("`b` twice"));
  EXPECT_OK(ReadJsonText(R"([{"a": {"a": 1}}, {"a": [{"a": 1}, {"a": 1}]}])", "f", strict));
  EXPECT_OK(ReadJsonText(R"({"a": 1, "a": 2})", "f"));
}

TEST(ReadJsonText, ChangesOfOneBitInAMemberNameNeverHideARepetition) {
  const std::string text = R"({"payload":"AA","payloads":"AA"})";
  for (size_t i = 0; i < 8 * text.size(); ++i) {
    std::string changed = text;
    changed[i / 8] = static_cast<char>(changed[i / 8] ^ (1 << i % 8));
    const auto value = ReadJsonText(changed, "f", {.refuses_repeated_members = true});
    if (!value.ok()) continue;
    EXPECT_EQ(value->items.size(), 2u) << changed;
    EXPECT_NE(value->items[0].key, value->items[1].key) << changed;
  }
}

// The parser ends at such a byte, and a signature, say, would not cover what follows.
TEST(ReadJsonText, RefusesAByteOfValueZeroAnywhere) {
  using namespace std::string_literals;
  for (const std::string& text :
       {"{}\0"s, "{}\n\0{\"a\": 1}"s, "\0{}"s, "[1\0]"s, "[\"a\0b\"]"s, "\0"s}) {
    EXPECT_THAT(ReadJsonText(text, "f"), IsRefused("not JSON"));
  }
  EXPECT_THAT(ReadJsonText("{}\n\0x"s, "f"),
              IsRefused("f:2: not JSON: has a byte of value 0, byte 4"));
  EXPECT_OK(ReadJsonText("[\"\\u0000\"]", "f"));
}

TEST(ReadJsonText, NamesTheLimitThatATextGoesBeyond) {
  EXPECT_THAT(ReadJsonText("[1, 2]", "f", {.max_bytes = 5}), IsRefused("longer than 5 bytes"));
  EXPECT_OK(ReadJsonText("[1, 2]", "f", {.max_bytes = 6}));
  EXPECT_THAT(ReadJsonText("[[[]]]", "f", {.max_depth = 2}), IsRefused("deeper than 2 levels"));
  EXPECT_OK(ReadJsonText("[[[]]]", "f", {.max_depth = 3}));
  EXPECT_THAT(ReadJsonText("[1, 2]", "f", {.max_values = 2}), IsRefused("more than 2 values"));
  EXPECT_OK(ReadJsonText("[1, 2]", "f", {.max_values = 3}));
}

TEST(ReadJsonText, QuotesNothingWhereTheTextMayBeSecret) {
  const std::string text = R"({"d": secret})";
  EXPECT_THAT(ReadJsonText(text, "f"), IsRefused("f:1: not JSON: parse error"));
  EXPECT_THAT(ReadJsonText(text, "f", {.quotes_text = false}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("f:1: not JSON from byte 7 on"), Not(HasSubstr("'")))));
}

}  // namespace
}  // namespace parplan
