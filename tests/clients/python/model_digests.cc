#include "tests/clients/python/model_digests.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/system/posix_file.h"
#include "clients/import/hugging_face.h"
#include "planner/model/layer_definition.h"
#include "planner/model/model_spec.h"
#include "proto/wire/digest.h"
#include "proto/wire/json_file.h"
#include "proto/wire/model_wire.h"
#include "tests/proto/wire/random_values.h"
#include "tests/support/sample_layers.h"
#include "tests/support/shared_data.h"

namespace parplan {
namespace {

using nlohmann::json;

constexpr int kRandomModelCount = 400;

// Adds a model as its message is, with fields that may be 0. Models of layers in an order that no
// model may have are left out.
void AddModel(const std::string& name, const v1::ModelSpec& message, json& list) {
  const absl::StatusOr<ModelSpec> model = ModelFromProto(message, "model");
  if (!model.ok()) return;
  list.push_back({{"name", name},
                  {"model", json::parse(ToReadableJson(message))},
                  {"parameters", model->parameter_count()},
                  {"digest", ModelDigest(*model)}});
}

// Returns the files of a folder below the source whose names end so, in the order of their names.
std::vector<NamedText> FilesIn(const std::string& folder, const std::string& ending) {
  std::vector<NamedText> files;
  for (const auto& entry : std::filesystem::directory_iterator(SourceDir() + "/" + folder)) {
    const std::string name = entry.path().filename().string();
    if (!absl::EndsWith(name, ending)) continue;
    absl::StatusOr<std::string> text =
        ReadFile(entry.path().string(), {.max_bytes = kMaxImportBytes});
    PARPLAN_CHECK(text.ok());
    files.push_back({.name = name, .text = *std::move(text)});
  }
  std::sort(files.begin(), files.end(),
            [](const NamedText& a, const NamedText& b) { return a.name < b.name; });
  return files;
}

// Returns a model of one layer, with the fields that `LayerDefinition::Create` computes left out.
v1::ModelSpec ModelOf(const LayerDefinition& layer) {
  v1::ModelSpec model;
  model.set_model_id(layer.layer_definition_id);
  v1::LayerDefinition& definition = *model.add_layer_definitions();
  definition = LayerDefinitionToProto(layer);
  if (layer.kind != LayerKind::kOpaque) definition.clear_parameter_count();
  v1::ModelLayerRun& run = *model.add_layer_runs();
  run.set_layer_definition_id(layer.layer_definition_id);
  run.set_layer_count(1);
  model.set_precision(v1::PRECISION_BF16);
  model.set_optimizer(v1::OPTIMIZER_ADAM);
  return model;
}

}  // namespace

std::string ModelDigestsJson() {
  json list = json::array();
  for (const NamedText& config : FilesIn("tests/clients/import/data", ".json")) {
    const absl::StatusOr<HuggingFaceImport> import = ImportHuggingFace(config, {});
    if (import.ok()) AddModel(config.name, import->model, list);
  }
  for (const NamedText& file : FilesIn("deploy/examples", ".model.json")) {
    v1::ModelSpec model;
    PARPLAN_CHECK(ParseJson(file.text, file.name, &model).ok());
    AddModel(file.name, model, list);
  }
  for (const LayerDefinition& layer : LayersOfAllStructures()) {
    AddModel(layer.layer_definition_id, ModelOf(layer), list);
  }
  for (int seed = 0; seed < kRandomModelCount; ++seed) {
    AddModel(absl::StrCat("random-", seed), RandomValues(seed).Model(), list);
  }
  return list.dump();
}

}  // namespace parplan
