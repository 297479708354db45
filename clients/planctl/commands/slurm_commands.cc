// `planctl slurm-prolog`, `slurm-node-prolog`, `slurm-epilog`, `slurm-node-epilog`: what Slurm
// runs around a job. docs/slurm.md.

#include "clients/planctl/commands/slurm_commands.h"

#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "clients/slurm/controller.h"
#include "clients/slurm/deadline_work.h"
#include "clients/slurm/job_bundle.h"
#include "clients/slurm/job_facts.h"
#include "clients/slurm/job_log.h"
#include "clients/slurm/node_files.h"
#include "clients/slurm/slurm_config.h"
#include "planner/base/error.h"
#include "planner/base/status_macros.h"
#include "proto/envelope/trust_bundle.h"

namespace parplan::planctl {
namespace {

using slurm::Answer;
using slurm::JobFacts;
using slurm::Outcome;
using slurm::Policy;
using slurm::SlurmConfig;
using slurm::WorkResult;

std::string Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// One hook for one job.
class Hook {
 public:
  Hook(const char* name, std::string config_path)
      : name_(name), config_path_(std::move(config_path)) {}

  // Reads who the job is and, where it has a wish, the configuration. False where it has none: such
  // a job costs a look at the environment, whatever is wrong with the rest.
  absl::StatusOr<bool> Read() {
    PARPLAN_ASSIGN_OR_RETURN(
        job_, slurm::JobFromEnvironment([](const char* name) { return std::getenv(name); }));
    if (job_.wishes.plan == "off") return false;
    absl::StatusOr<std::string> text = slurm::ReadText(config_path_);
    absl::StatusOr<SlurmConfig> config =
        text.ok() ? SlurmConfig::FromJson(*text, config_path_) : text.status();
    if (!config.ok()) {
      Log("misconfigured", std::string(config.status().message()));
      return config.status();
    }
    config_ = *std::move(config);
    return true;
  }

  const SlurmConfig& config() const { return config_; }
  const JobFacts& job() const { return job_; }

  // The work's result within the deadline; else `late`.
  WorkResult Within(const std::function<WorkResult()>& work, int late) const {
    absl::StatusOr<std::optional<WorkResult>> result = slurm::RunWithin(config_.deadline, work);
    if (!result.ok()) return {late, std::string(result.status().message())};
    if (!result->has_value()) {
      return {late, absl::StrCat("no end within ", absl::FormatDuration(config_.deadline))};
    }
    return **std::move(result);
  }

  void Log(const std::string& outcome, const std::string& text) const {
    slurm::LogJob(config_.log, name_, job_.job_id, outcome, absl::Now() - begin_, text);
  }

