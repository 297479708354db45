// Arguments of Megatron-LM, and its layouts of a pipeline. The first byte chooses: what is read as
// a layout must be written as one that reads back equal, and a plan that is read must be exported
// as arguments that read back equal.

#include "absl/strings/str_cat.h"
#include "clients/import/megatron_plan.h"
#include "exports/megatron_layout.h"
#include "exports/megatron_plan_export.h"
#include "tests/fuzz/plan_round_trip.h"

namespace {

constexpr int kDeviceCount = 16;

void ReadLayout(const std::string& text) {
  const auto stages = parplan::ParseMegatronLayout(text, "layout");
  if (!stages.ok()) return;
  const auto again = parplan::ParseMegatronLayout(parplan::FormatMegatronLayout(*stages), "layout");
  parplan::Require(again.ok() && *again == *stages);
}

void ReadArguments(const std::string& text) {
  const parplan::ModelSpec& model = parplan::FuzzedModel();
  const auto import = parplan::ImportMegatronPlan({"run.args", text}, model, kDeviceCount);
  if (!import.ok()) return;
  parplan::RequireRoundTrip(
      import->plan, parplan::ExportMegatronPlan(import->plan, model, parplan::ExportFacts()),
      [&model](const std::vector<parplan::ExportedFile>& files) {
        return parplan::ImportMegatronPlan(parplan::TextOf(files[0]), model, kDeviceCount);
      });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string text = parplan::TextBehindChoice(data, size);
  if (data[0] % 2 == 0) {
    ReadLayout(text);
  } else {
    // The shape of the model first, which random texts rarely name.
    ReadArguments(
        absl::StrCat("--num-layers 4 --micro-batch-size 1 --global-batch-size 64 ", text));
  }
  return 0;
}
