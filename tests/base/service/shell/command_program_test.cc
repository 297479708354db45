#include "base/service/shell/command_program.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/service/shell/exit_code.h"

namespace parplan::shell {
namespace {

// Longer than the buffer of standard output, so that it is written before the flush.
constexpr int kLongerThanTheBuffer = 20'000;

// Runs `program act` with these further arguments and ends this process with its exit code.
[[noreturn]] void RunAndExit(std::vector<const char*> arguments,
                             const std::function<absl::Status(const Session&)>& act) {
  arguments.insert(arguments.begin(), {"program", "act"});
  const auto add_commands = [&act](Command program, const Session& session, Action& action) {
    program.AddCommand("act", "Acts").OnChosen([&act, &session, &action] {
      action = [&act, &session] { return act(session); };
    });
  };
  std::_Exit(RunCommands({"program", "Acts", "", "1"}, add_commands,
                         static_cast<int>(arguments.size()), arguments.data()));
}

// Lets standard output be a disk without space.
void FillStandardOutput() {
  if (std::freopen("/dev/full", "w", stdout) == nullptr) std::_Exit(99);
}

int Code(ExitCode code) { return static_cast<int>(code); }

TEST(RunCommandsDeathTest, AnAnswerThatCannotBeWrittenIsAnError) {
  for (const int size : {1, kLongerThanTheBuffer}) {
    const auto print = [size](const Session& session) {
      return Print(session, std::string(size, 'x'));
    };
    EXPECT_EXIT((FillStandardOutput(), RunAndExit({}, print)),
                testing::ExitedWithCode(Code(ExitCode::kInternal)),
                "program: INTERNAL: cannot write standard output: No space left")
        << size;
  }
}

TEST(RunCommandsDeathTest, HelpThatCannotBeWrittenIsAnError) {
  const auto act = [](const Session&) { return absl::OkStatus(); };
  for (const char* const flag : {"--help", "--version"}) {
    EXPECT_EXIT((FillStandardOutput(), RunAndExit({flag}, act)),
                testing::ExitedWithCode(Code(ExitCode::kInternal)),
                "program: cannot write standard output: No space left")
        << flag;
    EXPECT_EXIT(RunAndExit({flag}, act), testing::ExitedWithCode(Code(ExitCode::kOk)), "");
  }
}

TEST(RunCommandsDeathTest, HelpOfACommandHasTheOptionsOfTheProgram) {
  const auto act = [](const Session&) { return absl::OkStatus(); };
  EXPECT_EXIT((::dup2(STDERR_FILENO, STDOUT_FILENO), RunAndExit({"--help"}, act)),
              testing::ExitedWithCode(Code(ExitCode::kOk)),
              "Options of every command:\n *--format.*\n *--quiet");
}

TEST(RunCommandsDeathTest, AnErrorThatCannotBeWrittenAsJsonIsReported) {
  const auto fail = [](const Session&) { return absl::NotFoundError("no such plan"); };
  EXPECT_EXIT((FillStandardOutput(), RunAndExit({"--format", "json"}, fail)),
              testing::ExitedWithCode(Code(ExitCode::kNotFound)),
              "no such plan\n.*cannot write standard output");
  EXPECT_EXIT((FillStandardOutput(), RunAndExit({"--format", "json", "--fly"}, fail)),
              testing::ExitedWithCode(Code(ExitCode::kBadInput)), "cannot write standard output");
}

TEST(RunCommandsDeathTest, AnExceptionIsAnInternalError) {
  const auto fail = [](const Session&) -> absl::Status { throw std::runtime_error("odd"); };
  EXPECT_EXIT(RunAndExit({}, fail), testing::ExitedWithCode(Code(ExitCode::kInternal)),
              "program: INTERNAL: odd");
}

TEST(RunCommandsDeathTest, TextOfAFileCannotSteerTheTerminal) {
  const auto fail = [](const Session& session) {
    Note(session, "note: \x1b[2J");
    // The test sees only the standard error of a process that ends.
    if (dup2(STDERR_FILENO, STDOUT_FILENO) < 0) std::_Exit(99);
    if (const absl::Status status = Print(session, "plan \x1b]0;x\x07\n"); !status.ok())
      return status;
    return absl::NotFoundError("no \x1b[31mplan");
  };
  EXPECT_EXIT(RunAndExit({}, fail), testing::ExitedWithCode(Code(ExitCode::kNotFound)),
              R"(note: \\u001b\[2J.*plan \\u001b\]0;x\\u0007.*no \\u001b\[31mplan)");
}

}  // namespace
}  // namespace parplan::shell
