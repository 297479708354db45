#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "absl/time/time.h"
#include "base/service/shell/duration_flag.h"
#include "base/service/shell/watch_flags.h"

namespace parplan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Parses `words` and returns the error text; empty if they are accepted.
std::string Parse(CLI::App& app, std::vector<std::string> words) {
  // CLI11 takes them from the back.
  std::vector<std::string> backwards(words.rbegin(), words.rend());
  try {
    app.parse(backwards);
  } catch (const CLI::ParseError& error) {
    return error.what();
  }
  return "";
}

class DurationFlagTest : public testing::Test {
 protected:
  DurationFlagTest() { AddDurationFlag(app_, "--pause", pause_, "How long [5m]"); }

  CLI::App app_;
  absl::Duration pause_ = absl::Minutes(5);
};

TEST_F(DurationFlagTest, LeavesItsDefault) {
  EXPECT_THAT(Parse(app_, {}), IsEmpty());
  EXPECT_EQ(pause_, absl::Minutes(5));
}

TEST_F(DurationFlagTest, TakesDurations) {
  EXPECT_THAT(Parse(app_, {"--pause", "1h30m"}), IsEmpty());
  EXPECT_EQ(pause_, absl::Minutes(90));
}

TEST_F(DurationFlagTest, RefusesWhatIsNone) {
  for (const char* const text : {"soon", "30", "5 m"}) {
    EXPECT_THAT(Parse(app_, {std::string("--pause=") + text}),
                AllOf(HasSubstr("--pause"), HasSubstr("30s")))
        << text;
  }
}

TEST_F(DurationFlagTest, RefusesWhatIsNotAboveZero) {
  for (const char* const text : {"0s", "-3m"}) {
    EXPECT_THAT(Parse(app_, {std::string("--pause=") + text}), HasSubstr("is not above 0")) << text;
  }
  EXPECT_EQ(pause_, absl::Minutes(5));
}

class WatchFlagsTest : public testing::Test {
 protected:
  WatchFlagsTest() { AddWatchFlags(app_, "Server", watch_); }

  CLI::App app_;
  WatchOptions watch_ = {.health_listen = "127.0.0.1:1", .metrics_listen = "127.0.0.1:2"};
};

TEST_F(WatchFlagsTest, TellTheirDefaults) {
  EXPECT_THAT(app_.help(), AllOf(HasSubstr("127.0.0.1:1"), HasSubstr("127.0.0.1:2")));
  EXPECT_THAT(Parse(app_, {}), IsEmpty());
  EXPECT_EQ(watch_.health_listen, "127.0.0.1:1");
  EXPECT_EQ(watch_.metrics_listen, "127.0.0.1:2");
}

TEST_F(WatchFlagsTest, GiveWhatIsAskedFor) {
  EXPECT_THAT(Parse(app_, {"--listen", "unix:/s", "--metrics-listen", "off", "--port-file", "p",
                           "--metrics-port-file", "m"}),
              IsEmpty());
  EXPECT_EQ(watch_.health_listen, "unix:/s");
  EXPECT_EQ(watch_.metrics_listen, "");
  EXPECT_EQ(watch_.health_port_file, "p");
  EXPECT_EQ(watch_.metrics_port_file, "m");
}

}  // namespace
}  // namespace parplan
