#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <string>

#include "absl/strings/escaping.h"
#include "proto/envelope/base64.h"
#include "proto/envelope/pre_authentication_encoding.h"
#include "proto/envelope/rfc3339.h"

namespace parplan {
namespace {

TEST(PreAuthenticationEncoding, IsThatOfThePublishedExample) {
  EXPECT_EQ(PreAuthenticationEncoding("http://example.com/HelloWorld", "hello world"),
            "DSSEv1 29 http://example.com/HelloWorld 11 hello world");
}

TEST(PreAuthenticationEncoding, CountsBytesAndKeepsThem) {
  EXPECT_EQ(PreAuthenticationEncoding("", ""), "DSSEv1 0  0 ");
  EXPECT_EQ(PreAuthenticationEncoding("é", std::string("\0\n", 2)),
            std::string("DSSEv1 2 é 2 \0\n", 16));
}

TEST(PreAuthenticationEncoding, DistinguishesWhatPlainJoiningWouldNot) {
  EXPECT_NE(PreAuthenticationEncoding("a 1 b", "c"), PreAuthenticationEncoding("a", "b 1 c"));
  EXPECT_NE(PreAuthenticationEncoding("ab", "c"), PreAuthenticationEncoding("a", "bc"));
}

// The examples of RFC 4648 §10.
TEST(Base64, ReadsAndWritesTheExamplesOfTheRfc) {
  const char* const examples[][2] = {{"", ""},
                                     {"f", "Zg=="},
                                     {"fo", "Zm8="},
                                     {"foo", "Zm9v"},
                                     {"foob", "Zm9vYg=="},
                                     {"fooba", "Zm9vYmE="},
                                     {"foobar", "Zm9vYmFy"}};
  for (const auto& [plain, encoded] : examples) {
    EXPECT_EQ(EncodeBase64(plain), encoded);
    EXPECT_EQ(DecodeBase64(encoded), plain);
  }
}

TEST(Base64, ReadsBothAlphabetsWithAndWithoutPadding) {
  const std::string bytes = "\xfb\xff\xfe\x01";
  for (const char* text : {"+//+AQ==", "-__-AQ==", "+//+AQ", "-__-AQ"}) {
    EXPECT_EQ(DecodeBase64(text), bytes) << text;
  }
  EXPECT_EQ(EncodeBase64(bytes), "+//+AQ==");
  EXPECT_EQ(EncodeBase64Url(bytes), "-__-AQ");
}

TEST(Base64, RefusesEveryOtherText) {
  for (const char* text :
       {"A",    "AAAAA",  "AA=",   "AAA==", "AA===", "AA==AA==", "=",  "==",   "====",    "A===",
        "A A=", "AAAA\n", " AAAA", "AA.=",  "Zh==",  "Zm9=",     "Zh", "+_AA", "AAA\x80", "AA=A"}) {
    EXPECT_EQ(DecodeBase64(text), std::nullopt) << text;
  }
  EXPECT_EQ(DecodeBase64(absl::string_view("AA\0A", 4)), std::nullopt);
}

TEST(Base64, ReadingUndoesWritingForAnyBytes) {
  std::mt19937 random(7);
  for (size_t size = 0; size < 200; ++size) {
    std::string bytes(size, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    EXPECT_EQ(DecodeBase64(EncodeBase64(bytes)), bytes);
    EXPECT_EQ(DecodeBase64(EncodeBase64Url(bytes)), bytes);
  }
}

TEST(Rfc3339, WritesUtcAndReadsAnyOffset) {
  const absl::Time time = absl::FromUnixSeconds(1772366400);
  EXPECT_EQ(FormatRfc3339(time), "2026-03-01T12:00:00Z");
  EXPECT_EQ(ParseRfc3339("2026-03-01T12:00:00Z"), time);
  EXPECT_EQ(ParseRfc3339("2026-03-01T13:30:00+01:30"), time);
  EXPECT_EQ(ParseRfc3339("2026-03-01T12:00:00.25Z"), time + absl::Milliseconds(250));
  EXPECT_EQ(FormatRfc3339(time + absl::Milliseconds(250)), "2026-03-01T12:00:00.25Z");
}

TEST(Rfc3339, RefusesWhatIsNoTime) {
  for (const char* text :
       {"", "2026-03-01", "2026-03-01T12:00:00", "2026-03-01T25:00:00Z", "2026-02-30T12:00:00Z",
        "infinite-future", "infinite-past", " 2026-03-01T12:00:00Z", "2026-03-01T12:00:00Z ",
        "1772366400", "12026-03-01T12:00:00Z", "-026-03-01T12:00:00Z", "0000-01-01T00:00:00Z"}) {
    EXPECT_EQ(ParseRfc3339(text), std::nullopt) << text;
  }
}

TEST(Rfc3339, ReadsTheFirstAndLastSecond) {
  for (const char* text : {"0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"}) {
    const std::optional<absl::Time> time = ParseRfc3339(text);
    ASSERT_TRUE(time.has_value()) << text;
    EXPECT_EQ(FormatRfc3339(*time), text);
  }
}

}  // namespace
}  // namespace parplan
