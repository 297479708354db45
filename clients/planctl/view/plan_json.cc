#include "clients/planctl/view/plan_json.h"

#include <nlohmann/json.hpp>

#include "clients/planctl/view/duration_seconds.h"
#include "clients/planctl/view/shape_view.h"
#include "planner/model/strategy_fields.h"

namespace parplan::planctl {
namespace {

static_assert(kStrategyFieldCount == 13, "show the new field");

using Json = nlohmann::ordered_json;

// The name of a value without the prefix of its enum, lower-case:
// `MEMORY_ITEM_KIND_PARAMETERS` is `parameters`.
std::string ShortName(const std::string& name, const std::string& prefix) {
  std::string result = name.substr(prefix.size());
  for (char& c : result) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return result;
}

const char* RecomputeName(RecomputeLevel level) {
  switch (level) {
    case RecomputeLevel::kNone:
      return "none";
    case RecomputeLevel::kFull:
      return "full";
    case RecomputeLevel::kSelective:
      return "selective";
    case RecomputeLevel::kModules:
      return "modules";
  }
  return "";
}

Json StrategyObject(int depth, const Strategy& strategy) {
  Json object;
  object["notation"] = StrategyNotation(depth, strategy);
  object["tensor_parallel_degree"] = strategy.tensor_parallel_degree;
  object["data_parallel_degree"] = strategy.data_parallel_degree;
  object["zero_level"] = static_cast<int>(strategy.sharding_level) - 1;
  if (strategy.sharding_degree > 0) object["sharding_degree"] = strategy.sharding_degree;
  object["rank_order"] = strategy.rank_order == RankOrder::kTensorInnermost
                             ? Json::array({"tensor", "data"})
                             : Json::array({"data", "tensor"});
  object["recompute"] = RecomputeName(strategy.recompute_level);
  if (!strategy.recompute_modules.empty()) {
    Json& modules = object["recompute_modules"] = Json::array();
    for (const RecomputeModule module : strategy.recompute_modules.Modules()) {
      modules.push_back(std::string(RecomputeModuleName(module)));
    }
  }
  object["sequence_parallel"] = strategy.sequence_parallel;
  object["context_parallel_degree"] = strategy.context_parallel_degree;
  object["context_kind"] = std::string(ContextKindName(strategy.context_kind));
  if (strategy.context_exchange_degree > 1) {
    object["context_exchange_degree"] = strategy.context_exchange_degree;
  }
  object["expert_parallel_degree"] = strategy.expert_parallel_degree;
  if (strategy.expert_tensor_parallel_degree > 0) {
    object["expert_tensor_parallel_degree"] = strategy.expert_tensor_parallel_degree;
  }
  return object;
}

// Stages, with the ids of their layers where known.
Json StageArray(const Plan& of, const std::vector<std::string>& layer_names) {
  Json stages = Json::array();
  for (const StagePlan& stage : of.stages) {
    Json object;
    object["first_rank"] = stage.first_rank;
    object["rank_count"] = stage.rank_count;
    object["layer_runs"] = Json::array();
    for (const StageLayerRun& run : stage.layer_runs) {
      Json item;
      item["first_layer_index"] = run.first_layer_index;
      item["layer_count"] = run.layer_count;
      const auto first = static_cast<size_t>(run.first_layer_index);
      item["layer_definition_id"] = first < layer_names.size() ? layer_names[first] : "";
      item["strategy"] = StrategyObject(of.pipeline_parallel_degree(), run.strategy);
      object["layer_runs"].push_back(std::move(item));
    }
    stages.push_back(std::move(object));
  }
  return stages;
}

// The id of the definition of every layer.
std::vector<std::string> LayerNames(const v1::PlanPayload& payload) {
  std::vector<std::string> names;
  for (const v1::StagePlan& stage : payload.stages()) {
    for (const v1::StageLayerRun& run : stage.layer_runs()) {
      names.insert(names.end(), static_cast<size_t>(run.layer_count()), run.layer_definition_id());
    }
  }
  return names;
}

Json PlanObject(const PlanView& view) {
  const v1::PlanPayload& payload = view.payload;
  Json plan;
  plan["name"] = payload.plan();
  plan["planner"] = payload.planner();
  plan["planner_version"] = payload.planner_version();
  plan["gist"] = PlanGist(view.plan);
  plan["device_count"] = view.plan.device_count;
  plan["global_batch_size"] = view.plan.global_batch_size;
  plan["micro_batch_count"] = view.plan.micro_batch_count;
  plan["pipeline_parallel_degree"] = view.plan.pipeline_parallel_degree();
  plan["schedule"] = std::string(TraitsOf(view.plan.schedule).name);
  plan["virtual_stage_count"] = view.plan.virtual_stage_count;
  if (view.plan.micro_batch_group_size > 0) {
    plan["micro_batch_group_size"] = view.plan.micro_batch_group_size;
  }
  plan["model_digest"] = payload.model_digest();
  plan["topology_digest"] = payload.topology_digest();
  plan["profile_digest"] = payload.profile_digest();
  plan["hardware_digest"] = payload.hardware_digest();
  plan["calibration_digest"] = payload.calibration_digest();
  plan["runtime_id"] = payload.runtime_id();
  plan["stages"] = StageArray(view.plan, LayerNames(payload));
  return plan;
}

Json PredictionObject(const PlanView& view) {
  const Prediction& prediction = view.prediction;
  const v1::Prediction& message = view.payload.prediction();
  Json object;
  object["step_seconds"] = prediction.step.value();
  object["step_seconds_lower"] = prediction.step_lower.value();
  object["step_seconds_upper"] = prediction.step_upper.value();
  object["samples_per_second"] = prediction.samples_per_second;
  object["peak_memory_bytes"] = prediction.peak_memory.count();
  object["peak_memory_bytes_lower"] = prediction.peak_memory_lower.count();
  object["peak_memory_bytes_upper"] = prediction.peak_memory_upper.count();
  object["range_basis"] = prediction.range_basis;
  object["usable_memory_bytes"] = prediction.usable_memory.count();
  object["fits"] = prediction.fits();
  object["bottleneck"] = ShortName(v1::Bottleneck_Name(message.bottleneck()), "BOTTLENECK_");
  object["bottleneck_text"] = prediction.bottleneck_text;
  object["confidence"] = ShortName(v1::Confidence_Name(message.confidence()), "CONFIDENCE_");
  object["estimated_items"] = prediction.estimated_items;
  object["stages"] = Json::array();
  for (const StagePrediction& stage : prediction.stages) {
    Json item;
    item["forward_seconds"] = stage.forward.value();
    item["backward_seconds"] = stage.backward.value();
    if (stage.backward_weights > Seconds()) {
      item["backward_weights_seconds"] = stage.backward_weights.value();
    }
    item["gradient_sync_seconds"] = stage.gradient_sync.value();
    item["optimizer_step_seconds"] = stage.optimizer_step.value();
    item["send_seconds"] = stage.send.value();
    item["idle_ratio"] = stage.idle_ratio;
    item["in_flight_micro_batch_count"] = stage.in_flight_micro_batch_count;
    item["peak_memory_bytes"] = stage.peak_memory().count();
    item["memory_items"] = Json::object();
    for (int kind = 0; kind < kMemoryItemKindCount; ++kind) {
      const auto value = static_cast<v1::MemoryItemKind>(kind + 1);
      item["memory_items"][ShortName(v1::MemoryItemKind_Name(value), "MEMORY_ITEM_KIND_")] =
          stage.memory.size[kind].count();
    }
    item["time_items"] = Json::object();
    for (int kind = 0; kind < kTimeItemKindCount; ++kind) {
      const auto value = static_cast<v1::TimeItemKind>(kind + 1);
      item["time_items"][ShortName(v1::TimeItemKind_Name(value), "TIME_ITEM_KIND_")] =
          stage.time.duration[kind].value();
    }
    object["stages"].push_back(std::move(item));
  }
  return object;
}

Json SearchObject(const PlanView& view) {
  const v1::SearchSummary& message = view.payload.search();
  Json object;
  object["termination"] = ShortName(v1::Termination_Name(message.termination()), "TERMINATION_");
  object["limit"] = view.search.limit == SearchLimit::kNone
                        ? ""
                        : ShortName(v1::SearchLimit_Name(message.limit()), "SEARCH_LIMIT_");
  object["bound"] = view.search.bound.value();
  object["gap"] = view.search.gap_ratio;
  object["states"] = view.search.expanded_state_count;
  object["pruned_states"] = view.search.pruned_state_count;
  object["candidates"] = view.search.candidate_count;
  object["cpu_seconds"] = view.cpu_seconds.value_or(SecondsOf(message.cpu_duration()));
  object["wall_seconds"] = view.wall_seconds.value_or(SecondsOf(message.wall_duration()));
  object["from_cache"] = view.from_cache;
  return object;
}

Json BesideArray(const std::vector<PlanBeside>& plans, const PlanView& view) {
  const std::vector<std::string> layer_names = LayerNames(view.payload);
  Json array = Json::array();
  for (const PlanBeside& beside : plans) {
    Json object;
    object["gist"] = PlanGist(beside.plan);
    object["step_seconds"] = beside.step.value();
    object["samples_per_second"] = beside.samples_per_second;
    object["peak_memory_bytes"] = beside.peak_memory.count();
    object["time_change"] = beside.SlowerThan(view.prediction.samples_per_second);
    object["memory_change"] =
        beside.peak_memory.as_double() / view.prediction.peak_memory.as_double() - 1.0;
    object["global_batch_size"] = beside.plan.global_batch_size;
    object["micro_batch_count"] = beside.plan.micro_batch_count;
    object["pipeline_parallel_degree"] = beside.plan.pipeline_parallel_degree();
    object["schedule"] = std::string(TraitsOf(beside.plan.schedule).name);
    object["virtual_stage_count"] = beside.plan.virtual_stage_count;
    if (beside.plan.micro_batch_group_size > 0) {
      object["micro_batch_group_size"] = beside.plan.micro_batch_group_size;
    }
    object["stages"] = StageArray(beside.plan, layer_names);
    array.push_back(std::move(object));
  }
  return array;
}

Json ComparisonArray(const std::vector<v1::PlannerComparison>& comparisons) {
  Json array = Json::array();
  for (const v1::PlannerComparison& rival : comparisons) {
    Json object;
    object["planner"] = rival.planner();
    object["feasible"] = rival.feasible();
    if (rival.feasible()) {
      object["step_seconds"] =
          rival.step_seconds() > 0.0 ? rival.step_seconds() : SecondsOf(rival.step_duration());
      object["samples_per_second"] = rival.samples_per_second();
      object["peak_memory_bytes"] = rival.peak_memory_bytes();
      object["gist"] = rival.gist();
    } else {
      object["smallest_device_memory_bytes"] = rival.smallest_device_memory_bytes();
      object["smallest_device_count"] = rival.smallest_device_count();
      object["stopped_early"] = rival.stopped_early();
    }
    array.push_back(std::move(object));
  }
  return array;
}

// Text of users may hold bytes that are no UTF-8; they are replaced.
std::string Dump(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string PlanJson(const PlanView& view) {
  Json object;
  object["plan"] = PlanObject(view);
  object["prediction"] = PredictionObject(view);
  object["search"] = SearchObject(view);
  if (!view.alternatives.empty()) object["alternatives"] = BesideArray(view.alternatives, view);
  if (!view.memory_front.empty()) object["memory_front"] = BesideArray(view.memory_front, view);
  if (!view.notes.empty()) object["notes"] = view.notes;
  if (view.money.has_value()) object["money"] = MoneyJson(*view.money);
  if (!view.comparisons.empty()) object["comparisons"] = ComparisonArray(view.comparisons);
  return Dump(object);
}

std::string ComparisonJson(const std::vector<v1::PlannerComparison>& comparisons) {
  Json object;
  object["comparisons"] = ComparisonArray(comparisons);
  return Dump(object);
}

}  // namespace parplan::planctl
