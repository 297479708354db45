#include "clients/kubernetes/sidecar_flags.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/service/shell/command_line.h"
#include "base/service/shell/completion/completion.h"
#include "base/service/shell/duration_flag.h"
#include "base/service/shell/empty_text.h"
#include "clients/cpp/flags/tls_flags.h"
#include "clients/launch/launch_exports.h"
#include "proto/wire/resource_name.h"
#include "proto/wire/version.h"

namespace parplan::sidecar {
namespace {

constexpr int kUsageError = 2;

constexpr char kFooter[] = R"(
Durations are written like 30s, 5m or 24h.

Examples: in a pod, first the init container, then the sidecar
  parplan-sidecar init --server dns:///parplan-server:9477 --cluster lab --job 4711 \
      --trust /trust/trust-bundle.jwks.json --volume /plan
  parplan-sidecar run --server dns:///parplan-server:9477 \
      --trust /trust/trust-bundle.jwks.json --volume /plan --socket /plan/parplan.sock

Exit codes
  0  the plan is on the volume (init); ended by a signal with everything sent (run)
  1  failed: standard error says why
  2  wrong flag or file
  3  no plan fits (--question)
  4  measurements are missing (--question)
  5  the plan was refused: signature, time, job, node or topology
  6  the server could not be reached in time; windows that it did not receive are kept
  7  the plan was not made in time)";

void AddServer(CLI::App& app, SidecarFlags& flags) {
  const char* const group = "Server";
  app.add_option("--server", flags.server.target,
                 "Address of parplan-server: HOST:PORT, or dns:///NAME:PORT for replicas")
      ->envname("PARPLAN_SERVER")
      ->capture_default_str()
      ->group(group);
  AddTlsFlags(app, group, flags.server);
  AddDurationFlag(app, "--call-timeout", flags.call_timeout, "For one answer of the server [1m]");
}

void AddPod(CLI::App& app, SidecarFlags& flags) {
  const char* const group = "Pod";
  app.add_option("--volume", flags.files.folder, "Folder that the containers of the pod share")
      ->required()
      ->group(group);
  app.add_option("--trust", flags.wanted.trust_file, "Trust bundle (JWKS)")
      ->required()
      ->group(group);
  app.add_option("--node", flags.wanted.node_name,
                 "This node; refuses plans that name nodes and not this one")
      ->group(group);
  app.add_option("--node-rank", flags.files.node_rank,
                 "Number of this pod in the job, from 0; needed where the plan names no nodes")
      ->envname("JOB_COMPLETION_INDEX")
      ->check(CLI::Range(0, 1 << 20))
      ->group(group);
  app.add_option("--master-address", flags.files.master_address,
                 "How others reach the pod of rank 0")
      ->group(group);
  app.add_option("--master-port", flags.files.master_port, "A free port there")
      ->check(CLI::Range(1, 65534))
      ->group(group);
  // An annotation of the pod that is absent gives an empty variable.
  app.add_option_function<std::string>(
         "--export",
         [&flags](const std::string& text) {
           absl::StatusOr<std::vector<const PlanExporter*>> exporters =
               ReadExportTargets(text, "--export");
           if (!exporters.ok()) {
             throw CLI::ValidationError("--export", std::string(exporters.status().message()));
           }
           flags.files.exporters = *std::move(exporters);
         },
         absl::StrCat("Also write the files of these programs, separated by commas: ",
                      absl::StrJoin(ExportTargets(), ", ")))
      ->envname("PARPLAN_EXPORT")
      ->group(group);
}

void AddInit(CLI::App& app, SidecarFlags& flags) {
  AddServer(app, flags);
  AddPod(app, flags);
  const char* const group = "Plan";
  CLI::Option* const job =
      app.add_option("--job", flags.wanted.job_id,
                     "The newest plan of this job in --cluster; with another way to name the "
                     "plan: refuses those of other jobs")
          ->group(group);
  CLI::Option* const cluster =
      app.add_option("--cluster", flags.wanted.cluster, "Name of the cluster")->group(group);
  CLI::Option* const name =
      app.add_option("--plan", flags.wanted.name, "Name: clusters/CLUSTER/plans/PLAN")
          ->group(group);
  CLI::Option* const question =
      app.add_option("--question", flags.wanted.question_file,
                     "Ask the server for the plan: file with a CreatePlanRequest (JSON)")
          ->group(group);
  // An annotation of the pod that is absent gives an empty variable.
  app.add_option_function<std::string>(
         "--nodes",
         [&flags](const std::string& text) {
           if (text.empty()) return;
           int count = 0;
           if (!absl::SimpleAtoi(text, &count) || count < 1) {
             throw CLI::ValidationError("--nodes", "must be a whole number of at least 1");
           }
           flags.wanted.node_count = count;
         },
         "Nodes to ask for in --question instead of those in the file")
      ->envname("PARPLAN_NODES")
      ->group(group);
  CLI::Option* const file =
      app.add_option("--file", flags.wanted.file, "Signed plan (DSSE, JSON); needs no server")
          ->group(group);
  CLI::Option* const model =
      app.add_option("--model", flags.wanted.model_file, "Model of --file")->group(group);
  CLI::Option* const topology =
      app.add_option("--topology", flags.wanted.topology_file, "Cluster file of --file")
          ->group(group);
  file->needs(model)->needs(topology);
  model->needs(file);
  topology->needs(file);
  file->excludes(name)->excludes(question);
  name->excludes(question);
  AddDurationFlag(app, "--deadline", flags.deadline, "How long to wait for server and plan [5m]");
  app.callback([&flags, job, cluster, name, question, file] {
    flags.command = SidecarFlags::Command::kInit;
    if (flags.wanted.node_count > 0 && question->count() == 0) {
      throw CLI::ValidationError("--nodes", "is for --question; other plans have their nodes");
    }
    if (file->count() > 0 || name->count() > 0 || question->count() > 0) return;
    if (job->count() == 0 || cluster->count() == 0) {
      throw CLI::ValidationError("which plan",
                                 "give --job and --cluster, --plan, --question, or "
                                 "--file");
    }
  });
}

void AddRun(CLI::App& app, SidecarFlags& flags) {
  AddServer(app, flags);
  AddPod(app, flags);
  const char* const group = "Sidecar";
  app.add_option("--socket", flags.socket, "Unix socket for the job's reports [none]")
      ->group(group);
  app.add_option("--state-dir", flags.state_dir,
                 "Folder for what the server has not had yet [.sidecar on the volume]")
      ->group(group);
  AddWatchFlags(app, group, flags.watch);
  AddDurationFlag(app, "--look-every", flags.look_interval, "Between looks for a newer plan [30s]");
  app.add_option("--drift-limit", flags.drift_limit,
                 "Measured over predicted step time, or its inverse, above which drift is logged")
      ->check(shell::Between(1.001, 1000.0), "FLOAT in [1.001 - 1000]")
      ->capture_default_str()
      ->group(group);
  AddDurationFlag(app, "--drain-time", flags.drain_time,
                  "How long to bring the rest to the server after SIGTERM [20s]");
  app.callback([&flags] { flags.command = SidecarFlags::Command::kRun; });
}

// Checks rules that no single option can check.
absl::Status Check(const SidecarFlags& flags) {
  if (flags.wanted.name.empty()) return absl::OkStatus();
  return PlanName::Parse(flags.wanted.name, "--plan").status();
}

}  // namespace

