// planctl: the command line of parplan. docs/planctl.md.

#include <cstdio>
#include <exception>
#include <string>

#include <CLI/CLI.hpp>

#include "absl/status/status.h"
#include "base/error.h"
#include "clients/planctl/commands/command.h"
#include "clients/planctl/commands/slurm_commands.h"
#include "clients/planctl/exit_code.h"
#include "proto/wire/version.h"
#include "server/main/store_command.h"

namespace parplan::planctl {
namespace {

// Whether the arguments ask for JSON, known also where they can't be parsed.
bool AsksForJson(int argc, char** argv) {
  bool json = false;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--format" && i + 1 < argc) json = argv[i + 1] == std::string("json");
    if (argument.rfind("--format=", 0) == 0) json = argument == "--format=json";
  }
  return json;
}

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
  AddAccuracyCommand(app, session, action);
  AddParityCommand(app, session, action);
  AddVerifyCommand(app, session, action);
  AddExplainCommand(app, session, action);
  AddReportCommand(app, session, action);
  AddExportCommand(app, session, action);
  AddImportCommand(app, session, action);
  AddProfileCommand(app, session, action);
  AddHardwareCommand(app, session, action);
  AddCalibrationCommand(app, session, action);
  AddCalibrateCommand(app, session, action);
  AddOracleCommand(app, session, action);
  AddIlpTableCommand(app, session, action);
  AddRunsCommand(app, session, action);
  AddExecutionsCommand(app, session, action);
  AddKeysCommand(app, session, action);
  AddStoreCommand(app, session, action);
  AddSlurmCommands(app, action);
  AddCompletionCommand(app, session, action);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // `--help` and `--version` end here as well, with code 0.
    if (app.exit(error) == 0) return static_cast<int>(ExitCode::kOk);
    if (AsksForJson(argc, argv)) {
      const absl::Status status =
          MakeError(absl::StatusCode::kInvalidArgument, Reason::kSpecInvalid,
                    error.get_name() + ": " + error.what());
      std::printf("%s\n", ErrorJson(status).c_str());
    }
    return static_cast<int>(ExitCode::kBadInput);
  }
  session.json = format == "json";
  absl::Status status;
  try {
    status = action();
  } catch (const std::exception& error) {
    status = absl::InternalError(error.what());
  }
  if (status.ok()) return static_cast<int>(ExitCode::kOk);
  std::fprintf(stderr, "%s\n", ErrorText(status).c_str());
  // A refusal of `verify` has been answered already.
  if (session.json && !session.answered) std::printf("%s\n", ErrorJson(status).c_str());
  return static_cast<int>(ExitCodeOf(status));
}

}  // namespace
}  // namespace parplan::planctl

int main(int argc, char** argv) { return parplan::planctl::Run(argc, argv); }
