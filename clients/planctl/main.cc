// planctl: the command line of parplan. docs/planctl.md.

#include "base/service/shell/command_program.h"
#include "clients/planctl/commands/command.h"
#include "clients/planctl/commands/flag_names.h"
#include "clients/planctl/commands/slurm_commands.h"
#include "proto/wire/version.h"

namespace parplan::planctl {
namespace {

void AddAllCommands(Command app, const Session& session, Action& action) {
  AddPlanCommand(app, session, action);
  AddShapeCommand(app, session, action);
  AddRecommendCommand(app, session, action);
  AddCompareCommand(app, session, action);
  AddEvaluateCommand(app, session, action);
  AddVerifyCommand(app, session, action);
  AddExplainCommand(app, session, action);
  AddReportCommand(app, session, action);
  AddTraceCommand(app, session, action);
  AddExportCommand(app, session, action);
  AddIlpGraphCommand(app, session, action);
  AddImportCommand(app, session, action);
  AddProfileCommand(app, session, action);
  AddHardwareCommand(app, session, action);
  AddStrategiesCommand(app, session, action);
  AddCalibrationCommand(app, session, action);
  AddCalibrateCommand(app, session, action);
  AddRunsCommand(app, session, action);
  AddExecutionsCommand(app, session, action);
  AddSlurmCommands(app, action);
  AddCompletionCommand(app, session, action);
  shell::AddMovedCommand(app, action, "keys", "parplan-server keys");
  shell::AddMovedCommand(app, action, "store", "parplan-server store");
  shell::AddMovedCommand(app, action, "accuracy", "parplan-study accuracy");
  shell::AddMovedCommand(app, action, "oracle", "parplan-study oracle");
  for (const char* const parity : {"parity-2022", "parity"}) {
    shell::AddMovedCommand(app, action, parity, "parplan-study parity");
  }
  for (const char* const ilp : {"ilp-table", "ilp"}) {
    shell::AddMovedCommand(app, action, ilp, "parplan-study table2");
  }
}

constexpr char kDescription[] =
    "Plans how to parallelise the training of a model, and verifies and explains plans";

constexpr char kFooter[] =
    "Exit codes: 0 done, 1 internal error, 2 bad input, 3 nothing fits, 4 measurements missing, "
    "5 not verified, 6 server unavailable, 7 not found.\n"
    "Example:\n  planctl plan --offline --model deploy/examples/llama2-7b.model.json \\\n"
    "    --cluster deploy/examples/a100-40g-8.cluster.json \\\n"
    "    --profile deploy/examples/llama2-7b-a100.profile.json --batch 64";

}  // namespace

int Main(int argc, char** argv) {
  return shell::RunCommands({"planctl", kDescription, kFooter, kVersion, &NameFlags},
                            AddAllCommands, argc, argv);
}

}  // namespace parplan::planctl

int main(int argc, char** argv) { return parplan::planctl::Main(argc, argv); }
