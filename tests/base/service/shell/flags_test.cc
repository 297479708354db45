#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "base/service/shell/command_line.h"
#include "base/service/shell/duration_flag.h"
#include "base/service/shell/watch_flags.h"

namespace parplan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class DurationFlag : public testing::Test {
 protected:
  DurationFlag() { AddDurationFlag(line_.root(), "--pause", pause_, "How long [5m]"); }

  shell::CommandLine line_{"", "program"};
  absl::Duration pause_ = absl::Minutes(5);
};

TEST_F(DurationFlag, LeavesItsDefault) {
  EXPECT_THAT(line_.ParseWords({}), IsEmpty());
  EXPECT_EQ(pause_, absl::Minutes(5));
}

TEST_F(DurationFlag, TakesDurations) {
  EXPECT_THAT(line_.ParseWords({"--pause", "1h30m"}), IsEmpty());
  EXPECT_EQ(pause_, absl::Minutes(90));
}

TEST_F(DurationFlag, RefusesWhatIsNone) {
  for (const char* const text : {"soon", "30", "5 m"}) {
    EXPECT_THAT(line_.ParseWords({std::string("--pause=") + text}),
                AllOf(HasSubstr("--pause"), HasSubstr("30s")))
        << text;
  }
}

TEST_F(DurationFlag, RefusesWhatIsNotAboveZero) {
  for (const char* const text : {"0s", "-3m"}) {
    EXPECT_THAT(line_.ParseWords({std::string("--pause=") + text}), HasSubstr("is not above 0"))
        << text;
  }
  EXPECT_EQ(pause_, absl::Minutes(5));
}

class WatchFlags : public testing::Test {
 protected:
  WatchFlags() { AddWatchFlags(line_.root(), "Server", watch_); }

  shell::CommandLine line_{"", "program"};
  WatchOptions watch_ = {.health_listen = "127.0.0.1:1", .metrics_listen = "127.0.0.1:2"};
};

TEST_F(WatchFlags, ShowTheirDefaults) {
  EXPECT_THAT(line_.root().help(), AllOf(HasSubstr("127.0.0.1:1"), HasSubstr("127.0.0.1:2")));
  EXPECT_THAT(line_.ParseWords({}), IsEmpty());
  EXPECT_EQ(watch_.health_listen, "127.0.0.1:1");
  EXPECT_EQ(watch_.metrics_listen, "127.0.0.1:2");
  EXPECT_EQ(watch_.log_level, "info");
}

TEST_F(WatchFlags, GiveWhatIsAskedFor) {
  EXPECT_THAT(line_.ParseWords({"--listen", "unix:/s", "--metrics-listen", "off", "--port-file",
                                "p", "--metrics-port-file", "m", "--log-level", "warning"}),
              IsEmpty());
  EXPECT_EQ(watch_.health_listen, "unix:/s");
  EXPECT_EQ(watch_.metrics_listen, "");
  EXPECT_EQ(watch_.health_port_file, "p");
  EXPECT_EQ(watch_.metrics_port_file, "m");
  EXPECT_EQ(watch_.log_level, "warning");
}

TEST_F(WatchFlags, RefuseALevelThatIsNone) {
  EXPECT_THAT(line_.ParseWords({"--log-level", "loud"}), HasSubstr("--log-level"));
}

}  // namespace
}  // namespace parplan
