#include "clients/import/opaque_config.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/json/json_text.h"
#include "base/status_macros.h"
#include "parplan/v1/model.pb.h"
#include "proto/wire/json_message.h"
#include "proto/wire/model_wire.h"

namespace parplan {
namespace {

// Appends the names of a list `fields`.
absl::Status ReadFieldNames(const JsonValue& list, const std::string& file_name,
                            const std::string& path, std::vector<std::string>& names) {
  const bool is_list = list.type == JsonValue::Type::kArray &&
                       std::all_of(list.items.begin(), list.items.end(), [](const JsonValue& item) {
                         return item.type == JsonValue::Type::kString;
                       });
  if (!is_list) {
    return ImportError(Reason::kSpecInvalid, absl::StrCat(file_name, ":", list.line), path,
                       "must be a list of names of the configuration's fields");
  }
  for (const JsonValue& item : list.items) names.push_back(item.text);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<GivenOpaqueLayers> ReadOpaqueLayers(const NamedText& file) {
  PARPLAN_ASSIGN_OR_RETURN(JsonValue root,
                           ReadJsonText(file.text, file.name, {.refuses_repeated_members = true}));
  if (root.type != JsonValue::Type::kObject) {
    return ImportError(Reason::kSpecInvalid, file.name, "", "must hold one JSON object");
  }
  GivenOpaqueLayers layers;
  for (JsonValue& value : root.items) {
    const std::string kind = value.key;
    const std::string place = absl::StrCat(file.name, ":", value.line);
    if (value.type != JsonValue::Type::kObject) {
      return ImportError(Reason::kSpecInvalid, place, kind,
                         "must be an object with parameterCount and opaque");
    }
    GivenOpaqueLayer layer;
    const auto fields = std::find_if(value.items.begin(), value.items.end(),
                                     [](const JsonValue& one) { return one.key == "fields"; });
    if (fields != value.items.end()) {
      PARPLAN_RETURN_IF_ERROR(
          ReadFieldNames(*fields, file.name, absl::StrCat(kind, ".fields"), layer.fields));
      value.items.erase(fields);
    }
    v1::LayerDefinition message;
    PARPLAN_RETURN_IF_ERROR(ReadJsonMessage(value, file.name, EscapeControls(kind), &message));
    if (!message.has_opaque()) {
      return ImportError(Reason::kSpecInvalid, place, absl::StrCat(kind, ".opaque"),
                         "is required: the sizes of the layer (OpaqueLayer of model.proto)");
    }
    // Sizes that the configuration has.
    message.set_layer_definition_id("opaque");
    message.set_kind(v1::LAYER_KIND_OPAQUE);
    message.set_hidden_size(1);
    message.set_sequence_length(1);
    PARPLAN_ASSIGN_OR_RETURN(
        LayerDefinition checked,
        LayerDefinitionFromProto(message, absl::StrCat(file.name, ": ", EscapeControls(kind))));
    layer.parameter_count = checked.parameter_count;
    layer.sizes = *std::move(checked.opaque);
    layers.emplace(kind, std::move(layer));
  }
  return layers;
}

}  // namespace parplan
