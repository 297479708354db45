#include "base/service/shell/completion/command_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

namespace parplan::shell {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A program with a command that has a command.
class CommandTreeTest : public ::testing::Test {
 protected:
  CommandTreeTest() {
    line_.SetVersion("1");
    Command program = line_.root();
    program.PassOptionsUp();
    program.AddOption("--format", text_).Check(OneOf({"text", "json"}));
    program.AddFlag("-q,--quiet", quiet_);
    Command keys = program.AddCommand("keys", "Keys of a server");
    Command rotate = keys.AddCommand("rotate", "A new key");
    rotate.AddOption("--data-dir", text_, "The folder");
    rotate.AddOption("--days", number_);
    rotate.AddOption("key", text_);
    program.AddCommand("hidden", "").HideAndIgnoreArguments();
    for (const CommandNode& node : CommandTree(program)) nodes_[node.path] = node;
  }

  // The flag of a command; a flag without names where it has none.
  CommandValue Flag(const std::string& path, const std::string& name) const {
    for (const CommandValue& flag : nodes_.at(path).flags) {
      for (const std::string& own : flag.names) {
        if (own == name) return flag;
      }
    }
    return {};
  }

  CommandLine line_{"", "program"};
  std::string text_;
  int number_ = 0;
  bool quiet_ = false;
  std::map<std::string, CommandNode> nodes_;
};

TEST_F(CommandTreeTest, HasEveryCommandByItsWords) {
  EXPECT_THAT(nodes_.at("").commands, ElementsAre("keys"));
  EXPECT_THAT(nodes_.at("keys").commands, ElementsAre("rotate"));
  EXPECT_THAT(nodes_.at("keys rotate").commands, IsEmpty());
  EXPECT_EQ(nodes_.at("keys").help, "Keys of a server");
  EXPECT_EQ(nodes_.size(), 3);
}

TEST_F(CommandTreeTest, KnowsWhatFollowsAFlag) {
  EXPECT_EQ(Flag("", "--format").kind, ValueKind::kChoice);
  EXPECT_THAT(Flag("", "--format").choices, ::testing::UnorderedElementsAre("text", "json"));
  EXPECT_EQ(Flag("", "-q").kind, ValueKind::kNone);
  EXPECT_THAT(Flag("", "-q").names, ElementsAre("-q", "--quiet"));
  EXPECT_EQ(Flag("keys rotate", "--data-dir").kind, ValueKind::kFile);
  EXPECT_EQ(Flag("keys rotate", "--days").kind, ValueKind::kOther);
  ASSERT_EQ(nodes_.at("keys rotate").positionals.size(), 1);
  EXPECT_EQ(nodes_.at("keys rotate").positionals[0].kind, ValueKind::kFile);
}

TEST_F(CommandTreeTest, FlagsOfTheProgramMayFollowItsCommands) {
  EXPECT_EQ(Flag("keys rotate", "--format").kind, ValueKind::kChoice);
  EXPECT_THAT(Flag("keys rotate", "--version").names, IsEmpty());
  EXPECT_THAT(Flag("keys rotate", "--help").names, ElementsAre("-h", "--help"));
}

}  // namespace
}  // namespace parplan::shell
