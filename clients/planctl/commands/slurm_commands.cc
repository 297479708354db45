// `planctl slurm-prolog`, `slurm-node-prolog`, `slurm-epilog`, `slurm-node-epilog`: what Slurm
// runs around a job. docs/slurm.md.

#include "clients/planctl/commands/slurm_commands.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "base/system/steady_clock.h"
#include "clients/files/input_files.h"
#include "clients/slurm/controller.h"
#include "clients/slurm/deadline_work.h"
#include "clients/slurm/job_bundle.h"
#include "clients/slurm/job_facts.h"
#include "clients/slurm/job_log.h"
#include "clients/slurm/node_files.h"
#include "clients/slurm/slurm_config.h"
#include "proto/envelope/trust_bundle.h"

namespace parplan::planctl {
namespace {

using slurm::Answer;
using slurm::Countdown;
using slurm::JobFacts;
using slurm::Outcome;
using slurm::Policy;
using slurm::SlurmConfig;
using slurm::WorkResult;

std::string Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Share of the deadline for retries while the planner can't be reached; the rest is for the steps
// after them. Not measured.
constexpr double kShareOfTries = 0.85;
// Smallest time for a call of Slurm's programs, however late it is. Not measured.
constexpr absl::Duration kLeastForSlurm = absl::Seconds(2);
// Time of a node's hook for its files: a minute, since no job is at fault for a slow disk. Not
// measured.
constexpr absl::Duration kTimeOfNode = absl::Minutes(1);
// Seconds after which a hook's process ends itself, whatever it waits for: at the beginning, to
// read its configuration, and beyond its time, to write the log. Not measured.
constexpr int kSecondsToBegin = 30;
constexpr int kSecondsBeyond = 30;

// Exit code of this process after an alarm.
volatile sig_atomic_t code_of_alarm = 0;

extern "C" void EndNow(int /*signal*/) { ::_exit(static_cast<int>(code_of_alarm)); }

// One hook for one job.
class Hook {
 public:
  // `failing_code` is the exit code of the process if an alarm ends it.
  Hook(const char* name, std::string config_path, int failing_code)
      : name_(name), config_path_(std::move(config_path)) {
    code_of_alarm = failing_code;
    ::signal(SIGALRM, &EndNow);
    ::alarm(kSecondsToBegin);
  }
  ~Hook() { ::alarm(0); }
  Hook(const Hook&) = delete;
  Hook& operator=(const Hook&) = delete;

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

  // Sets the time left from now on. The process ends itself `kSecondsBeyond` after that, which
  // leaves time to write the log. REQUIRES: called once.
  void SetTime(absl::Duration time) {
    time_ = time;
    left_.emplace(time);
    ::alarm(static_cast<unsigned>(absl::ToInt64Seconds(absl::Ceil(time, absl::Seconds(1)))) +
            kSecondsBeyond);
  }
  absl::Duration Left() const { return left_->Left(); }

  const SlurmConfig& config() const { return config_; }
  const JobFacts& job() const { return job_; }

  // The work's result within the time that is left; else `late`.
  WorkResult Within(const std::function<WorkResult()>& work, int late) const {
    return Within(Left(), absl::FormatDuration(time_), work, late);
  }
  // Runs calls of Slurm's programs within the time that is left, but at least a little.
  WorkResult WithSlurm(const std::function<absl::Status()>& work) const {
    return Within(
        std::max(Left(), kLeastForSlurm), "what was left of the time",
        [&work] {
          const absl::Status status = work();
          return WorkResult{status.ok() ? 0 : 1, std::string(status.message())};
        },
        1);
  }

  void Log(const std::string& outcome, const std::string& text) const {
    slurm::LogJob(config_.log, name_, job_.job_id, outcome, SteadyNow() - begin_, text);
  }

 private:
  static WorkResult Within(absl::Duration limit, const std::string& name,
                           const std::function<WorkResult()>& work, int late) {
    absl::StatusOr<std::optional<WorkResult>> result = slurm::RunWithin(limit, work);
    if (!result.ok()) return {late, std::string(result.status().message())};
    if (!result->has_value()) return {late, absl::StrCat("no end within ", name)};
    return **std::move(result);
  }

