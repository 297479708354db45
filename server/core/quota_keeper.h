// The keeper of the quotas of plans, stored bytes and bytes of executions, which identities and
// clusters have. The cores ask it before they store something. The quotas of searches are in
// `FairQueue`, those of agents in `LeaseKeeper`.

#ifndef PARPLAN_SERVER_CORE_QUOTA_KEEPER_H_
#define PARPLAN_SERVER_CORE_QUOTA_KEEPER_H_

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/system/clock.h"
#include "server/core/clock_check.h"
#include "server/core/limits.h"
#include "server/store/store.h"

namespace parplan {

// Something that is about to be stored.
struct NewRecord {
  // Whoever stores it (`Caller::owner`), and in which cluster.
  std::string owner;
  std::string cluster;
  // 1 for a plan, else 0.
  int plan_count = 0;
  // Bytes that the record has in the store, those of `spec` included.
  int64_t byte_count = 0;
  // Whether it is an execution or a window, which have a quota of their own and no other.
  bool is_execution = false;
  // Not null for a plan: its spec, which needs no room if it is stored. This and `profile` are read
  // during `Check` only.
  const std::string* spec = nullptr;
  // Not null for a profile, which is nothing new if it is stored, and may replace others.
  const ProfileRecord* profile = nullptr;
};

// Safe to use from any thread.
class QuotaKeeper {
 public:
  // REQUIRES, unchecked: the arguments outlive the keeper.
  QuotaKeeper(Store& store, const Clock& clock, const Limits& limits)
      : store_(store), clock_(clock), clock_check_(clock), limits_(limits) {
    // The reading that later ones have to agree with.
    (void)clock_check_.ConfirmedNow();
  }

  // Returns OK if the record exceeds no quota; a record without an owner has only the cluster's. A
  // profile that is stored already exceeds none, nor does one that takes up no more bytes than
  // those that it replaces; the spec of a plan counts only if it is not stored. If a plan or a
  // profile would exceed a quota, up to 500 plans of its owner (of the cluster if it has no owner)
  // that expired `kPurgeMargin` ago and were never executed are deleted to make room; once none is
  // left, that is tried again after `kPurgePause` at the earliest. None is deleted unless the time
  // of day is confirmed (`ClockCheck`), in the first ten minutes of the keeper neither. Executions
  // make room for nothing, and nothing makes room for them. Reads the store, and waits for its disk
  // or network, only for quotas that are set. Records that are stored at the same time are not
  // seen.
  //
  // Returns RESOURCE_EXHAUSTED (QUOTA_EXCEEDED) with holder and quota (`identity.plans`,
  // `cluster.stored_bytes`, `identity.execution_bytes`, ...) and a `RetryInfo` of ten minutes, or
  // the errors of the store.
  absl::Status Check(const NewRecord& record);

  // Time before plans are looked for again after none was left. Not measured: it bounds how often a
  // holder whose quota is used up makes the store look.
  static constexpr absl::Duration kPurgePause = absl::Minutes(1);

  // Time that a plan is kept after it expired, whatever the quotas: a sidecar that could not reach
  // the server still delivers what its job measured, and a clock may be an hour wrong. Not
  // measured; a night's outage is shorter.
  static constexpr absl::Duration kPurgeMargin = absl::Hours(24);

 private:
  // The quotas of one holder: an identity or a cluster.
  struct Rule {
    const char* kind;  // The kind of holder: `identity` or `cluster`.
    const QuotaLimits& limits;
    const std::string& holder;
    RecordScope scope;
  };

  absl::Status CheckRule(const Rule& rule, const NewRecord& record);
  absl::Status CheckExecutionBytes(const Rule& rule, const NewRecord& record);
  absl::Status CheckUsage(const Rule& rule, const NewRecord& record, const StoredUsage& usage,
                          int64_t replaced_bytes) const;
  // Returns whether expired plans of `owner` in the scope of the rule were deleted.
  absl::StatusOr<bool> Purge(const Rule& rule, const std::string& owner);

  Store& store_;
  const Clock& clock_;
  ClockCheck clock_check_;
  const Limits& limits_;

  std::mutex mutex_;
  // By kind and name of the holder, and owner: when, on the steady clock, nothing more was found to
  // delete. Guarded by mutex_.
  std::map<std::string, absl::Duration> purged_;
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_CORE_QUOTA_KEEPER_H_
