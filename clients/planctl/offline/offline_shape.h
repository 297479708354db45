// Answers `ShapePlan` in this process, without a server, from files. `planctl shape --offline` and
// `planctl plan --offline --money` call it.

#ifndef PARPLAN_CLIENTS_PLANCTL_OFFLINE_OFFLINE_SHAPE_H_
#define PARPLAN_CLIENTS_PLANCTL_OFFLINE_OFFLINE_SHAPE_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "clients/planctl/offline/local_search.h"
#include "parplan/v1/plan_service.pb.h"
#include "parplan/v1/profile.pb.h"
#include "planner/model/calibration.h"

namespace parplan::planctl {

// Plans for every number of devices of every offer, as a server with these measurements and this
// calibration would (offline_planner.h says what null and no profiles stand for), one after the
// other; `options.search_time_limit` is for all of them together.
//
// Errors are those of the method, with the same fields, and those of `OfflineProblem`. That nothing
// fits is an answer.
absl::StatusOr<v1::ShapePlanResponse> ShapeOffline(
    const v1::ShapePlanRequest& request, const std::vector<v1::Profile>& profiles,
    const std::shared_ptr<const Calibration>& calibration = nullptr, const SearchWatch& watch = {});

}  // namespace parplan::planctl

#endif  // PARPLAN_CLIENTS_PLANCTL_OFFLINE_OFFLINE_SHAPE_H_
