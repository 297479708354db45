#include "server/core/server_core.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "base/status_macros.h"

namespace parplan {
namespace {

// Plans or executions deleted in one transaction; few, so that other writers wait briefly. Not
// measured.
constexpr int64_t kDeleteBatch = 500;

// Returns when the last key that signs, or will sign, expires; 1970 if there is none.
absl::Time LastExpiry(const TrustBundle& bundle) {
  absl::Time last = absl::UnixEpoch();
  for (const TrustedKey& key : bundle.keys()) {
    if (key.status == TrustStatus::kActive) last = std::max(last, key.not_after);
  }
  return last;
}

}  // namespace

ServerCore::ServerCore(std::unique_ptr<Store> store, std::unique_ptr<KeyRing> keys,
                       const Limits& limits, const Clock& clock, Observer& observer,
                       const PlannerFunction& planner, std::unique_ptr<Turns> turns,
                       AuditSink& audit)
    : store_(std::make_unique<MeteredStore>(std::move(store), clock, observer)),
      keys_(std::move(keys)),
      limits_(limits),
      clock_(clock),
      observer_(observer),
      clock_check_(clock_),
      guard_(*store_, audit),
      quotas_(*store_, clock_, limits_),
      profiles_(*store_, clock_, observer_, limits_, guard_, quotas_),
      calibrations_(*store_, clock_, observer_, limits_),
      knowledge_(profiles_, calibrations_),
      executions_(*store_, clock_, observer_, limits_, guard_, quotas_),
      agents_(clock_, observer_, limits_, guard_),
      pool_(limits_, observer_),
      plans_({*store_, knowledge_, *keys_, pool_, clock_, observer_, limits_, guard_, quotas_,
              audit, planner, turns.get()}),
      shapes_({knowledge_, pool_, clock_, observer_, limits_, planner}),
      turns_(std::move(turns)) {}

ServerCore::~ServerCore() { Drain(absl::ZeroDuration()); }

absl::Status ServerCore::Maintain() {
  const absl::Time now = clock_.Now();
  absl::Status first = keys_->RotateIfDue(now).status();
  observer_.SigningKeysSeen(LastExpiry(keys_->Bundle(now)));
  first.Update(CheckSigning());
  first.Update(CheckWriting(/*always=*/true));
  first.Update(executions_.FailSilent());
  first.Update(profiles_.CoverOldProfiles());
  first.Update(profiles_.ReportKinds());
  const std::optional<absl::Time> confirmed = clock_check_.ConfirmedNow();
  if (!confirmed.has_value()) return first;
  // Plans after their executions, which keep them.
  first.Update(DeleteOldExecutions(*confirmed));
  first.Update(DeleteExpiredPlans(*confirmed));
  return first;
}

absl::Status ServerCore::DeleteOldExecutions(absl::Time now) {
  if (limits_.execution_retention == absl::ZeroDuration()) return absl::OkStatus();
  while (true) {
    PARPLAN_ASSIGN_OR_RETURN(
        const int64_t deleted,
        store_->DeleteOldExecutions(now, limits_.execution_retention, kDeleteBatch));
    // It ends early after executions with many windows, so that fewer are not the last.
    if (deleted == 0) return absl::OkStatus();
  }
}

absl::Status ServerCore::DeleteExpiredPlans(absl::Time now) {
  while (true) {
    PARPLAN_ASSIGN_OR_RETURN(const int64_t deleted,
                             store_->DeleteExpiredPlans(now - kExpiredPlanRetention, kDeleteBatch));
    if (deleted < kDeleteBatch) return absl::OkStatus();
  }
}

absl::Status ServerCore::CheckSigning() {
  absl::StatusOr<int> count = keys_->SigningKeyCount(clock_.Now());
  if (!count.ok()) {
    const absl::Status rotated = keys_->RotateIfDue(clock_.Now()).status();
    count = keys_->SigningKeyCount(clock_.Now());
    if (!count.ok() && !rotated.ok()) count = rotated;
  }
  observer_.SigningKeysCounted(count.value_or(0));
  return count.status();
}

absl::Status ServerCore::CheckWriting(bool always) {
  const bool has_failed = store_->TakeFailedChange();
  if (!always && !has_failed && can_write_) return absl::OkStatus();
  const absl::Status status = store_->TryWrite();
  can_write_ = status.ok();
  observer_.StoreTried(status.ok());
  return status;
}

absl::Duration ServerCore::maintenance_interval() const {
  return std::clamp(limits_.longest_execution_silence / 6, absl::Seconds(1), absl::Hours(1));
}

void ServerCore::StopTaking() {
  pool_.StopTaking();
  agents_.Drain();
}

void ServerCore::Drain(absl::Duration grace) {
  StopTaking();
  pool_.Drain(grace);
  // Callers that wait for the search of another server get an error that sends them there.
  if (turns_ != nullptr) turns_->Stop();
}

}  // namespace parplan
