// Makes the parts of a signed plan from the caller's question and the planner's answer. Pure.
// Called by `PlanCore` when it looks for a plan and when it signs.

#ifndef PARPLAN_SERVER_CORE_ISSUE_H_
#define PARPLAN_SERVER_CORE_ISSUE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "parplan/v1/plan.pb.h"
#include "planner/find_plan.h"
#include "server/core/observer.h"
#include "server/core/plan_question.h"
#include "server/core/plan_search.h"
#include "server/store/records.h"

namespace parplan {

// Returns the key by which the store finds the plan, in lower-case hexadecimal: the binding key of
// the question if its answer is complete, else a key that no question asks for.
std::string StoredPlanKey(const PlanQuestion& question, bool is_complete);

// Returns the key that plans of equal complete answers share, whomever they are for: their
// questions have the same `answer_key`. Lower-case hexadecimal.
std::string StoredAnswerKey(const PlanQuestion& question);

// Returns the id of a plan issued at `issue_time`, `kIdLength` hexadecimal digits. It depends on
// question, job and time, so a plan issued again after the first has expired gets another id.
// `plan_key` is from `StoredPlanKey`.
std::string NewPlanId(absl::string_view plan_key, absl::Time issue_time);

// The two parts of a plan before it is signed: what is signed, and what is stored beside it. Equal
// questions have equal payloads except for name and times. For a plan of a job the caller sets the
// generation, which is 0, and calls `Succeed` if the job has a plan; then it signs `payload` and
// puts the envelope into `plan`.
struct UnsignedAnswer {
  v1::PlanPayload payload;
  v1::Plan plan;
};

// Returns both parts for a plan that was searched for `question`. `name` is the resource name of
// the plan.
UnsignedAnswer NewAnswer(const PlanQuestion& question, const SearchedPlan& searched,
                         const std::string& name, absl::Time issue_time);

// Returns both parts for a plan that was issued before, perhaps for another job: they keep what the
// planner found and take the rest from `question`. DATA_LOSS (STORE_UNAVAILABLE) if the payload of
// `issued` does not parse. REQUIRES, unchecked: `issued` answers a question with the same
// `answer_key`.
absl::StatusOr<UnsignedAnswer> AnswerAgain(const PlanQuestion& question, const v1::Plan& issued,
                                           const std::string& name, absl::Time issue_time);

// Returns whether what a stored plan signs agrees with the question as far as it says: model,
// nodes, measurements, data sheets, calibration, runtime, planner, release, and a batch of those
// that are asked for; and its spec, which is not signed, with the batch of the question. The rules
// of the search are not signed either.
bool Answers(const v1::Plan& issued, const PlanQuestion& question);

// Names the newest plan of its job as the plan that this one supersedes if both are for the same
// model and batch. Raises the number of this plan to at least one above that of the newest, which a
// server of an older release may have numbered without the knowledge of the store. DATA_LOSS
// (STORE_UNAVAILABLE) if the stored plan does not parse; `payload` is then unchanged.
absl::Status Succeed(const PlanRecord& predecessor, v1::PlanPayload& payload);

// Returns the report to the observer for a plan with this payload; `now` is for the age of the
// profile, which is absent if nothing was measured.
PlanReport ReportOf(const PlanQuestion& question, const v1::Plan& plan,
                    const v1::PlanPayload& payload, absl::Time now);

}  // namespace parplan

#endif  // PARPLAN_SERVER_CORE_ISSUE_H_
