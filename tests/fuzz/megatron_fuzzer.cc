// Arguments of Megatron-LM, and its layouts of a pipeline. The first byte chooses: what is read as
// a layout must be written as one that reads back equal, and a plan that is read must be exported
// as arguments that read back equal.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "clients/import/hugging_face.h"
#include "clients/import/megatron_plan.h"
#include "exports/megatron_layout.h"
#include "exports/megatron_plan_export.h"
#include "proto/wire/model_wire.h"

namespace {

constexpr char kModelConfig[] =
    R"({"dim": 64, "n_heads": 4, "n_layers": 4, "vocab_size": 100, "n_positions": 16})";
constexpr int kDeviceCount = 16;

void Require(bool holds) {
  if (!holds) std::abort();
}

void ReadLayout(const std::string& text) {
  const auto stages = parplan::ParseMegatronLayout(text, "layout");
  if (!stages.ok()) return;
  const auto again = parplan::ParseMegatronLayout(parplan::FormatMegatronLayout(*stages), "layout");
  Require(again.ok() && *again == *stages);
}

void ReadArguments(const std::string& text) {
  const auto config =
      parplan::ImportHuggingFace({"config.json", kModelConfig}, parplan::ModelFlags());
  Require(config.ok());
  const auto model = parplan::ModelFromProto(config->model);
  Require(model.ok());
  const auto import = parplan::ImportMegatronPlan({"run.args", text}, *model, kDeviceCount);
  if (!import.ok()) return;
  const auto files = parplan::ExportMegatronPlan(import->plan, *model, parplan::ExportFacts());
  if (!files.ok()) return;
  const auto again =
      parplan::ImportMegatronPlan({"megatron.args", (*files)[0].text}, *model, kDeviceCount);
  Require(again.ok() && again->plan == import->plan);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 2 == 0) {
    ReadLayout(text);
  } else {
    // The shape of the model first, which random texts rarely name.
    ReadArguments(
        absl::StrCat("--num-layers 4 --micro-batch-size 1 --global-batch-size 64 ", text));
  }
  return 0;
}
