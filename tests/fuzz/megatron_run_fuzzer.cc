// Runs of Megatron-LM as people start them: scripts, YAML and arguments, which the first byte
// chooses. A model that is read must be valid by our own rules, and a plan that is exported again
// must read back equal.

#include "absl/strings/str_cat.h"
#include "clients/import/megatron_plan.h"
#include "clients/import/megatron_run.h"
#include "exports/megatron_plan_export.h"
#include "tests/fuzz/plan_round_trip.h"

namespace {

constexpr int kDeviceCount = 16;
// The shape of the model, which random texts rarely name.
constexpr char kShape[] =
    "--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 16 --vocab-size 100 "
    "--micro-batch-size 1 --global-batch-size 64 ";

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  std::string text = parplan::TextBehindChoice(data, size);
  std::string name = "run.sh";
  switch (data[0] % 4) {
    case 0:
      text = absl::StrCat(kShape, text);
      break;
    case 1:
      text = absl::StrCat(text, "\ntorchrun pretrain.py ", kShape, "$A ${B[@]}\n");
      break;
    case 2:
      name = "run.yaml";
      break;
    default:
      break;
  }
  const auto run = parplan::ImportMegatronRun({name, text}, {.device_count = kDeviceCount});
  if (!run.ok()) return 0;
  const auto model = parplan::ModelFromProto(run->model);
  parplan::Require(model.ok());
  parplan::RequireRoundTrip(
      run->plan, parplan::ExportMegatronPlan(run->plan, *model, parplan::ExportFacts()),
      [&model](const std::vector<parplan::ExportedFile>& files) {
        return parplan::ImportMegatronPlan(parplan::TextOf(files[0]), *model, kDeviceCount);
      });
  return 0;
}
