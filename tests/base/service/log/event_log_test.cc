#include "base/service/log/event_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

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
              testing::MatchesRegex("[0-9]+-..-..T..:..:.........Z"));

  const auto second = nlohmann::ordered_json::parse(text.substr(end + 1));
  EXPECT_EQ(second["event"], "ended");
  EXPECT_EQ(second.size(), 3);
  EXPECT_EQ(text.back(), '\n');
}

TEST(LogEvent, WritesFromTheLevelOnThatIsSet) {
  testing::internal::CaptureStderr();
  SetEventLogLevel("warning");
  LogEvent("info", "left out");
  LogEvent("warning", "written");
  SetEventLogLevel("off");
  LogEvent("error", "left out too");
  SetEventLogLevel("info");
  LogEvent("info", "written again");
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("left out")));
  EXPECT_THAT(text, testing::AllOf(testing::HasSubstr("\"written\""),
                                   testing::HasSubstr("\"written again\"")));
}

TEST(LogEvent, WritesALevelThatIsNoneOfTheThreeAsTheClosest) {
  testing::internal::CaptureStderr();
  SetEventLogLevel("trace");
  LogEvent("critical", "above");
  LogEvent("debug", "below");
  SetEventLogLevel("info");
  std::istringstream text(testing::internal::GetCapturedStderr());
  std::string above;
  std::string below;
  ASSERT_TRUE(std::getline(text, above) && std::getline(text, below));
  EXPECT_EQ(nlohmann::ordered_json::parse(above)["level"], "error");
  EXPECT_EQ(nlohmann::ordered_json::parse(below)["level"], "info");
}

TEST(LogEvent, NeverMixesLinesOfThreads) {
  testing::internal::CaptureStderr();
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([thread] {
      for (int line = 0; line < 200; ++line) {
        LogEvent("info", "line", {{"text", std::string(200, static_cast<char>('a' + thread))}});
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::istringstream text(testing::internal::GetCapturedStderr());
  int count = 0;
  for (std::string line; std::getline(text, line); ++count) {
    const auto json = nlohmann::ordered_json::parse(line, nullptr, /*allow_exceptions=*/false);
    ASSERT_FALSE(json.is_discarded()) << line;
    const std::string value = json["text"];
    EXPECT_EQ(value, std::string(200, value[0]));
  }
  EXPECT_EQ(count, 800);
}

}  // namespace
}  // namespace parplan
