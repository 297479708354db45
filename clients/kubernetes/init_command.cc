#include "clients/kubernetes/init_command.h"

#include <algorithm>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/service/log/event_log.h"
#include "base/status_macros.h"
#include "base/system/steady_clock.h"
#include "clients/kubernetes/plan_fetcher.h"
#include "clients/kubernetes/plan_files.h"
#include "clients/kubernetes/plan_hope.h"
#include "clients/kubernetes/plan_volume.h"

namespace parplan::sidecar {
namespace {

// Pause between two tries: doubles each time, from the first to the longest.
constexpr absl::Duration kFirstPause = absl::Milliseconds(250);
constexpr absl::Duration kLongestPause = absl::Seconds(10);

absl::StatusOr<FetchedPlan> Await(PlanFetcher& fetcher, const SidecarFlags& flags) {
  std::mt19937 random{std::random_device{}()};
  const absl::Duration end = SteadyNow() + flags.deadline;
  absl::Duration pause = kFirstPause;
  std::string told;
  while (true) {
    // The deadline says whether there is another try; it does not cut short one that was begun.
    absl::StatusOr<FetchedPlan> plan = fetcher.Fetch(absl::Now(), flags.call_timeout);
    if (plan.ok() || !MayStillCome(plan.status())) return plan;
    // Many pods of a job wait for one plan.
    const absl::Duration next = pause * std::uniform_real_distribution<double>(0.5, 1.0)(random);
    if (SteadyNow() + next >= end) return plan;
    if (const std::string message(plan.status().message()); message != told) {
      told = message;
      LogEvent("warning", "waiting for the plan", {{"message", message}});
    }
    absl::SleepFor(next);
    pause = std::min(pause * 2, kLongestPause);
  }
}

}  // namespace

absl::Status RunInit(const SidecarFlags& flags) {
  PARPLAN_ASSIGN_OR_RETURN(const std::unique_ptr<PlanVolume> volume,
                           PlanVolume::Open(flags.files.folder));
  PlanFetcher fetcher(flags.wanted, flags.server);
  PARPLAN_ASSIGN_OR_RETURN(const FetchedPlan plan, Await(fetcher, flags));
  PARPLAN_ASSIGN_OR_RETURN(const std::vector<VolumeFile> files, MakePlanFiles(plan, flags.files));
  PARPLAN_RETURN_IF_ERROR(volume->Write(files));
  const v1::PlanPayload& payload = plan.verified.payload();
  LogEvent("info", "plan written",
           {{"plan", payload.plan()},
            {"key", plan.verified.key_id()},
            {"devices", absl::StrCat(payload.device_count())},
            {"volume", flags.files.folder},
            {"generation", absl::StrCat(volume->generation())}});
  std::cout << payload.plan() << "\n";
  return absl::OkStatus();
}

}  // namespace parplan::sidecar