 private:
  const absl::Time begin_ = absl::Now();
  const char* const name_;
  const std::string config_path_;
  SlurmConfig config_;
  JobFacts job_;
};

absl::Status Prolog(const std::string& config_path) {
  Hook hook("slurm-prolog", config_path);
  const absl::StatusOr<bool> wants = hook.Read();
  // Nobody's job waits for a configuration to be mended.
  if (!wants.ok() || !*wants) return absl::OkStatus();
  const WorkResult result = hook.Within(
      [&hook] {
        const Answer answer =
            slurm::PreparePlan(hook.config(), hook.job(), Variable("SLURM_JOB_NODELIST"));
        return WorkResult{static_cast<int>(answer.outcome), answer.text};
      },
      static_cast<int>(Outcome::kAway));
  const auto outcome = static_cast<Outcome>(result.code);
  const bool requeues = outcome == Outcome::kAway && hook.config().when_away == Policy::kRequeue;
  hook.Log(absl::StrCat(slurm::OutcomeName(outcome), requeues ? ",requeued" : ""), result.text);
  if (outcome == Outcome::kRefused && hook.config().when_refused == Policy::kCancel) {
    (void)hook.Within(
        [&hook] {
          slurm::CancelJob(hook.config(), hook.job().job_id);
          return WorkResult();
        },
        0);
  }
  return requeues ? absl::UnavailableError("there is no plan; the job goes back to the queue")
                  : absl::OkStatus();
}

std::string FolderOfNode(const Hook& hook, const std::string& node) {
  return absl::StrCat(slurm::NodePath(hook.config().node_dir, node), "/", hook.job().job_id);
}

absl::StatusOr<slurm::NodeFiles> FilesOf(const Hook& hook, const std::string& node) {
  const SlurmConfig& config = hook.config();
  PARPLAN_ASSIGN_OR_RETURN(const slurm::JobBundle bundle,
                           slurm::ReadBundle(config.spool_dir, hook.job().job_id));
  const absl::StatusOr<std::string> trust_text = slurm::ReadText(config.trust);
  if (!trust_text.ok()) return absl::FailedPreconditionError(trust_text.status().message());
  PARPLAN_ASSIGN_OR_RETURN(const TrustBundle trust, TrustBundle::FromJson(*trust_text));
  return slurm::MakeNodeFiles(bundle, trust,
                              {.cluster = config.cluster,
                               .job_id = hook.job().job_id,
                               .node_name = node,
                               .folder = FolderOfNode(hook, node),
                               .trust_path = config.trust},
                              absl::Now());
}

constexpr int kWritten = 0;
constexpr int kUnverified = 1;
constexpr int kUnwritten = 2;
// The controller could leave nothing.
constexpr int kMissing = 3;

// Of a job that has no plan it may use.
slurm::NodeFiles FilesWithout(bool starts, const std::string& why) {
  if (!starts) return slurm::RefusalFiles(why);
  return *slurm::MakeNodeFiles({.without_plan = absl::StrCat("no plan: ", why)}, TrustBundle(), {},
                               absl::Now());
}

absl::Status NodeProlog(const std::string& config_path) {
  Hook hook("slurm-node-prolog", config_path);
  const absl::StatusOr<bool> wants = hook.Read();
  if (!wants.ok() || !*wants) return absl::OkStatus();
  const std::string node = Variable("SLURMD_NODENAME");
  const std::string folder = FolderOfNode(hook, node);
  WorkResult result = hook.Within(
      [&] {
        const absl::StatusOr<slurm::NodeFiles> files = FilesOf(hook, node);
        if (!files.ok()) {
          return WorkResult{absl::IsNotFound(files.status()) ? kMissing : kUnverified,
                            std::string(files.status().message())};
        }
        const absl::Status written = slurm::WriteNodeFiles(folder, *files);
        if (!written.ok()) return WorkResult{kUnwritten, std::string(written.message())};
        return WorkResult{kWritten, absl::StrCat(node, ": ", files->size(), " files")};
      },
      kUnverified);
  if (result.code == kUnverified || result.code == kMissing) {
    // The job is at fault, or the controller: not this node, which would be drained.
    const bool starts = result.code == kMissing ? hook.config().when_away == Policy::kLaunch
                                                : hook.config().when_unverified == Policy::kLaunch;
    hook.Log(
        absl::StrCat(result.code == kMissing ? "missing" : "unverified", starts ? "" : ",refused"),
        absl::StrCat(node, ": ", result.text));
    const absl::Status written = slurm::WriteNodeFiles(folder, FilesWithout(starts, result.text));
    if (!written.ok()) result = {kUnwritten, std::string(written.message())};
  } else if (result.code == kWritten) {
    hook.Log("written", result.text);
  }
  if (result.code != kUnwritten) return absl::OkStatus();
  // Tasks could not be told, nor kept from starting: the node is not fit for such jobs.
  hook.Log("unwritten", absl::StrCat(node, ": ", result.text));
  return absl::InternalError(result.text);
}

absl::Status Epilog(const std::string& config_path) {
  Hook hook("slurm-epilog", config_path);
  const absl::StatusOr<bool> wants = hook.Read();
  if (!wants.ok() || !*wants) return absl::OkStatus();
  const WorkResult result = hook.Within(
      [&hook] {
        return WorkResult{0, slurm::CloseJob(hook.config(), hook.job().job_id)};
      },
      1);
  hook.Log(result.code == 0 ? "closed" : "away", result.text);
  return absl::OkStatus();
}

absl::Status NodeEpilog(const std::string& config_path) {
  Hook hook("slurm-node-epilog", config_path);
  const absl::StatusOr<bool> wants = hook.Read();
  if (!wants.ok() || !*wants) return absl::OkStatus();
  const absl::Status removed =
      slurm::RemoveNodeFiles(FolderOfNode(hook, Variable("SLURMD_NODENAME")));
  if (!removed.ok()) hook.Log("unremoved", std::string(removed.message()));
  return absl::OkStatus();
}

void AddHook(CLI::App& app, Action& action, const char* name, const char* what, const char* setting,
             absl::Status (*run)(const std::string&)) {
  auto config_path = std::make_shared<std::string>("/etc/parplan/slurm.json");
  CLI::App* command = app.add_subcommand(name, what);
  command->footer(absl::StrCat("For ", setting, " in slurm.conf; see docs/slurm.md."));
  command->add_option("--config", *config_path, "Configuration [/etc/parplan/slurm.json]");
  command->callback(
      [&action, config_path, run] { action = [config_path, run] { return run(*config_path); }; });
}

}  // namespace

void AddSlurmCommands(CLI::App& app, Action& action) {
  AddHook(app, action, "slurm-prolog", "Ask for the plan of a Slurm job, on the controller",
          "PrologSlurmctld", &Prolog);
  AddHook(app, action, "slurm-node-prolog", "Verify the plan of a Slurm job, on a node of it",
          "Prolog", &NodeProlog);
  AddHook(app, action, "slurm-epilog", "Close what a Slurm job has left open, on the controller",
          "EpilogSlurmctld", &Epilog);
  AddHook(app, action, "slurm-node-epilog", "Remove the files of a Slurm job, on a node of it",
          "Epilog", &NodeEpilog);
}

}  // namespace parplan::planctl
