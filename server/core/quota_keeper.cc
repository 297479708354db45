#include "server/core/quota_keeper.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/core/quota_error.h"

namespace parplan {
namespace {

// Plans deleted for one call, so that it does not wait for long. Not measured.
constexpr int64_t kPurgeBatch = 500;

// Holders remembered. Beyond it all are forgotten, and their plans looked for once more.
constexpr size_t kMaxPurgedCount = 4096;

// When to try again: space comes back when plans expire or profiles are deleted.
constexpr absl::Duration kStoredRetry = absl::Minutes(10);

constexpr char kAdvice[] =
    "ask again when plans have expired or profiles were deleted, or let an operator raise the "
    "quota";
constexpr char kExecutionAdvice[] =
    "ask again when old executions were deleted (`execution_retention`), or let an operator raise "
    "the quota; plans are made all the same";

}  // namespace

absl::Status QuotaKeeper::Check(const NewRecord& record) {
  const bool has_limits =
      limits_.identity_quota.stored_bytes > 0 || limits_.cluster_quota.stored_bytes > 0;
  if (has_limits && record.profile != nullptr && store_.GetProfile(record.profile->name).ok()) {
    return absl::OkStatus();
  }
  if (!record.owner.empty()) {
    PARPLAN_RETURN_IF_ERROR(CheckRule(
        {"identity", limits_.identity_quota, record.owner, RecordScope{.owner = record.owner}},
        record));
  }
  return CheckRule(
      {"cluster", limits_.cluster_quota, record.cluster, RecordScope{.cluster = record.cluster}},
      record);
}

absl::Status QuotaKeeper::CheckExecutionBytes(const Rule& rule, const NewRecord& record) {
  if (rule.limits.execution_bytes == 0) return absl::OkStatus();
  PARPLAN_ASSIGN_OR_RETURN(const StoredUsage usage, store_.Usage(rule.scope));
  const int64_t byte_count = usage.execution_byte_count + record.byte_count;
  if (byte_count <= rule.limits.execution_bytes) return absl::OkStatus();
  return QuotaError({.quota = absl::StrCat(rule.kind, ".execution_bytes"),
                     .holder = rule.holder,
                     .limit = rule.limits.execution_bytes,
                     .value = byte_count,
                     .retry = kStoredRetry},
                    kExecutionAdvice);
}

absl::Status QuotaKeeper::CheckRule(const Rule& rule, const NewRecord& record) {
  if (record.is_execution) return CheckExecutionBytes(rule, record);
  if (rule.limits.stored_bytes == 0 && rule.limits.plan_count == 0) return absl::OkStatus();
  PARPLAN_ASSIGN_OR_RETURN(StoredUsage usage, store_.Usage(rule.scope));
  if (CheckUsage(rule, record, usage, 0).ok()) return absl::OkStatus();
  int64_t replaced_bytes = 0;
  if (record.profile != nullptr) {
    PARPLAN_ASSIGN_OR_RETURN(
        replaced_bytes,
        store_.ReplacedBytes(*record.profile, limits_.profiles_per_node, rule.scope));
  }
  if (record.spec != nullptr && !record.spec->empty()) {
    PARPLAN_ASSIGN_OR_RETURN(const bool is_stored, store_.HasSpec(*record.spec));
    if (is_stored) replaced_bytes = static_cast<int64_t>(record.spec->size());
  }
  const absl::Status exceeded = CheckUsage(rule, record, usage, replaced_bytes);
  if (exceeded.ok()) return exceeded;
  PARPLAN_ASSIGN_OR_RETURN(const bool has_room, Purge(rule, record.owner));
  if (!has_room) return exceeded;
  PARPLAN_ASSIGN_OR_RETURN(usage, store_.Usage(rule.scope));
  return CheckUsage(rule, record, usage, replaced_bytes);
}

absl::Status QuotaKeeper::CheckUsage(const Rule& rule, const NewRecord& record,
                                     const StoredUsage& usage, int64_t replaced_bytes) const {
  const int64_t plan_count = usage.plan_count + record.plan_count;
  const int64_t growth = record.byte_count - replaced_bytes;
  const int64_t byte_count = usage.byte_count + growth;
  if (rule.limits.plan_count > 0 && record.plan_count > 0 && plan_count > rule.limits.plan_count) {
    return QuotaError({.quota = absl::StrCat(rule.kind, ".plans"),
                       .holder = rule.holder,
                       .limit = rule.limits.plan_count,
                       .value = plan_count,
                       .retry = kStoredRetry},
                      kAdvice);
  }
  // A record that does not grow the sum is not refused, though the quota may have been lowered.
  if (growth > 0 && rule.limits.stored_bytes > 0 && byte_count > rule.limits.stored_bytes) {
    return QuotaError({.quota = absl::StrCat(rule.kind, ".stored_bytes"),
                       .holder = rule.holder,
                       .limit = rule.limits.stored_bytes,
                       .value = byte_count,
                       .retry = kStoredRetry},
                      kAdvice);
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> QuotaKeeper::Purge(const Rule& rule, const std::string& owner) {
  const std::string key = absl::StrCat(rule.kind, " ", rule.holder, " ", owner);
  const absl::Duration now = clock_.Steady();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = purged_.find(key);
    if (found != purged_.end() && now - found->second < kPurgePause) return false;
  }
  const std::optional<absl::Time> time_of_day = clock_check_.ConfirmedNow();
  if (!time_of_day.has_value()) return false;
  const RecordScope scope = {.owner = owner, .cluster = rule.scope.cluster};
  PARPLAN_ASSIGN_OR_RETURN(
      const int64_t deleted,
      store_.DeleteExpiredPlans(*time_of_day, kPurgeMargin, kPurgeBatch, scope));
  if (deleted < kPurgeBatch) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (purged_.size() >= kMaxPurgedCount) purged_.clear();
    purged_[key] = now;
  }
  return deleted > 0;
}

}  // namespace parplan
