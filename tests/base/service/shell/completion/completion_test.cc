#include "base/service/shell/completion/completion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

namespace parplan::shell {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// A program that cannot run without an option and a command.
class Completion : public ::testing::Test {
 protected:
  Completion() {
    Command program = line_.root();
    AddCompletionOption(program);
    program.AddOption("--plan", plan_, "A plan").Required();
    program.RequireCommand();
    program.AddCommand("odd", "It's a \\ thing");
  }

  std::string plan_;
  CommandLine line_{"", "program"};
};

TEST_F(Completion, OptionPrintsTheScriptAndEndsTheProgram) {
  for (const std::string& shell : CompletionShells()) {
    const std::vector<const char*> arguments = {"program", "--completion", shell.c_str()};
    ::testing::internal::CaptureStdout();
    const std::optional<int> exit_code = line_.Parse(3, arguments.data());
    const std::string printed = ::testing::internal::GetCapturedStdout();
    EXPECT_EQ(exit_code, 0) << shell;
    EXPECT_EQ(printed, CompletionScript(line_.root(), shell, "program --completion " + shell));
    EXPECT_THAT(printed, StartsWith("# " + shell + " completion of program; made by `program "));
    EXPECT_THAT(printed, HasSubstr("odd"));
  }
}

TEST_F(Completion, OptionIsHidden) {
  EXPECT_THAT(line_.root().help(), Not(HasSubstr("--completion")));
  EXPECT_THAT(CompletionScript(line_.root(), "bash", ""), Not(HasSubstr("--completion")));
  EXPECT_THAT(CompletionScript(line_.root(), "fish", ""), Not(HasSubstr("-l completion")));
}

TEST_F(Completion, OptionRefusesOtherShells) {
  EXPECT_THAT(line_.ParseWords({"--completion", "csh"}), HasSubstr("csh not in {bash,fish}"));
}

TEST_F(Completion, QuotesWhatFishReads) {
  EXPECT_THAT(CompletionScript(line_.root(), "fish", ""), HasSubstr("'It\\'s a \\\\ thing'"));
}

}  // namespace
}  // namespace parplan::shell
