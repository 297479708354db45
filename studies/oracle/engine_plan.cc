#include "studies/oracle/engine_plan.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"

namespace parplan::oracle {
namespace {

using nlohmann::json;

constexpr Reason kPlanReason = Reason::kSpecInvalid;

// `4,4,1` of a key; `count` times `otherwise` where it is absent.
absl::StatusOr<std::vector<int>> ReadList(const json& object, const std::string& file,
                                          const char* key, size_t count, int otherwise) {
  const auto found = object.find(key);
  if (found == object.end()) return std::vector<int>(count, otherwise);
  std::vector<int> values;
  if (found->is_string()) {
    const std::string text = found->get<std::string>();
    for (const absl::string_view part : absl::StrSplit(text, ',')) {
      int value = 0;
      if (!absl::SimpleAtoi(part, &value)) {
        return ImportError(kPlanReason, file, key,
                           "must be whole numbers with commas between them");
      }
      values.push_back(value);
    }
  }
  if (values.size() != count) {
    return ImportError(kPlanReason, file, key, absl::StrCat("must have ", count, " entries"));
  }
  return values;
}

void Add(const EngineTime& part, EngineTime* sum) {
  sum->compute += part.compute;
  sum->inner += part.inner;
  sum->gather += part.gather;
  sum->send += part.send;
  sum->sync += part.sync;
}

// Returns a strategy of the degree that `key` gives.
absl::StatusOr<EngineStrategy> MakeStrategy(const std::string& file, const char* key, int ranks,
                                            int inner, bool ulysses, bool sharded,
                                            bool recomputes) {
  if (inner < 1 || ranks % inner != 0) {
    return ImportError(kPlanReason, file, key,
                       absl::StrCat("must divide the ", ranks, " devices of a stage"));
  }
  EngineStrategy strategy;
  (ulysses ? strategy.ulysses : strategy.tensor) = inner;
  strategy.data = ranks / inner;
  strategy.is_sharded = sharded && strategy.data > 1;
  strategy.recomputes = recomputes;
  return strategy;
}

}  // namespace

std::vector<int> LayerTypes(const OracleQuestion& question) {
  std::vector<int> types;
  for (int type = 0; type < static_cast<int>(question.runs.size()); ++type) {
    types.insert(types.end(), question.runs[type].layer_count, type);
  }
  return types;
}

absl::StatusOr<EnginePlan> ReadEnginePlan(const OracleCase& oracle) {
  const NamedText& file = oracle.answer->strategy_file;
  PARPLAN_ASSIGN_OR_RETURN(const json object, ParseJsonObject(file, kPlanReason));
  const auto number = [&](const char* key, int minimum,
                          std::optional<int> otherwise) -> absl::StatusOr<int> {
    const auto found = object.find(key);
    if (found != object.end()) return ReadCount(*found, minimum, kPlanReason, file.name, key);
    if (otherwise.has_value()) return *otherwise;
    return ImportError(kPlanReason, file.name, key, "is missing");
  };
  EnginePlan plan;
  PARPLAN_ASSIGN_OR_RETURN(plan.shape.pipeline_degree, number("pp_deg", 1, std::nullopt));
  PARPLAN_ASSIGN_OR_RETURN(plan.shape.global_batch, number("global_bsz", 1, std::nullopt));
  PARPLAN_ASSIGN_OR_RETURN(plan.shape.chunks, number("chunks", 1, std::nullopt));
  const int device_count = oracle.question.device_count();
  const int degree = plan.shape.pipeline_degree;
  if (device_count % degree != 0) {
    return ImportError(kPlanReason, file.name, "pp_deg",
                       absl::StrCat("must divide the ", device_count, " devices"));
  }
  const size_t layer_count = LayerTypes(oracle.question).size();
  const auto list = [&](const char* key, size_t count) {
    return ReadList(object, file.name, key, count, 0);
  };
  PARPLAN_ASSIGN_OR_RETURN(const std::vector<int> inner, list("tp_sizes_enc", layer_count));
  PARPLAN_ASSIGN_OR_RETURN(const std::vector<int> ulysses, list("use_sp", layer_count));
  PARPLAN_ASSIGN_OR_RETURN(const std::vector<int> sharded, list("dp_types_enc", layer_count));
  PARPLAN_ASSIGN_OR_RETURN(const std::vector<int> recomputes, list("checkpoint", layer_count));
  PARPLAN_ASSIGN_OR_RETURN(const std::vector<int> division, list("pp_division", degree));
  // Sizes are compared before they are added, whose sum might have no room in an integer.
  size_t divided = 0;
  for (const int size : division) {
    if (size < 1 || static_cast<size_t>(size) > layer_count - divided) {
      divided = 0;
      break;
    }
    divided += size;
  }
  if (divided != layer_count) {
    return ImportError(kPlanReason, file.name, "pp_division",
                       absl::StrCat("must have numbers of at least 1 that add up to the ",
                                    layer_count, " layers"));
  }
  const int ranks = device_count / degree;
  size_t layer = 0;
  for (const int size : division) {
    std::vector<EngineStrategy>& stage = plan.stages.emplace_back();
    for (const size_t end = layer + size; layer < end; ++layer) {
      PARPLAN_ASSIGN_OR_RETURN(
          const EngineStrategy strategy,
          MakeStrategy(file.name, "tp_sizes_enc", ranks, inner[layer], ulysses[layer] != 0,
                       sharded[layer] != 0, recomputes[layer] != 0));
      stage.push_back(strategy);
    }
  }
  PARPLAN_ASSIGN_OR_RETURN(const int end_degree, number("vtp", 1, 1));
  PARPLAN_ASSIGN_OR_RETURN(const int end_ulysses, number("vsp", 0, 0));
  PARPLAN_ASSIGN_OR_RETURN(const int end_sharded, number("embed_sdp", 0, 0));
  PARPLAN_ASSIGN_OR_RETURN(plan.ends, MakeStrategy(file.name, "vtp", ranks, end_degree,
                                                   end_ulysses != 0, end_sharded != 0, false));
  return plan;
}

std::vector<EngineStage> EngineStages(const EngineModel& model, const EnginePlan& plan) {
  const std::vector<int> types = LayerTypes(model.question());
  std::vector<EngineStage> stages;
  size_t layer = 0;
  for (const std::vector<EngineStrategy>& strategies : plan.stages) {
    EngineStage stage;
    for (const EngineStrategy& strategy : strategies) {
      Add(model.LayerTime(plan.shape, types[layer++], strategy), &stage.layers);
    }
    stage.ends = model.EndTime(plan.shape, static_cast<int>(stages.size()), plan.ends);
    stages.push_back(stage);
  }
  return stages;
}

std::vector<StageTimes> EngineStageTimes(const std::vector<EngineStage>& stages) {
  std::vector<StageTimes> times;
  for (const EngineStage& stage : stages) {
    const double whole = stage.without_sync();
    StageTimes& time = times.emplace_back();
    time.forward = Seconds::Of(whole / 3.0);
    time.backward = Seconds::Of(whole * 2.0 / 3.0);
    time.gradient_sync = Seconds::Of(std::max(0.0, stage.layers.with_sync() - whole));
  }
  return times;
}

double SimulatedEngineStep(const EngineModel& model, const EnginePlan& plan) {
  const std::vector<StageTimes> times = EngineStageTimes(EngineStages(model, plan));
  const Schedule schedule =
      model.question().is_gpipe ? Schedule::kGpipe : Schedule::kOneForwardOneBackward;
  return StepTime(schedule, times, plan.shape.chunks).value();
}

std::vector<double> EngineMegabytes(const EngineModel& model, const EnginePlan& plan) {
  const std::vector<int> types = LayerTypes(model.question());
  int cap = plan.ends.inner();
  for (const auto& stage : plan.stages) {
    for (const EngineStrategy& strategy : stage) cap = std::max(cap, strategy.inner());
  }
  std::vector<double> megabytes;
  size_t layer = 0;
  for (int stage = 0; stage < static_cast<int>(plan.stages.size()); ++stage) {
    double sum = std::ceil(model.EndMegabytes(plan.shape, stage, plan.ends)) +
                 std::floor(model.BufferMegabytes(plan.shape, cap));
    for (const EngineStrategy& strategy : plan.stages[stage]) {
      sum += std::ceil(model.LayerMegabytes(plan.shape, types[layer++], stage, strategy));
    }
    megabytes.push_back(sum);
  }
  return megabytes;
}

}  // namespace parplan::oracle
