// The model and the plan of a run of Megatron-LM: `planctl import megatron` writes them, and
// `planctl evaluate` predicts the plan (clients/planctl/commands/given_plan.h).

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

// The runtimes of a prediction of such a plan: with parameters in 16 bits, and with those in 8 bits
// of --fp8-param-gather.
inline constexpr char kMegatronRuntime[] = "megatron-core";
inline constexpr char kMegatronNarrowRuntime[] = "megatron-core-fp8";

// Facts that the caller knows better than the text.
struct MegatronRunOptions {
  // Ranks of the job. Above 0 it takes precedence over a launch script, with a note if that has
  // others. 0: those that the script gives torchrun; arguments and YAML give none. A number below 0
  // or above kMaxImportCount is an error.
  int device_count = 0;
  // The model of the run, which is also the model of the result. Arguments that contradict it are
  // an error (megatron_comparison.h). Absent: the model is made from the arguments.
  std::optional<v1::ModelSpec> model;
  // Sizes that take precedence over the arguments. Any of them is an error beside `model`.
  ModelFlags flags;
};

// The model and the plan of the run, and what the reader assumed.
struct MegatronRunImport {
  v1::ModelSpec model;
  Plan plan;
  // The runtime of a prediction: `kMegatronRuntime`, or `kMegatronNarrowRuntime`.
  std::string runtime_id;
  // Assumptions, one sentence per entry.
  std::vector<std::string> notes;
};

// Reads a run of Megatron-LM, core 0.14 to 0.20, from one of these texts:
//
//   YAML           a file named *.yaml or *.yml, of Megatron-LM's tests or of Megatron-Bridge
//                  (megatron_yaml.h)
//   arguments      `--name value` or `--name=value`; the first word behind blanks and `#` comments
//                  begins with `--`
//   a script       a shell script that starts a Python program with --micro-batch-size
//                  (launch_script.h); every other text is read as one
//
// Arguments that change neither shape nor parallelism are ignored and named in one note; those that
// change when the host launches kernels have notes of their own (megatron_graphs.h), as do formats
// of the optimizer's states (megatron_states.h).
//
// Returns INVALID_ARGUMENT (SPEC_INVALID). It names file and, if one is at fault, argument for the
// errors of ReadLaunchScript, ReadMegatronYaml, ArgumentList::Read, MegatronModelSpecOf,
// MegatronPlanOf, HasMegatronNarrowParameters (megatron_layers.h) and NotesOnMegatronStates, and
// for a script whose program trains another kind of model (BERT, T5, vision, Mamba, ...); the sign
// by which a text other than YAML and arguments is known as a recipe of Megatron-Bridge; the flag
// for wrong `flags`, and for any beside `model`; the field of `model` for those of ModelFromProto
// and for a model that is no embedding, decoder layers and head; `--devices` if neither options nor
// script give a number of devices. Pure.
absl::StatusOr<MegatronRunImport> ImportMegatronRun(const NamedText& file,
                                                    const MegatronRunOptions& options);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_MEGATRON_RUN_H_
