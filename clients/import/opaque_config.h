// Layers that a configuration has and the importer does not know, with the sizes that a user gives.
// `planctl import hf` reads them, and gives them to `ImportHuggingFace`.

#ifndef PARPLAN_CLIENTS_IMPORT_OPAQUE_CONFIG_H_
#define PARPLAN_CLIENTS_IMPORT_OPAQUE_CONFIG_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "clients/import/named_text.h"
#include "planner/model/layer_definition.h"

namespace parplan {

// One kind of opaque layer.
struct GivenOpaqueLayer {
  // Parameters of one layer.
  int64_t parameter_count = 0;
  // Its bytes and degrees (planner/model/layer_definition.h).
  OpaqueLayer sizes;
  // Fields of the configuration that are about this kind alone. They are not refused, even if they
  // show a structure that no other layer may have.
  std::vector<std::string> fields;
};

// The layers by the name of their kind in `layer_types` or another list of names (layer_layout.h);
// `*` stands for all layers, and other kinds beside it give no sizes.
using GivenOpaqueLayers = std::map<std::string, GivenOpaqueLayer>;

// Reads a file of `planctl import hf --opaque`: an object with a member for each kind of layer,
//
//   {"conv": {"fields": ["conv_L_cache"], "parameterCount": 12582912,
//             "opaque": {"keptBytesPerSample": 50331648}}}
//
// where `opaque` is the message OpaqueLayer of model.proto. `fields` may be absent. Id, kind,
// hidden size and sequence length of a LayerDefinition are ignored: the configuration has them.
// Returns INVALID_ARGUMENT (SPEC_INVALID) with file, line, field and rule for anything else, a kind
// that is there twice included; rules on values of an OpaqueLayer have no line.
absl::StatusOr<GivenOpaqueLayers> ReadOpaqueLayers(const NamedText& file);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_OPAQUE_CONFIG_H_
