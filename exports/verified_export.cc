#include "exports/verified_export.h"

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "proto/wire/digest.h"
#include "proto/wire/plan_wire.h"

namespace parplan {

absl::StatusOr<std::vector<ExportedFile>> ExportVerifiedPlan(const PlanExporter& exporter,
                                                             const VerifiedPlan& verified,
                                                             const ModelSpec& model) {
  const v1::PlanPayload& payload = verified.payload();
  if (payload.model_digest() != ModelDigest(model)) {
    return FieldError(Reason::kSpecInvalid, "model",
                      absl::StrCat("is not the one that the plan was made for, whose digest is ",
                                   payload.model_digest()));
  }
  PARPLAN_ASSIGN_OR_RETURN(const Plan plan, PlanFromPayload(payload));
  PARPLAN_ASSIGN_OR_RETURN(const ExportFacts facts,
                           ExportFactsOf(payload.runtime_id(), payload.plan()));
  return ExportPlan(exporter, plan, model, facts);
}

}  // namespace parplan
