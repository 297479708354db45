// Files of other programs from a plan whose signature was verified. `ExportPlan` of the server and
// the tools that launch jobs call it.

#ifndef PARPLAN_EXPORTS_VERIFIED_EXPORT_H_
#define PARPLAN_EXPORTS_VERIFIED_EXPORT_H_

#include <vector>

#include "absl/status/statusor.h"
#include "exports/exporters.h"
#include "planner/model/model_spec.h"
#include "proto/envelope/verified_plan.h"

namespace parplan {

// Returns the files of the plan for the program of `exporter`. `model` needs no signature of its
// own, since the plan has its digest. README.txt names the plan and the runtime of the payload.
// INVALID_ARGUMENT: PAYLOAD_MALFORMED if the payload is not a plan or names a runtime that this
// release does not know; SPEC_INVALID if the plan was made for another model, or `ExportPlan`
// (exporters.h) refuses it.
absl::StatusOr<std::vector<ExportedFile>> ExportVerifiedPlan(const PlanExporter& exporter,
                                                             const VerifiedPlan& verified,
                                                             const ModelSpec& model);

}  // namespace parplan

#endif  // PARPLAN_EXPORTS_VERIFIED_EXPORT_H_
