#include "base/service/shell/command_program.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>

#include <CLI/CLI.hpp>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/service/shell/exit_code.h"

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

}  // namespace

int RunCommands(const CommandProgram& program, const AddCommands& add_commands, int argc,
                const char* const* argv) {
  CLI::App app{program.description, program.name};
  app.set_version_flag("--version", absl::StrCat(program.name, " ", program.version));
  app.require_subcommand(1);
  app.fallthrough();
  app.footer(program.footer);
  Session session;
  std::string format = "text";
  app.add_option("--format", format, "text or json: one object on standard output [text]")
      ->check(CLI::IsMember({"text", "json"}));
  app.add_flag("--quiet", session.quiet, "No progress and notes on standard error");
  Action action;
  add_commands(app, session, action);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // `--help` and `--version` end here as well, with code 0.
    if (app.exit(error) == 0) return Code(ExitCode::kOk);
    if (AsksForJson(argc, argv)) {
      const absl::Status status =
          MakeError(absl::StatusCode::kInvalidArgument, Reason::kSpecInvalid,
                    absl::StrCat(error.get_name(), ": ", error.what()));
      std::printf("%s\n", ErrorJson(status).c_str());
    }
    return Code(ExitCode::kBadInput);
  }
  session.json = format == "json";
  absl::Status status;
  try {
    status = action();
  } catch (const std::exception& error) {
    status = absl::InternalError(error.what());
  }
  if (status.ok()) return Code(ExitCode::kOk);
  std::fprintf(stderr, "%s\n", ErrorText(program.name, status).c_str());
  // `planctl verify` answers and refuses.
  if (session.json && !session.answered) std::printf("%s\n", ErrorJson(status).c_str());
  return Code(ExitCodeOf(status));
}

absl::Status Print(const Session& session, absl::string_view text) {
  session.answered = true;
  std::fwrite(text.data(), 1, text.size(), stdout);
  if (std::fflush(stdout) == 0) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("cannot write standard output: ", std::strerror(errno),
                                          "; check free space and the disk"));
}

void Note(const Session& session, absl::string_view text) {
  if (session.quiet) return;
  std::fprintf(stderr, "%.*s\n", static_cast<int>(text.size()), text.data());
}

void AddMovedCommand(CLI::App& app, Action& action, const std::string& name,
                     const std::string& replacement) {
  CLI::App* const command = app.add_subcommand(name, absl::StrCat("Moved to `", replacement, "`"));
  // Without a group a command is not listed by the help.
  command->group("");
  command->allow_extras();
  // The help of a command that is gone has nothing to say; the error has.
  command->set_help_flag();
  command->add_flag("-h,--help")->group("");
  command->callback([&app, &action, name, replacement] {
    action = [&app, name, replacement] {
      return MakeError(absl::StatusCode::kInvalidArgument, Reason::kSpecInvalid,
                       absl::StrCat("`", app.get_name(), " ", name, "` is now `", replacement,
                                    "`; it takes the same arguments"));
    };
  });
}

}  // namespace parplan::shell
