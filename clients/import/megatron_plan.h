// Reads arguments of Megatron-LM, core 0.14 to 0.20, as plans. `ImportMegatronRun` (megatron_run.h)
// calls `MegatronPlanOf` for every kind of text; `ImportMegatronPlan` reads exported files back in
// tests.

#ifndef PARPLAN_CLIENTS_IMPORT_MEGATRON_PLAN_H_
#define PARPLAN_CLIENTS_IMPORT_MEGATRON_PLAN_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "clients/import/argument_list.h"
#include "clients/import/named_text.h"
#include "planner/model/model_spec.h"
#include "planner/model/plan.h"

namespace parplan {

// The plan that was read, and what the reader assumed.
struct MegatronPlanImport {
  Plan plan;
  // Assumptions, one sentence per entry.
  std::vector<std::string> notes;
};

// Reads the plan that Megatron-LM runs on `device_count` devices when it is started with the
// arguments in `file`, for example a `megatron.args` of `ExportMegatronPlan`
// (exports/megatron_plan_export.h), which gives the exported plan again. --micro-batch-size must be
// there; without --global-batch-size a step has one micro-batch. Arguments that change neither
// shape nor parallelism (learning rate, paths, ...) are ignored and noted.
//
// Returns INVALID_ARGUMENT (SPEC_INVALID) for a model that RequireDecoderModel
// (exports/uniform_plan.h) refuses; with the file for a `device_count` outside 1 to kMaxImportCount
// and for arguments that are unknown (all in one message); with file and argument for other errors
// of ArgumentList::Read; for arguments of another model than `model` (megatron_comparison.h); for
// contradictions (degrees that do not divide the devices, micro-batches that do not divide the
// batch, a layout beside another division of layers, ...); and for plans that Megatron-LM refuses
// or that have no counterpart here: layouts that leave the first or the last stage empty, in which
// the program makes embedding and loss all the same, layers of multi-token prediction in several
// stages or in one that is not the last virtual stage of its rank, groups of micro-batches that
// `IsGroupSize` (planner/model/pass_order.h) does not allow beside virtual stages, another kind of
// context parallelism in each layer, recomputation of several layers at once or of parts that have
// no name of --recompute-modules, and a tensor degree that does not divide heads or groups of
// queries, of which core 0.16 and later run multiples too. Not checked is whether tensor
// parallelism divides widths (but for that of an expert, which its own degree must divide), nor
// whether the plan fits into memory.
absl::StatusOr<MegatronPlanImport> ImportMegatronPlan(const NamedText& file, const ModelSpec& model,
                                                      int device_count);

// Whether arguments of another model are an error.
enum class MegatronModelCheck {
  kCompare,
  // The model was made from the arguments.
  kTrust,
};

// Reads the plan from arguments that were read by `MegatronRules` (megatron_rules.h). Returns the
// errors of ImportMegatronPlan except those of ArgumentList::Read and, with kTrust, those about
// arguments of another model.
absl::StatusOr<MegatronPlanImport> MegatronPlanOf(const ArgumentList& arguments,
                                                  const ModelSpec& model, int device_count,
                                                  MegatronModelCheck check);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_MEGATRON_PLAN_H_