std::variant<SidecarFlags, int> ReadFlags(int argc, const char* const* argv) {
  SidecarFlags flags;
  bool check_only = false;
  CLI::App app("Brings a verified plan into a pod, and the pod's measurements out.",
               "parplan-sidecar");
  app.set_version_flag("--version", std::string("parplan-sidecar ") + kVersion);
  shell::AddCompletionOption(app);
  app.footer(kFooter);
  app.require_subcommand(1);
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  CLI::App* const init = app.add_subcommand("init", "Put a verified plan on a shared volume");
  CLI::App* const run = app.add_subcommand(
      "run", "Forward the job's measurements, follow its plan, serve health and metrics");
  for (CLI::App* const command : {init, run}) {
    command->option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    command->add_flag("--check-config", check_only, "Check the flags, and end");
  }
  AddInit(*init, flags);
  AddRun(*run, flags);
  try {
    app.parse(argc, argv);
    shell::RefuseEmptyTexts(app);
  } catch (const CLI::ParseError& error) {
    return shell::ExitAfter(app, error);
  }
  flags.files.trust_file = flags.wanted.trust_file;
  flags.files.node_name = flags.wanted.node_name;
  if (flags.state_dir.empty()) flags.state_dir = absl::StrCat(flags.files.folder, "/.sidecar");
  if (const absl::Status status = Check(flags); !status.ok()) {
    std::cerr << "parplan-sidecar: " << std::string(status.message()) << "\n";
    return kUsageError;
  }
  if (check_only) {
    std::cout << "parplan-sidecar: flags are good\n";
    return 0;
  }
  return flags;
}

}  // namespace parplan::sidecar
