#include "clients/import/opaque_config.h"

#include <utility>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "parplan/v1/model.pb.h"
#include "proto/wire/json_file.h"
#include "proto/wire/model_wire.h"

namespace parplan {

absl::StatusOr<GivenOpaqueLayers> ReadOpaqueLayers(const NamedText& file) {
  PARPLAN_ASSIGN_OR_RETURN(const nlohmann::json object,
                           ParseJsonObject(file, Reason::kSpecInvalid));
  GivenOpaqueLayers layers;
  for (const auto& [kind, value] : object.items()) {
    if (!value.is_object()) {
      return ImportError(Reason::kSpecInvalid, file.name, kind,
                         "must be an object with parameterCount and opaque");
    }
    GivenOpaqueLayer layer;
    nlohmann::json rest = value;
    if (const auto fields = value.find("fields"); fields != value.end()) {
      const bool is_list = fields->is_array();
      for (const nlohmann::json& name : is_list ? *fields : nlohmann::json::array({0})) {
        if (!name.is_string()) {
          return ImportError(Reason::kSpecInvalid, file.name, absl::StrCat(kind, ".fields"),
                             "must be a list of names of the configuration's fields");
        }
        layer.fields.push_back(name.get<std::string>());
      }
      rest.erase("fields");
    }
    v1::LayerDefinition message;
    PARPLAN_RETURN_IF_ERROR(ParseJson(
        rest.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), file.name, &message));
    if (!message.has_opaque()) {
      return ImportError(Reason::kSpecInvalid, file.name, absl::StrCat(kind, ".opaque"),
                         "is required: the sizes of the layer (OpaqueLayer of model.proto)");
    }
    // Sizes that the configuration has.
    message.set_layer_definition_id("opaque");
    message.set_kind(v1::LAYER_KIND_OPAQUE);
    message.set_hidden_size(1);
    message.set_sequence_length(1);
    PARPLAN_ASSIGN_OR_RETURN(
        LayerDefinition checked,
        LayerDefinitionFromProto(message, absl::StrCat(file.name, ": ", kind)));
    layer.parameter_count = checked.parameter_count;
    layer.sizes = *std::move(checked.opaque);
    layers.emplace(kind, std::move(layer));
  }
  return layers;
}

}  // namespace parplan
