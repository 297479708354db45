// Configurations of torchtitan. The first byte chooses TOML, Python, or one function of Python; the
// rest is the text. A plan that is read must be valid by our own rules, and read back equal if it
// is exported.

#include <optional>

#include "clients/import/torchtitan_plan.h"
#include "exports/pass_table.h"
#include "exports/torch_plan.h"
#include "exports/torchtitan_plan_export.h"
#include "tests/fuzz/plan_round_trip.h"

namespace {

constexpr int kDeviceCount = 16;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const bool is_toml = data[0] % 3 == 0;
  const std::string text = parplan::TextBehindChoice(data, size);
  const parplan::NamedText config{is_toml ? "run.toml" : "run.py", text};
  const parplan::ModelSpec& model = parplan::FuzzedModel();
  const std::string function = data[0] % 3 == 2 ? "plan" : "";
  const auto sizes = parplan::ImportTorchtitanModel(config, function, parplan::ModelFlags());
  if (sizes.ok()) parplan::Require(parplan::ModelFromProto(sizes->model).ok());
  const auto import =
      parplan::ImportTorchtitanPlan(config, std::nullopt, function, model, kDeviceCount);
  if (!import.ok()) return 0;
  parplan::Require(parplan::CheckTorchPlan(import->plan, model, "fuzzer", true).ok());
  parplan::ExportFacts facts;
  facts.runtime.selective_recompute = parplan::SelectiveRecompute::kOperators;
  parplan::RequireRoundTrip(import->plan, parplan::ExportTorchtitanPlan(import->plan, model, facts),
                            [&model](const std::vector<parplan::ExportedFile>& files) {
                              std::optional<parplan::NamedText> passes;
                              if (files[1].name == parplan::kPassTableName)
                                passes = parplan::TextOf(files[1]);
                              return parplan::ImportTorchtitanPlan({"again.py", files[0].text},
                                                                   passes, "", model, kDeviceCount);
                            });
  return 0;
}
