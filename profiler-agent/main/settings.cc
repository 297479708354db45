#include "profiler-agent/main/settings.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <iostream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/check.h"
#include "base/service/shell/completion/completion.h"
#include "base/service/shell/duration_flag.h"
#include "base/service/shell/empty_text.h"
#include "base/service/shell/state_folder.h"
#include "base/service/shell/watch_flags.h"
#include "base/system/posix_file.h"
#include "base/utf8.h"
#include "clients/cpp/flags/tls_flags.h"
#include "proto/wire/resource_name.h"
#include "proto/wire/version.h"

namespace parplan {
namespace {

constexpr int kUsageError = 2;
// Bytes of a configuration file, which has some fifty options.
constexpr size_t kMaxConfigBytes = size_t{1} << 20;

constexpr char kFooter[] = R"(
Durations are written like 30s, 5m or 24h.

Examples: measure two cores into files for planctl; run as a service
  parplan-agent --once --ranks 2 --model gpt.json --out profile.json \
      --topology-out cluster.json
  parplan-agent --server planner:9477 --cluster lab --node n1 --backend cuda --ranks 8
The same layers as modules of PyTorch:
  parplan-agent --once --ranks 2 --runtime torch --model gpt.json \
      --torch-model hf:config.json --out torch.profile.json

Exit codes
  0  success; without --once, also ended by a signal
  1  failed to measure or to start; the reason is on standard error
  2  wrong flag or configuration file
  3  the node is busy (--once)
  4  ended by a signal during a measurement (--once))";

std::string HostName() {
  char name[256] = {};
  return ::gethostname(name, sizeof(name) - 1) == 0 ? name : "localhost";
}

// Returns a valid node name derived from the host name.
std::string MachineName() {
  std::string result = absl::AsciiStrToLower(HostName());
  result = result.substr(0, result.find('.'));
  for (char& c : result) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c))) c = '-';
  }
  while (!result.empty() && result.front() == '-') result.erase(0, 1);
  return result.empty() ? "node" : result;
}

// Flags about PyTorch.
struct TorchFlags {
  std::string runtime = "parplan";
  std::vector<std::string> models;
  std::vector<std::string> arguments;
  std::string program = "parplan-torch";
};

// Checks the flags against the others, and adds them to the request. Throws as CLI11 does.
void TakeTorchFlags(const TorchFlags& flags, Settings& settings) {
  DaemonOptions& daemon = settings.daemon;
  if (flags.runtime == "parplan") {
    if (!flags.models.empty() || !flags.arguments.empty()) {
      throw CLI::ValidationError("--torch-model and --torch-argument", "need --runtime torch");
    }
    return;
  }
  if (flags.models.empty() || flags.models.size() != settings.model_paths.size()) {
    throw CLI::ValidationError("--torch-model",
                               "give one for each --model, and with --runtime torch at least one");
  }
  if (!daemon.link_nodes.empty()) {
    throw CLI::ValidationError("--link-node",
                               "links are measured with --runtime parplan alone; leave it out");
  }
  agent::v1::TorchProbe& torch = daemon.request.torch.emplace();
  torch.set_program(flags.program);
  torch.set_runtime_id(flags.runtime);
  torch.mutable_models()->Assign(flags.models.begin(), flags.models.end());
  torch.mutable_arguments()->Assign(flags.arguments.begin(), flags.arguments.end());
}

// The back ends that `--backend` names, with the devices that they measure.
constexpr struct {
  const char* name;
  DeviceType device_type;
} kBackends[] = {{"cpu", DeviceType::kCpu}, {"cuda", DeviceType::kCuda}};

std::vector<std::string> BackendNames() {
  std::vector<std::string> names;
  for (const auto& backend : kBackends) names.emplace_back(backend.name);
  return names;
}

// REQUIRES: `BackendNames()` has `backend`; aborts otherwise.
DeviceType DeviceTypeOf(absl::string_view backend) {
  for (const auto& each : kBackends) {
    if (each.name == backend) return each.device_type;
  }
  PARPLAN_CHECK(false);
}

