// Reads plans that `planctl export --to fsdp2|torch-pipelining` wrote: the JSON and the table of
// passes. `planctl import torch` calls it, and tests hold the exporter to its files with it.

#ifndef PARPLAN_CLIENTS_IMPORT_TORCH_PLAN_H_
#define PARPLAN_CLIENTS_IMPORT_TORCH_PLAN_H_

#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "clients/import/named_text.h"
#include "exports/torch_plan_json.h"
#include "planner/model/model_spec.h"
#include "planner/model/plan.h"

namespace parplan {

// The contents of the two files.
struct TorchPlanImport {
  // The format of the file.
  TorchPlanFormat format = TorchPlanFormat::kFsdp2;
  Plan plan;
  // Properties of the runtime that the file states (exports/torch_plan_json.h); those that it does
  // not state, such as `reduction_bytes` of `stages.json`, have their defaults.
  TorchPlanTraits traits;
};

// Returns the plan of `document` (`fsdp2.json` or `stages.json`), one of `model`. `passes` is
// `schedule.csv` and absent exactly if the plan has one stage.
//
// INVALID_ARGUMENT (SPEC_INVALID) with file, member and rule for a text that is no such JSON, for
// another format or version, for counts out of range, for every member that is unknown, missing or
// other than the rest of the file makes it, and for a table that is missing, too much or not that
// of the schedule; with the field of the plan for plans that the exporter refuses.
absl::StatusOr<TorchPlanImport> ImportTorchPlan(const NamedText& document,
                                                const std::optional<NamedText>& passes,
                                                const ModelSpec& model);

// Returns the runtime that predicts what the file states: `torchtitan` where operators are
// repeated, `fsdp` where gradients travel in 16 bits, else `torch`.
absl::string_view RuntimeOfTorchPlan(const TorchPlanTraits& traits);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_TORCH_PLAN_H_
