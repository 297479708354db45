// The parts of a signed plan: what the caller asked, what the planner found, and
// the names and times that bind the one to the other. Pure.

#ifndef PARPLAN_SERVER_CORE_ISSUE_H_
#define PARPLAN_SERVER_CORE_ISSUE_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "parplan/v1/plan.pb.h"
#include "planner/find_plan.h"
#include "server/core/observer.h"
#include "server/core/plan_question.h"
#include "server/core/plan_search.h"

namespace parplan {

// Returns the key by which the store finds the plan, in lower-case hexadecimal: the binding key of
// the question if its answer is complete, else a key that no question asks for.
std::string StoredPlanKey(const PlanQuestion& question, bool is_complete);

// Returns the key that plans of equal complete answers share, whomever they are for: their
// questions have the same `answer_key`. Lower-case hexadecimal.
std::string StoredAnswerKey(const PlanQuestion& question);

// The id of a plan issued at `issue_time`: from the question, the job and the
// time, so that a plan issued again after the first has expired is another one.
std::string NewPlanId(absl::string_view plan_key, absl::Time issue_time);

// What is signed. Equal questions give equal payloads but for name and times.
v1::PlanPayload MakePayload(const PlanQuestion& question, const PlanFound& found,
                            const std::string& name, absl::Time issue_time);

// The plan as it is stored, but for its signed part.
v1::Plan UnsignedPlan(const PlanQuestion& question, const SearchedPlan& searched,
                      const std::string& name, absl::Time issue_time);

// The same two of a plan that was issued before for an equal question, perhaps for another
// job: what the planner said is taken over, the rest is of this question.
v1::PlanPayload PayloadAgain(const PlanQuestion& question, v1::PlanPayload issued,
                             const std::string& name, absl::Time issue_time);
v1::Plan UnsignedPlanAgain(const PlanQuestion& question, v1::Plan issued, const std::string& name,
                           absl::Time issue_time);

// What the observer hears of a plan with this payload.
PlanReport ReportOf(const PlanQuestion& question, const v1::Plan& plan,
                    const v1::PlanPayload& payload, absl::Time now);

}  // namespace parplan

#endif  // PARPLAN_SERVER_CORE_ISSUE_H_
