#include "base/service/shell/event_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace parplan {
namespace {

TEST(LogEvent, WritesALineOfJson) {
  testing::internal::CaptureStderr();
  LogEvent("warning", "rank said", {{"rank", "3"}, {"line", "two\nlines \xff \"quoted\""}});
  LogEvent("info", "ended");
  const std::string text = testing::internal::GetCapturedStderr();
  const size_t end = text.find('\n');
  ASSERT_NE(end, std::string::npos);

  const auto first = nlohmann::ordered_json::parse(text.substr(0, end));
  EXPECT_EQ(first["level"], "warning");
  EXPECT_EQ(first["event"], "rank said");
  EXPECT_EQ(first["rank"], "3");
  // Bytes that are not UTF-8 are replaced.
  EXPECT_EQ(first["line"], "two\nlines \xef\xbf\xbd \"quoted\"");
  EXPECT_THAT(first["time"].get<std::string>(),
              testing::MatchesRegex("[0-9]+-..-..T..:..:......Z"));

  const auto second = nlohmann::ordered_json::parse(text.substr(end + 1));
  EXPECT_EQ(second["event"], "ended");
  EXPECT_EQ(second.size(), 3);
  EXPECT_EQ(text.back(), '\n');
}

}  // namespace
}  // namespace parplan
