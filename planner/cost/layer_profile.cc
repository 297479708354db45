#include "planner/cost/layer_profile.h"

#include "absl/strings/str_cat.h"

namespace parplan {

LayerProfile LayerProfile::Resolve(const LayerDefinition& definition, Precision precision,
                                   const MeasuredLayer* measured, const Needs& needs,
                                   ResolutionNotes& notes, const LayerEstimator* estimator) {
  LayerProfile profile;
  profile.definition_ = definition;
  const bool estimates = needs.allow_estimates && estimator != nullptr;
  if (measured == nullptr && !(estimates && estimator->times && estimator->memory)) {
    notes.missing.push_back(absl::StrCat("layer `", definition.layer_definition_id,
                                         "`: no timing and no memory of an equal layer"));
    return profile;
  }
  const MeasuredLayer nothing;
  if (measured == nullptr) measured = &nothing;
  profile.memory_ = MeasuredLayerMemory::Resolve(definition, precision, measured->memories, needs,
                                                 estimator, notes);
  profile.times_ = MeasuredLayerTimes::Resolve(
      definition, measured->timings, needs, profile.memory_.sequence_parallel(), estimator, notes);
  return profile;
}

}  // namespace parplan