  const absl::Duration begin_ = SteadyNow();
  const char* const name_;
  const std::string config_path_;
  absl::Duration time_;
  std::optional<Countdown> left_;
  SlurmConfig config_;
  JobFacts job_;
};

absl::Status Prolog(const std::string& config_path) {
  Hook hook("slurm-prolog", config_path, /*failing_code=*/0);
  const absl::StatusOr<bool> wants = hook.Read();
  // A configuration that cannot be read must not hold up jobs.
  if (!wants.ok() || !*wants) return absl::OkStatus();
  const bool may_requeue = hook.config().when_away == Policy::kRequeue;
  code_of_alarm = may_requeue ? 1 : 0;
  hook.SetTime(hook.config().deadline);
  const Countdown tries(kShareOfTries * hook.config().deadline);
  const WorkResult result = hook.Within(
      [&] {
        const Answer answer =
            slurm::PreparePlan(hook.config(), hook.job(), Variable("SLURM_JOB_NODELIST"), tries);
        return WorkResult{static_cast<int>(answer.outcome), answer.text};
      },
      static_cast<int>(Outcome::kAway));
  const auto outcome = static_cast<Outcome>(result.code);
  const bool requeues = outcome == Outcome::kAway && may_requeue;
  code_of_alarm = requeues ? 1 : 0;
  hook.Log(absl::StrCat(slurm::OutcomeName(outcome), requeues ? ",requeued" : ""), result.text);
  // May fail: the log has it.
  (void)hook.WithSlurm([&] {
    return slurm::SetJobComment(hook.config(), hook.job(), {outcome, result.text});
  });
  if (outcome == Outcome::kRefused && hook.config().when_refused == Policy::kCancel) {
    const WorkResult cancelled =
        hook.WithSlurm([&] { return slurm::CancelJob(hook.config(), hook.job()); });
    if (cancelled.code != 0) hook.Log("uncancelled", cancelled.text);
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
  PARPLAN_ASSIGN_OR_RETURN(const TrustBundle trust,
                           AcceptTrustBundle(*trust_text, config.trust_memory));
  return slurm::MakeNodeFiles(bundle, trust,
                              {.cluster = config.cluster,
                               .job_id = hook.job().job_id,
                               .node_name = node,
                               .folder = FolderOfNode(hook, node),
                               .trust_path = config.trust,
                               .exports = hook.job().wishes.exports},
                              absl::Now());
}

constexpr int kWritten = 0;
constexpr int kUnverified = 1;
constexpr int kUnwritten = 2;
// The controller could leave nothing, or nothing that could be read in time.
constexpr int kMissing = 3;

// Makes the files of a job that has no plan it may use.
slurm::NodeFiles FilesWithout(bool starts, const std::string& why) {
  if (!starts) return slurm::RefusalFiles(why);
  return *slurm::MakeNodeFiles({.without_plan = absl::StrCat("no plan: ", why)}, TrustBundle(), {},
                               absl::Now());
}

absl::Status NodeProlog(const std::string& config_path) {
  Hook hook("slurm-node-prolog", config_path, /*failing_code=*/1);
  const absl::StatusOr<bool> wants = hook.Read();
  if (!wants.ok() || !*wants) return absl::OkStatus();
  hook.SetTime(kTimeOfNode);
  const std::string node = Variable("SLURMD_NODENAME");
  if (node.empty()) {
    constexpr char kMissingName[] =
        "SLURMD_NODENAME is not set; Slurm sets it for prologs of nodes";
    hook.Log("unwritten", kMissingName);
    return absl::InvalidArgumentError(kMissingName);
  }
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
      kMissing);
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
  // Neither the job's files nor a refusal could be written: the node is not fit for such jobs. The
  // hook fails, and Slurm drains the node.
  hook.Log("unwritten", absl::StrCat(node, ": ", result.text));
  return absl::InternalError(result.text);
}

absl::Status Epilog(const std::string& config_path) {
  Hook hook("slurm-epilog", config_path, /*failing_code=*/0);
  const absl::StatusOr<bool> wants = hook.Read();
  if (!wants.ok() || !*wants) return absl::OkStatus();
  hook.SetTime(hook.config().deadline);
  const Countdown tries(kShareOfTries * hook.config().deadline);
  const WorkResult result = hook.Within(
      [&] {
        const absl::StatusOr<std::string> closed =
            slurm::CloseJob(hook.config(), hook.job(), tries);
        if (!closed.ok()) return WorkResult{1, std::string(closed.status().message())};
        return WorkResult{0, *closed};
      },
      1);
  hook.Log(result.code == 0 ? "closed" : "unclosed", result.text);
  return absl::OkStatus();
}

absl::Status NodeEpilog(const std::string& config_path) {
  Hook hook("slurm-node-epilog", config_path, /*failing_code=*/0);
  const absl::StatusOr<bool> wants = hook.Read();
  if (!wants.ok() || !*wants) return absl::OkStatus();
  hook.SetTime(kTimeOfNode);
  const absl::Status removed =
      slurm::RemoveNodeFiles(FolderOfNode(hook, Variable("SLURMD_NODENAME")));
  if (!removed.ok()) hook.Log("unremoved", std::string(removed.message()));
  return absl::OkStatus();
}

void AddHook(Command app, Action& action, const char* name, const char* what, const char* setting,
             absl::Status (*run)(const std::string&)) {
  auto config_path = std::make_shared<std::string>("/etc/parplan/slurm.json");
  Command command = app.AddCommand(name, what);
  command.Footer(absl::StrCat("For ", setting, " in slurm.conf; see docs/slurm.md."));
  command.AddOption("--config", *config_path, "Configuration [/etc/parplan/slurm.json]");
  command.OnChosen(
      [&action, config_path, run] { action = [config_path, run] { return run(*config_path); }; });
}

}  // namespace

void AddSlurmCommands(Command app, Action& action) {
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
