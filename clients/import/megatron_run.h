// `planctl import megatron`: the model and the plan that people run today.

#ifndef PARPLAN_CLIENTS_IMPORT_MEGATRON_RUN_H_
#define PARPLAN_CLIENTS_IMPORT_MEGATRON_RUN_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "clients/import/model_facts.h"
#include "clients/import/named_text.h"
#include "parplan/v1/model.pb.h"
#include "planner/model/model_spec.h"
#include "planner/model/plan.h"

namespace parplan {

struct MegatronRunOptions {
  // Ranks of the job; 0: those that a launch script gives torchrun.
  int device_count = 0;
  // The model of the run, which the arguments must then be of; absent: the arguments' own.
  std::optional<v1::ModelSpec> model;
  // Sizes that take precedence over the arguments. Not used with `model`.
  ModelFlags flags;
};

struct MegatronRunImport {
  v1::ModelSpec model;
  Plan plan;
  // Assumptions, one sentence per entry.
  std::vector<std::string> notes;
};

// The runtime of a prediction of such a plan.
inline constexpr char kMegatronRuntime[] = "megatron-core";

// Reads a run of Megatron-LM, core 0.14 to 0.20, from one of these texts:
//
//   arguments      `--name value` or `--name=value`, the first word is an argument
//   a script       a shell script that starts a Python program (launch_script.h)
//   YAML           a file of that ending, of Megatron-LM's tests or of Megatron-Bridge
//                  (megatron_yaml.h)
//
// Arguments that change neither shape nor parallelism are ignored and named in one note.
//
// INVALID_ARGUMENT (SPEC_INVALID) with file and argument: the errors of ReadLaunchScript,
// ReadMegatronYaml, ArgumentList::Read, MegatronModelSpecOf, ModelFromProto and ImportMegatronPlan,
// for a script whose program trains another kind of model (BERT, T5, vision, Mamba, ...), and for a
// number of devices that neither options nor script give.
absl::StatusOr<MegatronRunImport> ImportMegatronRun(const NamedText& file,
                                                    const MegatronRunOptions& options);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_MEGATRON_RUN_H_
