// planctl: the command line of parplan. docs/planctl.md.

#include <cstdio>
#include <string>

#include <CLI/CLI.hpp>

#include "absl/status/status.h"
#include "clients/planctl/commands/command.h"
#include "clients/planctl/exit_code.h"
#include "proto/wire/version.h"

namespace parplan::planctl {
namespace {

int Run(int argc, char** argv) {
  CLI::App app{"Plans how to parallelise the training of a model, and verifies and explains plans",
               "planctl"};
  app.set_version_flag("--version", std::string("planctl ") + kVersion);
  app.require_subcommand(1);
  app.fallthrough();
  app.footer(
      "Exit codes: 0 done, 1 internal error, 2 bad input, 3 nothing fits, 4 measurements missing, "
      "5 not verified, 6 server unavailable, 7 not found.\n"
      "Example:\n  planctl plan --offline --model deploy/examples/llama2-7b.model.json \\\n"
      "    --cluster deploy/examples/a100-40g-8.cluster.json \\\n"
      "    --profile deploy/examples/llama2-7b-a100.profile.json --batch 64");
  Session session;
  std::string format = "text";
  app.add_option("--format", format, "text or json: one object on standard output [text]")
      ->check(CLI::IsMember({"text", "json"}));
  app.add_flag("--quiet", session.quiet, "No progress and notes on standard error");

  Action action;
  AddPlanCommand(app, session, action);
  AddShapeCommand(app, session, action);
  AddCompareCommand(app, session, action);
  AddEvaluateCommand(app, session, action);
  AddVerifyCommand(app, session, action);
  AddExplainCommand(app, session, action);
  AddReportCommand(app, session, action);
  AddExportCommand(app, session, action);
  AddImportCommand(app, session, action);
  AddProfileCommand(app, session, action);
  AddKeysCommand(app, session, action);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // `--help` and `--version` end here as well, with code 0.
    const int code = app.exit(error);
    return static_cast<int>(code == 0 ? ExitCode::kOk : ExitCode::kBadInput);
  }
  session.json = format == "json";
  const absl::Status status = action();
  if (status.ok()) return static_cast<int>(ExitCode::kOk);
  std::fprintf(stderr, "%s\n", ErrorText(status).c_str());
  // A refusal of `verify` has been answered already.
  if (session.json && !session.answered) std::printf("%s\n", ErrorJson(status).c_str());
  return static_cast<int>(ExitCodeOf(status));
}

}  // namespace
}  // namespace parplan::planctl

int main(int argc, char** argv) { return parplan::planctl::Run(argc, argv); }
