#include "base/service/shell/command_line.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

namespace parplan::shell {
namespace {

// Returns what is wrong with a command line of `program`, which has the commands `list`, `store`
// and, hidden, `keys`; `store` has `backup` and `check`.
std::string WrongWith(const std::vector<const char*>& words) {
  CommandLine line("", "program");
  Command root = line.root();
  root.RequireCommand().PassOptionsUp();
  root.AddCommand("list", "");
  root.AddCommand("keys", "").HideAndIgnoreArguments();
  Command store = root.AddCommand("store", "");
  store.RequireCommand();
  store.AddCommand("backup", "");
  std::string file;
  store.AddCommand("check", "").AddOption("--file", file).Required();
  std::vector<const char*> arguments = {"program"};
  arguments.insert(arguments.end(), words.begin(), words.end());
  ArgumentError error;
  const std::optional<int> exit_code =
      line.Parse(static_cast<int>(arguments.size()), arguments.data(), &error);
  EXPECT_EQ(exit_code, error.message.empty() ? std::nullopt : std::optional<int>(2));
  return error.message;
}

TEST(CommandLine, AMissingCommandIsNamedWithThoseThatThereAre) {
  EXPECT_EQ(WrongWith({}), "`program` needs a command: list, store");
  EXPECT_EQ(WrongWith({"store"}), "`program store` needs a command: backup, check");
  EXPECT_EQ(WrongWith({"fly"}), "`fly` is no command of `program`; it has: list, store");
  EXPECT_EQ(WrongWith({"store", "fly"}),
            "`fly` is no command of `program store`; it has: backup, check");
  // A word behind an unknown flag may be its value.
  EXPECT_EQ(WrongWith({"store", "--height", "fly"}),
            "`program store` needs a command: backup, check");
}

TEST(CommandLine, OtherMistakesKeepTheirMessages) {
  EXPECT_EQ(WrongWith({"list"}), "");
  EXPECT_EQ(WrongWith({"store", "backup"}), "");
  EXPECT_EQ(WrongWith({"store", "check"}), "--file is required");
  EXPECT_EQ(WrongWith({"list", "--height"}), "The following argument was not expected: --height");
}

// A shell makes such a text of `--file "$FILE"` if no variable has that name.
TEST(CommandLine, AnOptionWithAnEmptyTextIsRefused) {
  // A required one can't be left out.
  EXPECT_EQ(WrongWith({"store", "check", "--file", ""}), "--file must not be empty");
  EXPECT_NE(WrongWith({"store", "check", "--file="}), "");
  EXPECT_EQ(WrongWith({"store", "check", "--file", "a"}), "");
  CommandLine line("", "program");
  int count = 7;
  line.root().AddOption("--count", count);
  const char* const arguments[] = {"program", "--count", ""};
  EXPECT_EQ(line.Parse(3, arguments), 2);
  CommandLine other("", "program");
  std::string name = "x";
  other.root().AddOption("--name", name);
  const char* const empty_name[] = {"program", "--name", ""};
  ArgumentError error;
  EXPECT_EQ(other.Parse(3, empty_name, &error), 2);
  EXPECT_EQ(error.message, "--name must not be empty; leave the flag out for its default");
}

TEST(Between, ANumberIsFiniteAndWithinBothEnds) {
  const ValueCheck check = Between(0.0, 12.5);
  for (const char* const good : {"0", "12.5", "1e1"}) EXPECT_EQ(check(good), "") << good;
  for (const char* const bad :
       {"nan", "-nan", "NaN", "inf", "-inf", "-0.1", "12.6", "", "x", "1x"}) {
    EXPECT_EQ(check(bad), "must be a number from 0 to 12.5") << bad;
  }
}

TEST(Between, AWholeNumberIsWithinBothEnds) {
  const ValueCheck check = Between(1, 12);
  for (const char* const good : {"1", "12"}) EXPECT_EQ(check(good), "") << good;
  for (const char* const bad : {"0", "13", "1.5", "nan", "", "x"}) {
    EXPECT_NE(check(bad), "") << bad;
  }
}

}  // namespace
}  // namespace parplan::shell
