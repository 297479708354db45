// Settings of Accelerate, variables or YAML. The first byte chooses the devices; a plan that is
// read must be exported as variables that read back equal.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "clients/import/accelerate_plan.h"
#include "clients/import/hugging_face.h"
#include "exports/accelerate_plan_export.h"
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
  // Some texts have the sizes of batches themselves.
  const int micro = data[0] / 5 % 2 == 0 ? 2 : 0;
  const auto import = parplan::ImportAcceleratePlan(
      {"settings", text}, *model, {.device_count = device_count, .micro_batch_size = micro});
  if (!import.ok()) return 0;
  const auto files = parplan::ExportAcceleratePlan(import->plan, *model, parplan::ExportFacts());
  Require(files.ok());
  const auto again = parplan::ImportAcceleratePlan({"accelerate.env", (*files)[0].text}, *model,
                                                   {.device_count = device_count});
  Require(again.ok() && again->plan == import->plan);
  return 0;
}
