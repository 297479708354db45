#include "server/core/execution_core.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "parplan/v1/plan.pb.h"
#include "proto/envelope/verifier.h"
#include "proto/wire/digest.h"
#include "proto/wire/duration_wire.h"
#include "proto/wire/resource_name.h"
#include "server/core/id_length.h"
#include "server/core/request_rules.h"
#include "server/core/stored_message.h"
#include "server/core/window_rules.h"

namespace parplan {
namespace {

// Executions marked as failed in one transaction; few, so that other writers wait briefly.
constexpr int64_t kFailBatch = 100;
// Bytes of the cache of figures of executions.
constexpr size_t kFiguresCacheBytes = size_t{4} << 20;
// Bytes that a stream stores before the quotas are asked again, so that a window costs no further
// reading; a stream exceeds them by no more. Not measured.
constexpr int64_t kQuotaStep = int64_t{1} << 20;

absl::StatusOr<v1::PlanPayload> StoredPayload(Store& store, const std::string& plan_name) {
  PARPLAN_ASSIGN_OR_RETURN(const PlanRecord record, store.GetPlan(plan_name));
  PARPLAN_ASSIGN_OR_RETURN(const v1::Plan plan, ParseStoredPlan(record));
  return ParseStored<v1::PlanPayload>(plan.signed_plan().payload(), plan_name);
}

// Returns when the job of `request` began, by which its plan is judged. A time that cannot be, in
// the future or before the plan, counts as now, the strictest one.
absl::StatusOr<absl::Time> StartOf(const v1::CreateExecutionRequest& request,
                                   const PlanRecord& plan, absl::Time now) {
  if (!request.has_start_time()) return now;
  PARPLAN_ASSIGN_OR_RETURN(const absl::Time start,
                           TimestampFromProto(request.start_time(), "start_time"));
  const bool can_be = start >= plan.create_time - PlanVerifier::kIssueTimeTolerance && start < now;
  return can_be ? start : now;
}

// Returns the message of an execution as it is when it is opened.
v1::Execution OpenedExecution(const std::string& name, const v1::PlanPayload& payload) {
  v1::Execution execution;
  execution.set_name(name);
  *execution.mutable_predicted_step_duration() = payload.prediction().step_duration();
  execution.set_predicted_peak_memory_bytes(payload.prediction().peak_memory_bytes());
  execution.set_calibration_digest(payload.calibration_digest());
  for (v1::ExecutionStage& stage : PredictedStages(payload)) {
    *execution.add_stages() = std::move(stage);
  }
  return execution;
}

std::optional<double> RatioOf(const v1::Execution& execution) {
  if (!execution.has_step_duration_ratio()) return std::nullopt;
  return execution.step_duration_ratio();
}

}  // namespace

absl::Status ReportSession::Add(const v1::ReportMetricsRequest& request) {
  if (failure_.ok()) failure_ = AddImpl(request);
  return failure_;
}

absl::Status ReportSession::AddUndecoded(const absl::Status& why) {
  if (!failure_.ok()) return failure_;
  if (execution_.empty()) failure_ = core_->guard_.CheckUndecoded(*context_, "ReportMetrics");
  if (failure_.ok()) failure_ = why;
  return failure_;
}

absl::Status ReportSession::AddImpl(const v1::ReportMetricsRequest& request) {
  if (execution_.empty()) {
    PARPLAN_RETURN_IF_ERROR(Open(request));
  } else if (!request.execution().empty() && request.execution() != execution_) {
    return FieldError(Reason::kSpecInvalid, "execution",
                      "must be empty or the same in every message of a stream");
  }
  if (!request.has_window()) return FieldError(Reason::kSpecInvalid, "window", "is required");
  PARPLAN_ASSIGN_OR_RETURN(const WindowRecord window, ReadWindow(request.window(), device_count_,
                                                                 core_->limits_.max_window_bytes));
  const absl::StatusOr<AppendResult> result = Append(window);
  if (!result.ok()) return NamingField(result.status(), "execution");
  response_.set_stored_window_count(response_.stored_window_count() + result->stored_count);
  response_.set_duplicate_window_count(response_.duplicate_window_count() +
                                       result->duplicate_count);
  if (result->stored_count > 0) core_->observer_.WindowsStored(result->stored_count);
  return absl::OkStatus();
}

absl::Status ReportSession::Open(const v1::ReportMetricsRequest& request) {
  const std::string& execution = request.execution();
  PARPLAN_ASSIGN_OR_RETURN(const ExecutionName name, ExecutionName::Parse(execution, "execution"));
  PARPLAN_RETURN_IF_ERROR(core_->guard_.Check(*context_, "ReportMetrics", request));
  // Checked first, so that the error names the execution if it does not exist.
  const absl::StatusOr<ExecutionRecord> stored = core_->store_.GetExecution(execution);
  if (!stored.ok()) return NamingField(stored.status(), "execution");
  PARPLAN_ASSIGN_OR_RETURN(const v1::PlanPayload payload,
                           StoredPayload(core_->store_, name.parent().ToString()));
  owner_ = stored->owner;
  cluster_ = name.cluster;
  device_count_ = payload.device_count();
  execution_ = execution;
  return absl::OkStatus();
}

absl::StatusOr<AppendResult> ReportSession::Append(const WindowRecord& window) {
  const Limits& limits = core_->limits_;
  const int64_t byte_count = WindowByteCount(window);
  const absl::Time now = core_->clock_.Now();
  if (!unchecked_bytes_.has_value() || *unchecked_bytes_ + byte_count > kQuotaStep) {
    const absl::Status allowed = core_->quotas_.Check(
        {.owner = owner_, .cluster = cluster_, .byte_count = byte_count, .is_execution = true});
    if (!allowed.ok()) {
      // With no room at all only a window that is stored already is taken. An execution that was
      // closed, or a store that fails, is refused as such.
      absl::StatusOr<AppendResult> known =
          core_->store_.AppendWindows(execution_, {window}, {.window_count = 0}, now);
      return absl::IsResourceExhausted(known.status()) ? allowed : known;
    }
    unchecked_bytes_ = 0;
  }
  *unchecked_bytes_ += byte_count;
  return core_->store_.AppendWindows(
      execution_, {window},
      {.window_count = limits.max_window_count, .byte_count = limits.max_execution_bytes}, now);
}

absl::StatusOr<v1::ReportMetricsResponse> ReportSession::Finish() {
  if (!failure_.ok()) return failure_;
  return response_;
}

ExecutionCore::ExecutionCore(Store& store, const Clock& clock, Observer& observer,
                             const Limits& limits, CallGuard& guard, QuotaKeeper& quotas)
    : store_(store),
      clock_(clock),
      observer_(observer),
      limits_(limits),
      guard_(guard),
      quotas_(quotas),
      start_(clock.Steady()),
      figures_(kFiguresCacheBytes) {}

absl::StatusOr<v1::Execution> ExecutionCore::Create(const v1::CreateExecutionRequest& request,
                                                    const std::string& owner) {
  PARPLAN_ASSIGN_OR_RETURN(const PlanName plan, PlanName::Parse(request.parent(), "parent"));
  PARPLAN_RETURN_IF_ERROR(CheckRequestId(request.request_id(), true, "request_id"));
  const std::string plan_name = plan.ToString();
  const std::string id =
      Sha256Hex(absl::StrCat("parplan execution id 1\n", plan_name, "\n", request.request_id()))
          .substr(0, kIdLength);
  const std::string name = ExecutionName{plan.cluster, plan.plan, id}.ToString();
  // A retry finds the execution also after the plan has expired.
  if (const absl::StatusOr<ExecutionRecord> first = store_.GetExecution(name); first.ok()) {
    return ToMessage(*first);
  }
  const absl::StatusOr<PlanRecord> stored = store_.GetPlan(plan_name);
  if (!stored.ok()) return NamingField(stored.status(), "parent");
  const absl::Time now = clock_.Now();
  PARPLAN_ASSIGN_OR_RETURN(const absl::Time start, StartOf(request, *stored, now));
  if (start >= stored->expire_time) {
    const std::string expire_time = absl::FormatTime(stored->expire_time, absl::UTCTimeZone());
    return MakeError(absl::StatusCode::kFailedPrecondition, Reason::kPlanExpired,
                     absl::StrCat("the plan had expired, at ", expire_time,
                                  ", when the job began; ask for a new one"),
                     {{"expireTime", expire_time}});
  }
  PARPLAN_ASSIGN_OR_RETURN(const v1::PlanPayload payload, StoredPayload(store_, plan_name));
  ExecutionRecord record;
  record.name = name;
  record.plan = plan_name;
  record.execution_id = id;
  record.owner = owner;
  record.request_id = request.request_id();
  record.start_time = now;
  record.bytes = OpenedExecution(name, payload).SerializeAsString();
  PARPLAN_RETURN_IF_ERROR(quotas_.Check({.owner = owner,
                                         .cluster = plan.cluster,
                                         .byte_count = ExecutionByteCount(record),
                                         .is_execution = true}));
  absl::StatusOr<ExecutionRecord> created = store_.CreateExecution(record);
  if (created.status().code() == absl::StatusCode::kAlreadyExists) {
    created = store_.GetExecution(name);
  }
  PARPLAN_RETURN_IF_ERROR(created.status());
  return ToMessage(*created);
}

std::unique_ptr<ReportSession> ExecutionCore::StartReport(std::shared_ptr<CallContext> context) {
  return std::unique_ptr<ReportSession>(new ReportSession(this, std::move(context)));
}

absl::StatusOr<v1::Execution> ExecutionCore::Complete(const v1::CompleteExecutionRequest& request) {
  return Close(request.name(), ExecutionState::kSucceeded, "");
}

absl::StatusOr<v1::Execution> ExecutionCore::Fail(const v1::FailExecutionRequest& request) {
  PARPLAN_RETURN_IF_ERROR(CheckCharacterCount(request.reason(), kMaxReasonCharacters, "reason"));
  const ExecutionState state =
      request.abandoned() ? ExecutionState::kAbandoned : ExecutionState::kFailed;
  return Close(request.name(), state, request.reason());
}

absl::StatusOr<v1::Execution> ExecutionCore::Close(const std::string& name, ExecutionState state,
                                                   const std::string& failure_reason) {
  PARPLAN_RETURN_IF_ERROR(ExecutionName::Parse(name).status());
  PARPLAN_ASSIGN_OR_RETURN(const ExecutionRecord before, store_.GetExecution(name));
  const ExecutionState wanted =
      state == ExecutionState::kAbandoned ? ExecutionState::kFailed : state;
  // An execution in state failed may have been abandoned only, which the store knows.
  if (before.state == wanted && state != ExecutionState::kFailed) return ToMessage(before);
  // The clock may have been set back since the execution was opened.
  const absl::StatusOr<ExecutionRecord> closed =
      store_.SetExecutionState(name, ExecutionState::kRunning, state,
                               std::max(clock_.Now(), before.start_time), failure_reason);
  if (closed.status().code() == absl::StatusCode::kFailedPrecondition) {
    // It was closed in the same way before, or by another call in the meantime.
    const absl::StatusOr<ExecutionRecord> now = store_.GetExecution(name);
    if (now.ok() && now->state == wanted) return ToMessage(*now);
  }
  PARPLAN_RETURN_IF_ERROR(closed.status());
  return ReportClosed(*closed);
}

absl::StatusOr<v1::Execution> ExecutionCore::ReportClosed(const ExecutionRecord& record) {
  PARPLAN_ASSIGN_OR_RETURN(v1::Execution execution, ToMessage(record));
  PARPLAN_ASSIGN_OR_RETURN(const ExecutionName name, ExecutionName::Parse(record.name));
  observer_.ExecutionClosed(name.cluster, record.state == ExecutionState::kSucceeded,
                            RatioOf(execution));
  ReportRatios(execution, name.cluster, observer_);
  return execution;
}

absl::StatusOr<bool> ExecutionCore::FailSilent() {
  const absl::Duration silence = limits_.longest_execution_silence;
  // An execution may be silent because no server ran: it gets the whole time again.
  if (clock_.Steady() - start_ < silence) return false;
  const absl::Time now = clock_.Now();
  const std::string reason =
      absl::StrCat("abandoned: no report for ", absl::FormatDuration(silence));
  PARPLAN_ASSIGN_OR_RETURN(const std::vector<ExecutionRecord> failed,
                           store_.FailSilentExecutions(now - silence, now, reason, kFailBatch));
  for (const ExecutionRecord& record : failed) {
    PARPLAN_RETURN_IF_ERROR(ReportClosed(record).status());
  }
  return static_cast<int64_t>(failed.size()) == kFailBatch;
}

absl::StatusOr<v1::Execution> ExecutionCore::Get(const v1::GetExecutionRequest& request) {
  PARPLAN_ASSIGN_OR_RETURN(const ExecutionName name, ExecutionName::Parse(request.name()));
  PARPLAN_ASSIGN_OR_RETURN(const ExecutionRecord record, store_.GetExecution(name.ToString()));
  return ToMessage(record);
}

absl::StatusOr<v1::ListExecutionsResponse> ExecutionCore::List(
    const v1::ListExecutionsRequest& request) {
  PARPLAN_ASSIGN_OR_RETURN(const PlanName parent, PlanName::Parse(request.parent(), "parent"));
  PARPLAN_ASSIGN_OR_RETURN(
      const Page<ExecutionRecord> page,
      store_.ListExecutions(parent.ToString(),
                            PageRequest{request.page_size(), request.page_token()}));
  v1::ListExecutionsResponse response;
  for (const ExecutionRecord& record : page.records) {
    v1::Execution& execution = *response.add_executions();
    PARPLAN_ASSIGN_OR_RETURN(execution, ToMessage(record));
    execution.clear_stages();
  }
  response.set_next_page_token(page.next_page_token);
  return response;
}

absl::StatusOr<std::shared_ptr<const ExecutionFigures>> ExecutionCore::FiguresOf(
    const ExecutionRecord& record, const v1::Execution& opened) {
  if (record.window_count == 0) return std::make_shared<const ExecutionFigures>();
  const std::string key = absl::StrCat(record.name, "\n", absl::ToUnixNanos(record.start_time),
                                       "\n", record.window_count);
  if (const auto known = figures_.Get(key)) return *known;
  PARPLAN_ASSIGN_OR_RETURN(const std::vector<WindowRecord> windows,
                           store_.ListWindows(record.name, Store::WindowParts::kFigures));
  PARPLAN_ASSIGN_OR_RETURN(ExecutionFigures measured, FiguresOfWindows(windows, opened));
  const auto figures = std::make_shared<const ExecutionFigures>(std::move(measured));
  // Windows may have arrived since the record was read; the figures with them have another key.
  if (static_cast<int64_t>(windows.size()) == record.window_count) {
    figures_.Put(key, figures, figures->SizeBytes());
  }
  return figures;
}

absl::StatusOr<v1::Execution> ExecutionCore::ToMessage(const ExecutionRecord& record) {
  PARPLAN_ASSIGN_OR_RETURN(v1::Execution execution,
                           ParseStored<v1::Execution>(record.bytes, record.name));
  execution.set_state(static_cast<v1::Execution::State>(record.state));
  *execution.mutable_start_time() = TimestampToProto(record.start_time);
  if (record.state != ExecutionState::kRunning) {
    *execution.mutable_end_time() = TimestampToProto(record.end_time);
  }
  execution.set_failure_reason(record.failure_reason);
  execution.set_window_count(record.window_count);
  PARPLAN_ASSIGN_OR_RETURN(const std::shared_ptr<const ExecutionFigures> figures,
                           FiguresOf(record, execution));
  AddFigures(*figures, &execution);
  return execution;
}

}  // namespace parplan
