#include "base/service/shell/command_program.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/service/shell/completion/completion.h"
#include "base/service/shell/exit_code.h"
#include "base/service/shell/printable_text.h"
#include "base/system/posix_file.h"

namespace parplan::shell {
namespace {

// Whether the arguments ask for JSON; works on arguments that can't be parsed, too.
bool AsksForJson(int argc, const char* const* argv) {
  bool json = false;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--format" && i + 1 < argc) json = argv[i + 1] == std::string("json");
    if (argument.rfind("--format=", 0) == 0) json = argument == "--format=json";
  }
  return json;
}

int Code(ExitCode code) { return static_cast<int>(code); }

// Prints an error to standard error.
void PrintErrorText(const std::string& program_name, const absl::Status& status) {
  std::fprintf(stderr, "%s\n", PrintableText(ErrorText(program_name, status)).c_str());
}

// Prints an error as the answer; if that fails, says so on standard error.
void PrintErrorJson(const std::string& program_name, const Session& session,
                    const absl::Status& status) {
  const absl::Status printed = Print(session, absl::StrCat(ErrorJson(status), "\n"));
  if (!printed.ok()) PrintErrorText(program_name, printed);
}

}  // namespace

int RunCommands(const CommandProgram& program, const AddCommands& add_commands, int argc,
                const char* const* argv) {
  CommandLine line(program.description, program.name);
  line.SetVersion(absl::StrCat(program.name, " ", program.version));
  Command root = line.root();
  root.RequireCommand().PassOptionsUp().Footer(program.footer);
  AddCompletionOption(root);
  Session session;
  std::string format = "text";
  root.AddOption("--format", format, "text or json: one object on standard output [text]")
      .Check(OneOf({"text", "json"}));
  root.AddFlag("--quiet", session.quiet, "No progress and notes on standard error");
  Action action;
  add_commands(root, session, action);

  ArgumentError wrong;
  if (const std::optional<int> exit_code = line.Parse(argc, argv, &wrong)) {
    if (*exit_code == Code(ExitCode::kBadInput) && AsksForJson(argc, argv)) {
      const absl::Status status =
          MakeError(absl::StatusCode::kInvalidArgument, Reason::kSpecInvalid,
                    absl::StrCat(wrong.kind, ": ", wrong.message));
      PrintErrorJson(program.name, session, status);
    }
    return *exit_code;
  }
  session.json = format == "json";
  absl::Status status;
  try {
    status = action();
  } catch (const std::exception& error) {
    status = absl::InternalError(error.what());
  }
  if (status.ok()) return Code(ExitCode::kOk);
  if (program.reword_error) status = program.reword_error(status);
  PrintErrorText(program.name, status);
  // `planctl verify` answers and refuses.
  if (session.json && !session.answered) PrintErrorJson(program.name, session, status);
  return Code(ExitCodeOf(status));
}

absl::Status Print(const Session& session, absl::string_view text) {
  session.answered = true;
  // A text larger than the buffer is written at once: if that fails, nothing is left to flush, and
  // `fflush` succeeds.
  const std::string shown = PrintableText(text);
  const bool is_written = std::fwrite(shown.data(), 1, shown.size(), stdout) == shown.size();
  if (is_written && std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return absl::OkStatus();
  return absl::InternalError(DescribeErrno(errno, "cannot write standard output"));
}

void Note(const Session& session, absl::string_view text) {
  if (session.quiet) return;
  std::fprintf(stderr, "%s\n", PrintableText(text).c_str());
}

void AddMovedCommand(Command program, Action& action, const std::string& name,
                     const std::string& replacement) {
  Command command = program.AddCommand(name, absl::StrCat("Moved to `", replacement, "`"));
  command.HideAndIgnoreArguments();
  command.OnChosen([program, &action, name, replacement] {
    action = [program, name, replacement] {
      return MakeError(absl::StatusCode::kInvalidArgument, Reason::kSpecInvalid,
                       absl::StrCat("`", program.name(), " ", name, "` is now `", replacement,
                                    "`; it takes the same arguments"));
    };
  });
}

}  // namespace parplan::shell
