#include "tests/clients/import/hugging_face_cases.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "proto/wire/model_wire.h"
#include "tests/support/status_matchers.h"

namespace parplan {

absl::StatusOr<HuggingFaceImport> ImportConfigText(const std::string& text,
                                                   const ModelFlags& flags) {
  return ImportHuggingFace({"config.json", text}, flags);
}

std::string With(const char* base, const char* change) {
  nlohmann::json object = nlohmann::json::parse(base);
  object.merge_patch(nlohmann::json::parse(change));
  return object.dump();
}

int64_t ParametersOf(const std::string& config, const ModelFlags& flags) {
  const absl::StatusOr<HuggingFaceImport> import = ImportConfigText(config, flags);
  EXPECT_OK(import.status());
  if (!import.ok()) return 0;
  const absl::StatusOr<ModelSpec> model = ModelFromProto(import->model);
  EXPECT_OK(model.status());
  return model.ok() ? model->parameter_count() : 0;
}

std::string LayersOf(const v1::ModelSpec& model) {
  std::string layers;
  for (int i = 1; i + 1 < model.layer_runs_size(); ++i) {
    for (const v1::LayerDefinition& definition : model.layer_definitions()) {
      if (definition.layer_definition_id() != model.layer_runs(i).layer_definition_id()) continue;
      char letter = '.';
      if (definition.attention_window() == 16) letter = 'w';
      if (definition.attention_chunk_size() == 16) letter = 'c';
      if (definition.kind() == v1::LAYER_KIND_STATE_SPACE) letter = 's';
      if (definition.kind() == v1::LAYER_KIND_FEED_FORWARD) letter = 'f';
      if (definition.kind() == v1::LAYER_KIND_OPAQUE) letter = 'o';
      if (definition.prediction_depth() > 0) letter = 'p';
      if (definition.expert_count() > 0) letter = letter == '.' ? ':' : letter - 'a' + 'A';
      layers.append(model.layer_runs(i).layer_count(), letter);
    }
  }
  return layers;
}

}  // namespace parplan
