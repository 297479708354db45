// Plans for plain PyTorch: the JSON, and behind a zero byte the table of passes. A plan that is
// read must be exported as files that read back equal.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>

#include "clients/import/hugging_face.h"
#include "clients/import/torch_plan.h"
#include "exports/pass_table.h"
#include "exports/torch_plan_export.h"
#include "proto/wire/model_wire.h"

namespace {

constexpr char kModelConfig[] =
    R"({"dim": 64, "n_heads": 4, "n_layers": 4, "vocab_size": 100, "n_positions": 16})";

void Require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string input(reinterpret_cast<const char*>(data), size);
  const size_t end = input.find('\0');
  std::optional<parplan::NamedText> passes;
  if (end != std::string::npos) {
    passes = parplan::NamedText{parplan::kPassTableName, input.substr(end + 1)};
  }
  const auto config =
      parplan::ImportHuggingFace({"config.json", kModelConfig}, parplan::ModelFlags());
  Require(config.ok());
  const auto model = parplan::ModelFromProto(config->model);
  Require(model.ok());
  const auto import = parplan::ImportTorchPlan({"plan.json", input.substr(0, end)}, passes, *model);
  if (!import.ok()) return 0;
  parplan::ExportFacts facts;
  facts.runtime.gradient_message_bytes = import->traits.reduction_bytes;
  facts.runtime.selective_recompute = import->traits.selective_recompute;
  const auto files = import->format == parplan::TorchPlanFormat::kFsdp2
                         ? parplan::ExportFsdp2Plan(import->plan, *model, facts)
                         : parplan::ExportTorchPipelining(import->plan, *model, facts);
  Require(files.ok());
  if (passes.has_value()) passes->text = (*files)[1].text;
  const auto again = parplan::ImportTorchPlan({"again.json", (*files)[0].text}, passes, *model);
  Require(again.ok() && again->plan == import->plan);
  return 0;
}
