// Configurations of torchtitan. The first byte chooses TOML, Python, or one function of Python; the
// rest is the text. A plan that is read must be valid by our own rules, and read back equal if it
// is exported.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>

#include "clients/import/hugging_face.h"
#include "clients/import/torchtitan_plan.h"
#include "exports/pass_table.h"
#include "exports/torch_plan.h"
#include "exports/torchtitan_plan_export.h"
#include "proto/wire/model_wire.h"

namespace {

constexpr char kModelConfig[] =
    R"({"dim": 64, "n_heads": 4, "n_layers": 4, "vocab_size": 100, "n_positions": 16})";
constexpr int kDeviceCount = 16;

void Require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const bool is_toml = data[0] % 3 == 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const parplan::NamedText config{is_toml ? "run.toml" : "run.py", text};
  const auto read =
      parplan::ImportHuggingFace({"config.json", kModelConfig}, parplan::ModelFlags());
  Require(read.ok());
  const auto model = parplan::ModelFromProto(read->model);
  Require(model.ok());
  const std::string function = data[0] % 3 == 2 ? "plan" : "";
  const auto sizes = parplan::ImportTorchtitanModel(config, function, parplan::ModelFlags());
  if (sizes.ok()) Require(parplan::ModelFromProto(sizes->model).ok());
  const auto import =
      parplan::ImportTorchtitanPlan(config, std::nullopt, function, *model, kDeviceCount);
  if (!import.ok()) return 0;
  Require(parplan::CheckTorchPlan(import->plan, *model, "fuzzer").ok());
  parplan::ExportFacts facts;
  facts.runtime.selective_recompute = parplan::SelectiveRecompute::kOperators;
  const auto files = parplan::ExportTorchtitanPlan(import->plan, *model, facts);
  if (!files.ok()) return 0;
  std::optional<parplan::NamedText> passes;
  if ((*files)[1].name == parplan::kPassTableName) {
    passes = parplan::NamedText{parplan::kPassTableName, (*files)[1].text};
  }
  const auto again = parplan::ImportTorchtitanPlan({"again.py", (*files)[0].text}, passes, "",
                                                   *model, kDeviceCount);
  Require(again.ok() && again->plan == import->plan);
  return 0;
}
