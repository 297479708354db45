#include "tests/clients/import/galvatron_plan_cases.h"

#include <utility>

#include "clients/import/hugging_face.h"
#include "proto/wire/model_wire.h"
#include "tests/support/status_matchers.h"

namespace parplan {

ModelSpec DecoderOf(int layer_count) {
  ModelFlags flags;
  flags.layer_counts = {layer_count};
  const absl::StatusOr<HuggingFaceImport> import = ImportHuggingFace(
      {"config.json", R"({"model_type": "gpt2", "n_embd": 64, "n_head": 8, "n_layer": 1,
                          "n_positions": 16, "vocab_size": 100})"},
      flags);
  EXPECT_OK(import);
  absl::StatusOr<ModelSpec> model = ModelFromProto(import->model);
  EXPECT_OK(model);
  return *std::move(model);
}

absl::StatusOr<GalvatronPlanImport> ImportForDecoder(const std::string& text, int layer_count,
                                                     GalvatronPlanOptions options) {
  return ImportGalvatronPlan({"plan.json", text}, DecoderOf(layer_count), options);
}

}  // namespace parplan
