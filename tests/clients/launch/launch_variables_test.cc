#include "clients/launch/launch_variables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

TEST(LaunchVariables, AreLinesAndShellWords) {
  const LaunchVariables variables = {{"A", "1"}, {"B", "it's $HOME `x`"}};
  ASSERT_OK_AND_ASSIGN(const std::string lines, VariableLines(variables));
  EXPECT_EQ(lines, "A=1\nB=it's $HOME `x`\n");
  ASSERT_OK_AND_ASSIGN(const std::string exports, ShellExports(variables));
  EXPECT_EQ(exports, "export A='1'\nexport B='it'\\''s $HOME `x`'\n");
}

TEST(LaunchVariables, ValuesOfSeveralLinesAreRefusedByName) {
  for (const std::string& value : {std::string("a\nLD_PRELOAD=b"), std::string("a\0b", 3)}) {
    const LaunchVariables variables = {{"PARPLAN_MODEL", value}};
    EXPECT_THAT(VariableLines(variables).status().message(), testing::HasSubstr("PARPLAN_MODEL"));
    EXPECT_THAT(ShellExports(variables).status().message(), testing::HasSubstr("PARPLAN_MODEL"));
  }
}

}  // namespace
}  // namespace parplan