void AddMeasurement(CLI::App& app, Settings& settings, std::string& backend, TorchFlags& torch) {
  DaemonOptions& daemon = settings.daemon;
  const char* const group = "Measurement";
  app.add_option("--ranks", daemon.request.rank_count, "Number of devices to measure [all]")
      ->check(CLI::Range(1, 1024))
      ->group(group);
  app.add_option("--backend", backend, "Kind of device: cpu (cores) or cuda (GPUs)")
      ->check(CLI::IsMember(BackendNames()))
      ->capture_default_str()
      ->group(group);
  app.add_option("--model", settings.model_paths,
                 "Model file whose layers are measured; repeatable")
      ->group(group);
  app.add_option("--runtime", torch.runtime,
                 "Layers to measure: those of parplan's executor (parplan), or modules of PyTorch "
                 "(torch; torch-compile through torch.compile)")
      ->check(CLI::IsMember({"parplan", "torch", "torch-compile"}))
      ->capture_default_str()
      ->group(group);
  app.add_option("--torch-model", torch.models,
                 "Model of PyTorch with the layers of a --model file, hf:config.json or "
                 "module:callable; once for each --model, in their order")
      ->group(group);
  app.add_option("--torch-argument", torch.arguments,
                 "Further argument of parplan-torch profile, such as --sequence-parallel; "
                 "repeatable, written --torch-argument=--sequence-parallel")
      ->group(group);
  app.add_option("--torch-program", torch.program,
                 "Path of parplan-torch, or its name in a folder of PATH")
      ->capture_default_str()
      ->group(group);
  AddDurationFlag(app, "--budget", daemon.request.time_budget,
                  "Time limit of a complete measurement [3m]");
  AddDurationFlag(app, "--incremental-budget", daemon.request.incremental_time_budget,
                  "Time limit of a measurement of only what is new or has drifted [20s]");
  app.add_option("--max-message-bytes", daemon.request.largest_message_bytes,
                 "Largest message size of collectives, in bytes")
      ->check(CLI::Range(int64_t{4096}, int64_t{1} << 30))
      ->capture_default_str()
      ->group(group);
  app.add_option("--micro-batches", daemon.request.micro_batch_sizes,
                 "Micro-batch sizes at which layers are measured [1 2 4 8]")
      ->check(CLI::Range(1, 1024))
      ->group(group);
  app.add_flag("--even-if-busy", daemon.measurement.even_if_busy,
               "Measure even if other processes use this node")
      ->group(group);
  app.add_flag("--pin,!--no-pin", daemon.measurement.pins,
               "Bind each rank to a core of its own; without this, times on cores are unreliable "
               "[yes]")
      ->group(group);
  app.add_option("--sysfs-root", daemon.measurement.inventory.sysfs_root,
                 "Folder where sysfs is mounted")
      ->capture_default_str()
      ->group(group);
  app.add_option("--nvml-library", daemon.measurement.inventory.gpus.library,
                 "File or name of NVIDIA's management library")
      ->capture_default_str()
      ->group(group);
  app.add_option("--probe-program", daemon.measurement.probe_program,
                 "Program that runs one rank [parplan-agent-probe in the folder of this program]")
      ->group(group);
}

void AddServer(CLI::App& app, Settings& settings) {
  DaemonOptions& daemon = settings.daemon;
  const char* const group = "Server";
  app.add_option("--server", daemon.server.target,
                 "Address of parplan-server: HOST:PORT, or a name or list of replicas")
      ->capture_default_str()
      ->group(group);
  AddTlsFlags(app, group, daemon.server);
  app.add_option("--state-dir", daemon.state_dir,
                 "Folder for the upload queue and for measured profiles")
      ->capture_default_str()
      ->group(group);
  app.add_option("--spool-dir", daemon.spool_dir,
                 "Folder in which jobs leave their measurements [none]")
      ->group(group);
  app.add_flag("--leases,!--no-leases", daemon.takes_leases,
               "Let other agents borrow this node, through the server, to measure links [yes]")
      ->group(group);
  app.add_option("--link-node", daemon.link_nodes,
                 "Nodes whose links this agent measures, this node first; repeatable")
      ->group(group);
  app.add_option("--host", daemon.host,
                 "Host name or address under which other nodes reach this one")
      ->capture_default_str()
      ->group(group);
  AddWatchFlags(app, group, daemon.watch);
  AddDurationFlag(app, "--look-interval", daemon.look_interval,
                  "Interval between checks for a better replica of the server [3m]");
  AddDurationFlag(app, "--longest-age", daemon.longest_age,
                  "Age after which everything is measured again [168h]");
  AddDurationFlag(app, "--busy-pause", daemon.busy_pause,
                  "Pause before the next attempt on a busy node [5m]");
  AddDurationFlag(app, "--drift-pause", daemon.drift_pause,
                  "Least pause between measurements caused by drift [10m]");
}

