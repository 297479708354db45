#include "tests/exports/drawn_plans.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "exports/exporters.h"
#include "exports/torch_plan_json.h"
#include "exports/uniform_plan.h"
#include "planner/model/precision.h"
#include "planner/model/runtime_traits.h"
#include "tests/clients/import/engine_plans.h"
#include "tests/clients/import/layerwise_plans.h"

namespace parplan {
namespace {

template <UniformPlan (*draw)(std::mt19937_64& random, const ModelSpec& model)>
Plan DrawUniform(std::mt19937_64& random, const ModelSpec& model) {
  return PlanOf(draw(random, model), model);
}

template <TorchPlanFormat format>
Plan DrawTorch(std::mt19937_64& random, const ModelSpec& model) {
  return RandomTorchPlan(random, model, format);
}

DecoderModelOptions DrawTorchtitanModel(std::mt19937_64& random) {
  DecoderModelOptions options = RandomDecoderModel(random);
  options.tied_embedding = false;
  if (options.precision == Precision::kFp16) options.precision = Precision::kBf16;
  return options;
}

}  // namespace

std::vector<DrawnProgram> DrawnPrograms() {
  return {{"accelerate", "accelerate", RandomDecoderModel, DrawUniform<RandomAcceleratePlan>},
          {"deepspeed", "deepspeed", RandomDecoderModel, DrawUniform<RandomDeepSpeedPlan>},
          {"fsdp2", "fsdp", RandomDecoderModel, DrawTorch<TorchPlanFormat::kFsdp2>},
          {"galvatron", "parplan", RandomDecoderModel, RandomGalvatronPlan},
          {"megatron", "megatron-core", RandomMegatronModel, DrawUniform<RandomMegatronLayout>},
          {"torch-pipelining", "fsdp", RandomDecoderModel, DrawTorch<TorchPlanFormat::kPipelining>},
          {"torchtitan", "torchtitan", DrawTorchtitanModel, DrawUniform<RandomTorchtitanPlan>}};
}

DrawnProgram FindDrawnProgram(absl::string_view program) {
  const std::vector<DrawnProgram> programs = DrawnPrograms();
  const auto found = std::find_if(programs.begin(), programs.end(),
                                  [program](const auto& one) { return one.program == program; });
  PARPLAN_CHECK(found != programs.end());
  return *found;
}

DrawnPlan DrawPlan(const DrawnProgram& program, uint64_t seed) {
  std::mt19937_64 random(seed);
  const DecoderModelOptions options = program.draw_model(random);
  ModelSpec model = DecoderModel(options);
  Plan plan = program.draw_plan(random, model);
  return {options, std::move(model), std::move(plan)};
}

absl::StatusOr<std::vector<ExportedFile>> ExportFor(const DrawnProgram& program, const Plan& plan,
                                                    const ModelSpec& model) {
  const ExportFacts facts{*FindRuntime(program.runtime_id), "plan 1"};
  return ExportPlan(**FindExporter(program.program, "program"), plan, model, facts);
}

}  // namespace parplan
