// Settings of Megatron-LM in YAML, as arguments of its command line. `ImportMegatronRun`
// (megatron_run.h) calls it.

#ifndef PARPLAN_CLIENTS_IMPORT_MEGATRON_YAML_H_
#define PARPLAN_CLIENTS_IMPORT_MEGATRON_YAML_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "clients/import/named_text.h"

namespace parplan {

// The settings of a YAML file as arguments.
struct MegatronYaml {
  // Words of the command line, names with their dashes and values apart. Whether they are known is
  // left to ArgumentList::FromWords.
  std::vector<std::string> arguments;
  // Assumptions, one sentence per entry.
  std::vector<std::string> notes;
};

// Reads one of two forms. A test of Megatron-LM has a map MODEL_ARGS from arguments to values, of
// which `true` makes a switch, and `false` and unset ones leave the argument out. A configuration
// of Megatron-Bridge (the text that its `ConfigContainer.to_yaml` writes) has a value
// `mixed_precision` and maps `model`, `train`, `ddp`, `optimizer` and others with fields of
// dataclasses, of which only `model` must be there. A file that has MODEL_ARGS is read as a test.
// Fields of other maps than `model` that are not known here are ignored, with a note that names
// their maps.
//
// INVALID_ARGUMENT (SPEC_INVALID) with file and key: the errors of ReadYamlScalars; neither form; a
// value of the wrong kind; a `mixed_precision` that is not known here; and fields of `model` that
// are not known here (all in one message) unless they are false, null or 0.
absl::StatusOr<MegatronYaml> ReadMegatronYaml(const NamedText& file);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_MEGATRON_YAML_H_
