// The precision of a configuration of Megatron-Bridge, as arguments of Megatron-LM's command line.
// `ReadMegatronYaml` (megatron_yaml.h) calls it.

#ifndef PARPLAN_CLIENTS_IMPORT_BRIDGE_PRECISION_H_
#define PARPLAN_CLIENTS_IMPORT_BRIDGE_PRECISION_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "clients/import/megatron_yaml.h"
#include "clients/import/named_text.h"
#include "clients/import/yaml_text.h"

namespace parplan {

// Returns whether Megatron-Bridge writes the precision over the field of `model` with this name:
// where `mixed_precision` is given, such fields do not count, whatever they say.
bool IsOfBridgePrecision(absl::string_view model_field);

// Appends the arguments of `mixed_precision` to `yaml`, and a note for a name that multiplies in 4
// bits. After an error `yaml` is unchanged. `scalars` are all of that key, at least one: a name,
// with underscores or hyphens, or the fields of a `MixedPrecisionConfig`, whose defaults stand for
// absent ones. Names and defaults are those of release 0.3.1
// (src/megatron/bridge/training/mixed_precision.py) and one later name, of a hybrid model;
// docs/import-megatron.md lists what each sets.
//
// INVALID_ARGUMENT (SPEC_INVALID) with file, key and rule for another name or class, a field that
// is not known and neither false, null nor 0, a value of the wrong kind, and an `fp8_param` that
// differs from `fp8_param_gather`. Whether the arguments fit together is left to their reader: it
// refuses 8 bits beside fp16.
absl::Status AddBridgePrecision(const NamedText& file, const std::vector<YamlScalar>& scalars,
                                MegatronYaml* yaml);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_BRIDGE_PRECISION_H_