// Returns what is wrong with a configuration file that CLI11 would wait for, or read in part: what
// is no regular file, or too large, or no text, or gives an option twice. Else an empty text.
std::string CheckConfig(const CLI::App& app, const std::string& path) {
  const absl::StatusOr<std::string> text = ReadFile(path, {.max_bytes = kMaxConfigBytes});
  if (!text.ok()) return std::string(text.status().message());
  for (absl::string_view rest = *text; !rest.empty();) {
    const Utf8Character next = FirstUtf8Character(rest);
    if (next.code_point == 0) return absl::StrCat("`", path, "` is no text in UTF-8");
    rest.remove_prefix(next.size);
  }
  std::istringstream stream(*text);
  std::set<std::string> names;
  for (const CLI::ConfigItem& item : CLI::ConfigTOML().from_config(stream)) {
    const CLI::Option* const option = app.get_option_no_throw("--" + item.name);
    const bool takes_several =
        option != nullptr && option->get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll;
    if (!names.insert(item.fullname()).second || (item.inputs.size() > 1 && !takes_several)) {
      return absl::StrCat("`", path, "` gives `", item.fullname(), "` more than one value");
    }
  }
  return "";
}

void AddFlags(CLI::App& app, Settings& settings, std::string& backend, TorchFlags& torch) {
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.set_config("--config", "", "Configuration file, TOML; flags take precedence over it")
      ->check([&app](const std::string& path) { return CheckConfig(app, path); });
  app.allow_config_extras(CLI::config_extras_mode::error);
  app.add_flag("--once", settings.once, "Measure once, write --out, and exit");
  app.add_flag("--inventory", settings.inventory_only, "Print the hardware of the node, and exit");
  app.add_option("--out", settings.out_path, "File for the profile measured by --once")
      ->type_name("FILE");
  app.add_option("--topology-out", settings.topology_path,
                 "Cluster file to write for this node; with --once")
      ->type_name("FILE");
  app.add_option("--cluster", settings.cluster, "Name of the cluster")->capture_default_str();
  app.add_option("--node", settings.node, "Name of the node")->capture_default_str();
  AddMeasurement(app, settings, backend, torch);
  AddServer(app, settings);
  // List flags keep every value.
  for (const char* const name :
       {"--model", "--micro-batches", "--link-node", "--torch-model", "--torch-argument"}) {
    app.get_option(name)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  }
}

}  // namespace

std::variant<Settings, int> ReadSettings(int argc, const char* const* argv) {
  Settings settings;
  settings.node = MachineName();
  DaemonOptions& daemon = settings.daemon;
  daemon.request.rank_count = 0;
  daemon.state_dir = DefaultStateFolder("parplan-agent");
  if (daemon.state_dir.empty()) daemon.state_dir = "/var/lib/parplan-agent";
  daemon.host = HostName();
  daemon.watch = {.health_listen = "127.0.0.1:9479", .metrics_listen = "127.0.0.1:9480"};
  std::string backend = "cpu";
  CLI::App app("Measures layers, collectives and memory of a node, for parplan's planner.",
               "parplan-agent");
  app.set_version_flag("--version", std::string("parplan-agent ") + kVersion);
  shell::AddCompletionOption(app);
  app.footer(kFooter);
  TorchFlags torch;
  AddFlags(app, settings, backend, torch);
  try {
    app.parse(argc, argv);
    shell::RefuseEmptyTexts(app);
    if (settings.once && settings.out_path.empty()) {
      throw CLI::ValidationError("--once", "needs --out FILE");
    }
    if (!daemon.link_nodes.empty() &&
        (daemon.link_nodes.size() < 2 || daemon.link_nodes.front() != settings.node)) {
      throw CLI::ValidationError("--link-node",
                                 "name this node first, then at least one other node");
    }
    TakeTorchFlags(torch, settings);
    if (!settings.once && !(settings.out_path.empty() && settings.topology_path.empty())) {
      throw CLI::ValidationError("--out and --topology-out", "need --once");
    }
  } catch (const CLI::ParseError& error) {
    return app.exit(error, std::cout, std::cerr) == 0 ? 0 : kUsageError;
  }
  // The driver's library lists all GPUs; the ranks that measure see these.
  if (const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES"); visible != nullptr) {
    daemon.measurement.inventory.gpus.visible_devices = visible;
  }
  daemon.request.backend = backend;
  daemon.measurement.device_type = DeviceTypeOf(backend);
  daemon.parent = absl::StrCat("clusters/", settings.cluster, "/nodes/", settings.node);
  return settings;
}

}  // namespace parplan
