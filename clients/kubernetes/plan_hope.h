// The errors that pass while a pod waits for its plan. `parplan-sidecar init` and `PlanKeeper` ask.

#ifndef PARPLAN_CLIENTS_KUBERNETES_PLAN_HOPE_H_
#define PARPLAN_CLIENTS_KUBERNETES_PLAN_HOPE_H_

#include "absl/status/status.h"

namespace parplan::sidecar {

// Returns whether a plan may still come: the server can't be reached or is busy, the plan was not
// made yet, or a token or certificate is being renewed (UNAVAILABLE, DEADLINE_EXCEEDED, CANCELLED,
// NOT_FOUND, UNAUTHENTICATED, and RESOURCE_EXHAUSTED but for SEARCH_OUT_OF_MEMORY: the same
// question needs the same memory the next time). False for every other error, and for OK.
bool MayStillCome(const absl::Status& status);

}  // namespace parplan::sidecar

#endif  // PARPLAN_CLIENTS_KUBERNETES_PLAN_HOPE_H_
