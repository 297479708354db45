// Decides whether a plan may replace the one that a job runs by. `PlanFetcher` (plan_fetcher.h)
// asks it.

#ifndef PARPLAN_CLIENTS_KUBERNETES_SUCCESSOR_H_
#define PARPLAN_CLIENTS_KUBERNETES_SUCCESSOR_H_

#include "absl/status/status.h"
#include "parplan/v1/plan.pb.h"

namespace parplan::sidecar {

// Returns OK if `next` is for the same model and batch as `current`, and has a higher generation
// (PlanPayload.generation); any generation will do if `current` has none (0) because an older
// release made it. Otherwise FAILED_PRECONDITION (AUDIENCE_MISMATCH) with `field` job_id. Pure.
// REQUIRES, unchecked: both were verified, and are plans of one job.
absl::Status CheckSuccessor(const v1::PlanPayload& current, const v1::PlanPayload& next);

}  // namespace parplan::sidecar

#endif  // PARPLAN_CLIENTS_KUBERNETES_SUCCESSOR_H_
