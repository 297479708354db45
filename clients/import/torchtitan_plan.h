// Reads the plan and the model of a torchtitan configuration, one that `planctl export --to
// torchtitan` wrote or one that people run. `planctl import torchtitan` calls both functions.

#ifndef PARPLAN_CLIENTS_IMPORT_TORCHTITAN_PLAN_H_
#define PARPLAN_CLIENTS_IMPORT_TORCHTITAN_PLAN_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "clients/import/model_facts.h"
#include "clients/import/named_text.h"
#include "planner/model/model_spec.h"
#include "planner/model/plan.h"

namespace parplan {

// The runtime under which plans of torchtitan are predicted.
inline constexpr char kTorchtitanRuntime[] = "torchtitan";

// The plan that was read, and what the reader assumed.
struct TorchtitanPlanImport {
  Plan plan;
  // Assumptions, one sentence per entry.
  std::vector<std::string> notes;
};

// Returns the plan of `config` (TorchtitanSettings::Read has the languages and `function`) on
// `device_count` devices for `model`. `passes` is the table that replaces the order of passes of
// torch's schedule; it must be that of the plan, and be there if the file names one. Settings that
// are absent have torchtitan's defaults: among others 8 samples of a replica, micro-batches of one
// sample in a pipeline and of all samples of the replica without one, and selective recomputation,
// which a note names. If the file lists no stages, they are divided as torchtitan 0.3.0 does.
// Width, layers, heads, vocabulary and sequence length that the file names are compared with
// `model`; precision and optimizer are not.
//
// INVALID_ARGUMENT (SPEC_INVALID) with file, setting and rule for the errors of
// TorchtitanSettings::Read, for settings that contradict each other, the model or the devices, and
// for what no plan says: replicas of sharded groups, schedules other than 1F1B, GPipe and
// interleaved 1F1B, gradients that are reduced or parameters that are gathered oftener than a level
// of sharding says; with the file for a `device_count` outside 1 to kMaxImportCount; with the field
// of the plan or model for those that `RequireDecoderModel` (exports/uniform_plan.h) or the
// exporter refuses.
absl::StatusOr<TorchtitanPlanImport> ImportTorchtitanPlan(const NamedText& config,
                                                          const std::optional<NamedText>& passes,
                                                          absl::string_view function,
                                                          const ModelSpec& model, int device_count);

// The model that was read, and what the reader assumed.
struct TorchtitanModelImport {
  v1::ModelSpec model;
  // Assumptions, one sentence per entry.
  std::vector<std::string> notes;
};

// Returns the model whose sizes `config` names: `dim`, `n_layers`, `n_heads`, `n_kv_heads`,
// `hidden_dim`, `vocab_size` and `enable_weight_tying` of TransformerModelArgs, of `MODEL` or of
// [model], and `training.seq_len`. Layers are gated decoder layers, parameters are bf16 unless
// `training.mixed_precision_param` is `float32`, and the optimizer is Adam. The model id is `name`
// beside those sizes, or `torchtitan`. `flags` win over the file. INVALID_ARGUMENT (SPEC_INVALID)
// with file and setting for a fault of the file, with the flag for a wrong one, and with all that
// is missing if sizes are.
absl::StatusOr<TorchtitanModelImport> ImportTorchtitanModel(const NamedText& config,
                                                            absl::string_view function,
                                                            const ModelFlags& flags);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_TORCHTITAN_PLAN_H_
