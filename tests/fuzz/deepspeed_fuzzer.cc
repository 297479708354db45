// Configurations of DeepSpeed. The first byte chooses the devices and the model; a plan that is
// read must be exported as a configuration that reads back equal.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "clients/import/deepspeed_plan.h"
#include "clients/import/hugging_face.h"
#include "exports/deepspeed_plan_export.h"
#include "proto/wire/model_wire.h"

namespace {

constexpr char kModelConfig[] =
    R"({"dim": 64, "n_heads": 4, "n_layers": 4, "vocab_size": 100, "n_positions": 16})";

void Require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto config =
      parplan::ImportHuggingFace({"config.json", kModelConfig}, parplan::ModelFlags());
  Require(config.ok());
  const auto model = parplan::ModelFromProto(config->model);
  Require(model.ok());
  const int device_count = 1 << data[0] % 5;
  const auto import =
      parplan::ImportDeepSpeedPlan({"ds.json", text}, *model, {.device_count = device_count});
  if (!import.ok()) return 0;
  const auto files = parplan::ExportDeepSpeedPlan(import->plan, *model, parplan::ExportFacts());
  Require(files.ok());
  const auto again = parplan::ImportDeepSpeedPlan({"ds_config.json", (*files)[0].text}, *model,
                                                  {.device_count = device_count});
  Require(again.ok() && again->plan == import->plan);
  return 0;
}
