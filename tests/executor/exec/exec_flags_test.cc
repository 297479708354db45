#include "executor/exec/exec_flags.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace parplan {
namespace {

// Returns the status to exit with, -1 to go on.
int Parse(const std::string& flag, const std::string& value) {
  std::vector<std::string> words = {"parplan-exec", "--plan", "p",  "--trust", "t", "--model", "m",
                                    "--topology",   "c",      flag, value};
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  ExecFlags flags;
  testing::internal::CaptureStderr();
  const int exit_code = ParseFlags(static_cast<int>(arguments.size()), arguments.data(), flags);
  const std::string error = testing::internal::GetCapturedStderr();
  EXPECT_EQ(exit_code == -1, error.find("must be a number above 0") == std::string::npos) << error;
  return exit_code;
}

TEST(ParseFlags, TimesAndRatesAreFiniteAndAboveZero) {
  for (const char* const flag :
       {"--learning-rate", "--operation-timeout", "--time-limit", "--grace"}) {
    EXPECT_EQ(Parse(flag, "0.5"), -1) << flag;
    for (const char* const bad : {"nan", "inf", "0", "-1", "x"}) {
      EXPECT_EQ(Parse(flag, bad), 2) << flag << " " << bad;
    }
  }
}

// Returns the status to exit with, and expects the flag in an error.
int ParseNamed(const std::string& flag, const std::string& value, ExecFlags& flags) {
  std::vector<std::string> words = {"parplan-exec", "--plan", "p",  "--trust", "t", "--model", "m",
                                    "--topology",   "c",      flag, value};
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  testing::internal::CaptureStderr();
  const int exit_code = ParseFlags(static_cast<int>(arguments.size()), arguments.data(), flags);
  const std::string error = testing::internal::GetCapturedStderr();
  EXPECT_EQ(exit_code == -1, error.find(flag) == std::string::npos) << error;
  return exit_code;
}

TEST(ParseFlags, EmptyTextsAreRefused) {
  for (const char* const flag : {"--job", "--node", "--results", "--server", "--ca", "--text"}) {
    ExecFlags flags;
    EXPECT_EQ(ParseNamed(flag, "", flags), 2) << flag;
  }
}

TEST(ParseFlags, ASeedHasSixtyFourBits) {
  ExecFlags flags;
  EXPECT_EQ(ParseNamed("--seed", "18446744073709551615", flags), -1);
  EXPECT_EQ(flags.seed, 18446744073709551615u);
  for (const char* const wrong :
       {"18446744073709551616", "99999999999999999999999", "-1", "0x10000000000000000", "x"}) {
    EXPECT_EQ(ParseNamed("--seed", wrong, flags), 2) << wrong;
  }
}

TEST(ExecFlags, OnlyRanksOnProcessorsAreBoundToACoreEach) {
  ExecFlags flags;
  EXPECT_TRUE(flags.PinsToCores());
  flags.backend = "cuda";
  EXPECT_FALSE(flags.PinsToCores());
  flags.backend = "cpu";
  flags.pins = false;
  EXPECT_FALSE(flags.PinsToCores());
}

TEST(ExecFlags, ALauncherMayShowEachRankOneDevice) {
  ExecFlags flags;
  EXPECT_TRUE(flags.ShowsEachRankOneDevice(1, "3"));
  EXPECT_FALSE(flags.ShowsEachRankOneDevice(1, nullptr));
  EXPECT_FALSE(flags.ShowsEachRankOneDevice(2, "2,3"));
  // They all inherit the variable.
  flags.ranks = 2;
  EXPECT_FALSE(flags.ShowsEachRankOneDevice(1, "3"));
}

}  // namespace
}  // namespace parplan
