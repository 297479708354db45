// Runs of Megatron-LM as people start them: scripts, YAML and arguments, which the first byte
// chooses. A model that is read must be valid by our own rules, and a plan that is exported again
// must read back equal.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "clients/import/megatron_plan.h"
#include "clients/import/megatron_run.h"
#include "exports/megatron_plan_export.h"
#include "proto/wire/model_wire.h"

namespace {

constexpr int kDeviceCount = 16;
// The shape of the model, which random texts rarely name.
constexpr char kShape[] =
    "--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 16 --vocab-size 100 "
    "--micro-batch-size 1 --global-batch-size 64 ";

void Require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
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
  Require(model.ok());
  const auto files = parplan::ExportMegatronPlan(run->plan, *model, parplan::ExportFacts());
  if (!files.ok()) return 0;
  const auto again =
      parplan::ImportMegatronPlan({"megatron.args", (*files)[0].text}, *model, kDeviceCount);
  Require(again.ok() && again->plan == run->plan);
  return 0;
}
