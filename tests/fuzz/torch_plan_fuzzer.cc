// Plans for plain PyTorch: the JSON, and behind a zero byte the table of passes. A plan that is
// read must be exported as files that read back equal.

#include <optional>

#include "clients/import/torch_plan.h"
#include "exports/pass_table.h"
#include "exports/torch_plan_export.h"
#include "tests/fuzz/plan_round_trip.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string input(reinterpret_cast<const char*>(data), size);
  const size_t end = input.find('\0');
  std::optional<parplan::NamedText> passes;
  if (end != std::string::npos) {
    passes = parplan::NamedText{parplan::kPassTableName, input.substr(end + 1)};
  }
  const parplan::ModelSpec& model = parplan::FuzzedModel();
  const auto import = parplan::ImportTorchPlan({"plan.json", input.substr(0, end)}, passes, model);
  if (!import.ok()) return 0;
  parplan::ExportFacts facts;
  facts.runtime.gradient_message_bytes = import->traits.reduction_bytes;
  facts.runtime.selective_recompute = import->traits.selective_recompute;
  const auto files = import->format == parplan::TorchPlanFormat::kFsdp2
                         ? parplan::ExportFsdp2Plan(import->plan, model, facts)
                         : parplan::ExportTorchPipelining(import->plan, model, facts);
  parplan::Require(files.ok());
  parplan::RequireRoundTrip(
      import->plan, files, [&](const std::vector<parplan::ExportedFile>& written) {
        if (passes.has_value()) passes->text = written[1].text;
        return parplan::ImportTorchPlan(parplan::TextOf(written[0]), passes, model);
      });
  return 0;
}
