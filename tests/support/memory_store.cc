#include "tests/support/memory_store.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "server/store/store_errors.h"
#include "tests/support/memory_store_tables.h"

namespace parplan {
namespace {

using Lock = std::lock_guard<std::mutex>;

}  // namespace

MemoryStore::MemoryStore() : state_(std::make_shared<State>()) {}

MemoryStore::MemoryStore(std::shared_ptr<State> state) : state_(std::move(state)) {}

std::unique_ptr<MemoryStore> MemoryStore::OpenAgain() const {
  return std::unique_ptr<MemoryStore>(new MemoryStore(state_));
}

void MemoryStore::SetBroken(bool broken) {
  const Lock lock(state_->mutex);
  state_->broken = broken;
  state_->calls_left.reset();
}

void MemoryStore::BreakAfter(int count) {
  const Lock lock(state_->mutex);
  state_->broken = false;
  state_->calls_left = count;
}

void MemoryStore::SetFull(bool full) {
  const Lock lock(state_->mutex);
  state_->full = full;
}

void MemoryStore::BeforePutPlan(std::function<void()> before) {
  const Lock lock(state_->mutex);
  state_->before_put_plan = std::move(before);
}

int MemoryStore::put_plan_count() const {
  const Lock lock(state_->mutex);
  return state_->put_plan_count;
}

int64_t MemoryStore::snapshot_profile_count() const {
  const Lock lock(state_->mutex);
  return state_->snapshot_profile_count;
}

absl::Status MemoryStore::Begin() {
  if (state_->calls_left.has_value() && (*state_->calls_left)-- <= 0) state_->broken = true;
  if (!state_->broken) return absl::OkStatus();
  return MakeError(absl::StatusCode::kUnavailable, Reason::kStoreUnavailable,
                   "the store was told to fail; try again");
}

absl::Status MemoryStore::BeginChange() {
  PARPLAN_RETURN_IF_ERROR(Begin());
  return state_->full ? DiskFullError("the store was told that its disk is full; make room")
                      : absl::OkStatus();
}

absl::Status MemoryStore::TryWrite() {
  const Lock lock(state_->mutex);
  return BeginChange();
}

PlanRecord MemoryStore::Whole(const PlanRecord& plan) const {
  PlanRecord whole = plan;
  const auto found = state_->spec_of_plan.find(plan.name);
  if (found != state_->spec_of_plan.end()) whole.spec = found->second;
  return whole;
}

absl::StatusOr<PlanRecord> MemoryStore::PutPlan(PlanRecord plan, std::optional<JobClaim> claim) {
  std::function<void()> before;
  {
    const Lock lock(state_->mutex);
    before.swap(state_->before_put_plan);
  }
  if (before) {
    before();
    BeforePutPlan(std::move(before));
  }
  const Lock lock(state_->mutex);
  PARPLAN_RETURN_IF_ERROR(BeginChange());
  ++state_->put_plan_count;
  for (const auto& [position, stored] : state_->plans) {
    if (plan.request_id.empty() || stored.request_id != plan.request_id ||
        stored.cluster != plan.cluster || stored.owner != plan.owner) {
      continue;
    }
    if (stored.plan_key == plan.plan_key && stored.job_id == plan.job_id) return Whole(stored);
    return RequestIdReusedError(plan.request_id, stored.name);
  }
  if (Find(state_->plans, plan.name) != nullptr) return NameTakenError(plan.name);
  if (claim.has_value()) {
    JobClaim& known = state_->jobs[{plan.cluster, plan.job_id}];
    if (known.generation >= claim->generation) {
      return JobClaimedError(plan.job_id, claim->generation);
    }
    known = *claim;
  }
  PlanRecord& stored = state_->plans[state_->next_position++] = plan;
  stored.spec.clear();
  if (!plan.spec.empty()) {
    state_->spec_of_plan[plan.name] = plan.spec;
    state_->specs.try_emplace(plan.spec, plan);
  }
  return plan;
}

absl::StatusOr<std::optional<JobRecord>> MemoryStore::FindJob(absl::string_view cluster,
                                                              absl::string_view job_id,
                                                              absl::Time now) {
  const Lock lock(state_->mutex);
  PARPLAN_RETURN_IF_ERROR(Begin());
  const auto found = state_->jobs.find({std::string(cluster), std::string(job_id)});
  if (found == state_->jobs.end()) return std::optional<JobRecord>();
  JobRecord job = {.owner = found->second.owner, .generation = found->second.generation};
  for (const auto& [position, plan] : state_->plans) {
    if (plan.cluster != cluster || plan.job_id != job_id) continue;
    job.is_held = job.is_held || plan.expire_time > now;
    for (const auto& [number, execution] : state_->executions) {
      job.is_held = job.is_held ||
                    (execution.plan == plan.name && execution.state == ExecutionState::kRunning);
    }
  }
  return std::optional<JobRecord>(job);
}

absl::StatusOr<PlanRecord> MemoryStore::GetPlan(absl::string_view name) {
  const Lock lock(state_->mutex);
  PARPLAN_RETURN_IF_ERROR(Begin());
  const PlanRecord* plan = Find(state_->plans, name);
  if (plan == nullptr) return NotStoredError("plan", name);
  return Whole(*plan);
}

absl::StatusOr<std::optional<PlanRecord>> MemoryStore::FindPlanByKey(absl::string_view cluster,
                                                                     absl::string_view plan_key,
                                                                     absl::string_view job_id,
                                                                     absl::Time now) {
  const Lock lock(state_->mutex);
  PARPLAN_RETURN_IF_ERROR(Begin());
  for (auto entry = state_->plans.rbegin(); entry != state_->plans.rend(); ++entry) {
    const PlanRecord& plan = entry->second;
    if (plan.cluster == cluster && plan.plan_key == plan_key && plan.job_id == job_id &&
        plan.expire_time > now) {
      return std::optional<PlanRecord>(Whole(plan));
    }
  }
  return std::optional<PlanRecord>();
}

absl::StatusOr<std::optional<PlanRecord>> MemoryStore::FindPlanByRequestId(
    absl::string_view cluster, absl::string_view owner, absl::string_view request_id) {
  const Lock lock(state_->mutex);
  PARPLAN_RETURN_IF_ERROR(Begin());
  for (const auto& [position, plan] : state_->plans) {
    if (!request_id.empty() && plan.cluster == cluster && plan.owner == owner &&
        plan.request_id == request_id) {
      return std::optional<PlanRecord>(Whole(plan));
    }
  }
  return std::optional<PlanRecord>();
}

absl::StatusOr<std::optional<PlanRecord>> MemoryStore::FindPlanOfJob(absl::string_view cluster,
                                                                     absl::string_view job_id) {
  const Lock lock(state_->mutex);
  PARPLAN_RETURN_IF_ERROR(Begin());
  for (auto entry = state_->plans.rbegin(); entry != state_->plans.rend(); ++entry) {
    const PlanRecord& plan = entry->second;
    if (!job_id.empty() && plan.cluster == cluster && plan.job_id == job_id) {
      return std::optional<PlanRecord>(Whole(plan));
    }
  }
  return std::optional<PlanRecord>();
}

absl::StatusOr<std::optional<PlanRecord>> MemoryStore::FindPlanByAnswer(
    absl::string_view cluster, absl::string_view answer_key) {
  const Lock lock(state_->mutex);
  PARPLAN_RETURN_IF_ERROR(Begin());
  for (auto entry = state_->plans.rbegin(); entry != state_->plans.rend(); ++entry) {
    const PlanRecord& plan = entry->second;
    if (!answer_key.empty() && plan.cluster == cluster && plan.answer_key == answer_key) {
      return std::optional<PlanRecord>(Whole(plan));
    }
  }
  return std::optional<PlanRecord>();
}

absl::StatusOr<Page<PlanRecord>> MemoryStore::ListPlans(absl::string_view cluster,
                                                        const PageRequest& page) {
  const Lock lock(state_->mutex);
  PARPLAN_RETURN_IF_ERROR(Begin());
  return ListNewestFirst(state_->plans, absl::StrCat("plans/", cluster), page,
                         [&](const PlanRecord& plan) { return plan.cluster == cluster; });
}

absl::StatusOr<Page<PlanRecord>> MemoryStore::ListOwnPlans(absl::string_view cluster,
                                                           const PlanScope& scope,
                                                           const PageRequest& page) {
  const Lock lock(state_->mutex);
  PARPLAN_RETURN_IF_ERROR(Begin());
  return ListNewestFirst(
      state_->plans, OwnPlansList(cluster, scope), page, [&](const PlanRecord& plan) {
        const auto& jobs = scope.job_ids;
        return plan.cluster == cluster &&
               ((!scope.owner.empty() && plan.owner == scope.owner) ||
                (!plan.job_id.empty() &&
                 std::find(jobs.begin(), jobs.end(), plan.job_id) != jobs.end()));
      });
}

absl::StatusOr<int64_t> MemoryStore::CountPlans(absl::string_view cluster) {
  const Lock lock(state_->mutex);
  PARPLAN_RETURN_IF_ERROR(Begin());
  return std::count_if(state_->plans.begin(), state_->plans.end(),
                       [&](const auto& entry) { return entry.second.cluster == cluster; });
}

absl::StatusOr<int64_t> MemoryStore::DeleteExpiredPlans(absl::Time now, absl::Duration retention,
                                                        int64_t limit, const RecordScope& scope) {
  const Lock lock(state_->mutex);
  PARPLAN_RETURN_IF_ERROR(BeginChange());
  // Soonest expired first.
  std::vector<std::pair<absl::Time, int64_t>> expired;
  for (const auto& [position, plan] : state_->plans) {
    const std::string& name = plan.name;
    const bool is_executed =
        std::any_of(state_->executions.begin(), state_->executions.end(),
                    [&name](const auto& entry) { return entry.second.plan == name; });
    if (plan.expire_time <= now - retention && !is_executed && IsIn(plan, scope)) {
      expired.emplace_back(plan.expire_time, position);
    }
  }
  std::sort(expired.begin(), expired.end());
  if (static_cast<int64_t>(expired.size()) > limit) expired.resize(limit);
  for (const auto& [expire_time, position] : expired) {
    const auto spec = state_->spec_of_plan.extract(state_->plans.at(position).name);
    state_->plans.erase(position);
    if (spec.empty()) continue;
    const bool is_shared =
        std::any_of(state_->spec_of_plan.begin(), state_->spec_of_plan.end(),
                    [&spec](const auto& entry) { return entry.second == spec.mapped(); });
    if (!is_shared) state_->specs.erase(spec.mapped());
  }
  return static_cast<int64_t>(expired.size());
}

absl::StatusOr<bool> MemoryStore::HasSpec(absl::string_view spec) {
  const Lock lock(state_->mutex);
  PARPLAN_RETURN_IF_ERROR(Begin());
  return state_->specs.count(std::string(spec)) > 0;
}

absl::StatusOr<StoredUsage> MemoryStore::Usage(const RecordScope& scope) {
  const Lock lock(state_->mutex);
  PARPLAN_RETURN_IF_ERROR(Begin());
  StoredUsage usage;
  for (const auto& [position, plan] : state_->plans) {
    if (!IsIn(plan, scope)) continue;
    ++usage.plan_count;
    usage.byte_count += static_cast<int64_t>(plan.bytes.size());
  }
  for (const auto& [bytes, first_plan] : state_->specs) {
    if (IsIn(first_plan, scope)) usage.byte_count += static_cast<int64_t>(bytes.size());
  }
  for (const auto& [position, profile] : state_->profiles) {
    if (IsIn(profile, scope)) usage.byte_count += static_cast<int64_t>(profile.bytes.size());
  }
  for (const auto& [position, execution] : state_->executions) {
    PlanRecord place = *Find(state_->plans, execution.plan);
    place.owner = execution.owner;
    if (!IsIn(place, scope)) continue;
    usage.execution_byte_count += ExecutionByteCount(execution);
    for (const auto& [key, window] : state_->windows[execution.name]) {
      usage.execution_byte_count += WindowByteCount(window);
    }
  }
  return usage;
}

}  // namespace parplan
