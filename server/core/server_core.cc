#include "server/core/server_core.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>

#include "absl/status/statusor.h"
#include "base/status_macros.h"

namespace parplan {
namespace {

// Plans or executions deleted in one transaction; few, so that other writers wait briefly. Not
// measured.
constexpr int64_t kDeleteBatch = 500;

// Transactions of one task in one `Maintain`: few, since whoever calls it does nothing else for the
// server meanwhile, but more than one, since each call also tries the disk. Not measured.
constexpr int kMaxStepCount = 4;

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
  const absl::Time start = clock_.Now();
  absl::Status first = keys_->RotateIfDue(start).status();
  observer_.SigningKeysSeen(LastExpiry(keys_->Bundle(start)));
  first.Update(CheckSigning());
  first.Update(CheckWriting(/*always=*/true));
  bool has_more = false;
  first.Update(Repeat([this] { return executions_.FailSilent(); }, has_more));
  bool has_uncovered = false;
  first.Update(Repeat([this] { return profiles_.CoverOldProfiles(); }, has_uncovered));
  // Until all have a coverage the report would read each profile, while callers ask their first
  // questions after an upgrade.
  if (!has_uncovered) first.Update(profiles_.ReportKinds());
  has_more = has_more || has_uncovered;
  if (const auto confirmed = clock_check_.ConfirmedNow(); confirmed.has_value()) {
    const absl::Time now = *confirmed;
    // Plans after their executions, which keep them.
    first.Update(Repeat([this, now] { return DeleteOldExecutions(now); }, has_more));
    first.Update(Repeat([this, now] { return DeleteExpiredPlans(now); }, has_more));
  }
  has_more_to_maintain_ = has_more;
  return first;
}

absl::Status ServerCore::Repeat(const std::function<absl::StatusOr<bool>()>& step,
                                bool& has_more) const {
  for (int count = 0; count < kMaxStepCount; ++count) {
    if (is_stopping_) return absl::OkStatus();
    PARPLAN_ASSIGN_OR_RETURN(const bool goes_on, step());
    if (!goes_on) return absl::OkStatus();
  }
  has_more = true;
  return absl::OkStatus();
}

absl::StatusOr<bool> ServerCore::DeleteOldExecutions(absl::Time now) {
  if (limits_.execution_retention == absl::ZeroDuration()) return false;
  PARPLAN_ASSIGN_OR_RETURN(
      const int64_t deleted,
      store_->DeleteOldExecutions(now, limits_.execution_retention, kDeleteBatch));
  // It ends early after executions with many windows, so that fewer are not the last.
  return deleted > 0;
}

absl::StatusOr<bool> ServerCore::DeleteExpiredPlans(absl::Time now) {
  PARPLAN_ASSIGN_OR_RETURN(
      const int64_t deleted,
      store_->DeleteExpiredPlans(now, kExpiredPlanRetention, kDeleteBatch, {}));
  return deleted == kDeleteBatch;
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
  is_stopping_ = true;
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
