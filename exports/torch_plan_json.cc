#include "exports/torch_plan_json.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string>
#include <vector>

#include "exports/layer_strategies.h"
#include "exports/pass_table.h"
#include "exports/torch_plan.h"
#include "planner/model/strategy_fields.h"

namespace parplan {
namespace {

static_assert(kStrategyFieldCount == 13, "write the new field; say if it moves activations");

using Json = nlohmann::ordered_json;

// The ranks of a stage as a grid, the outermost axis first.
Json MeshJson(const Strategy& strategy) {
  const int tensor = strategy.tensor_parallel_degree;
  const int context = strategy.context_parallel_degree;
  const int data = strategy.data_parallel_degree;
  if (strategy.rank_order == RankOrder::kDataInnermost) {
    return {{"axes", {"tensor", "context", "data"}}, {"shape", {tensor, context, data}}};
  }
  return {{"axes", {"data", "context", "tensor"}}, {"shape", {data, context, tensor}}};
}

Json DataParallelJson(const Strategy& strategy) {
  const ShardingLevel level = strategy.sharding_level;
  if (level == ShardingLevel::kNone) return {{"kind", "replicate"}};
  Json entry = {{"kind", "fully_shard"},
                {"reshard_after_forward", level == ShardingLevel::kParameters},
                {"reduce_gradients", level == ShardingLevel::kOptimizer ? "step" : "micro_batch"}};
  if (strategy.sharding_degree > 0) entry["shard_degree"] = strategy.sharding_degree;
  return entry;
}

const char* RecomputeName(RecomputeLevel level, SelectiveRecompute selective) {
  switch (level) {
    case RecomputeLevel::kNone:
      return "none";
    case RecomputeLevel::kFull:
      return "layer";
    case RecomputeLevel::kSelective:
      return selective == SelectiveRecompute::kOperators ? "operators" : "attention";
    case RecomputeLevel::kModules:
      // No exported plan has it.
      break;
  }
  return "none";
}

// How matrices are split where the tensor-parallel degree is above 1. `once` is an input that is
// gathered or copied once for all matrices that read it, which is what predictions count.
Json TensorParallelPlan(const ModelSpec& model) {
  bool gated = false;
  for (const LayerDefinition& layer : model.layer_definitions()) {
    gated = gated || layer.feed_forward_kind == FeedForwardKind::kSwiglu;
  }
  Json feed_forward = {{"input", "once"}, {"up", "colwise"}, {"down", "rowwise"}};
  if (gated) feed_forward["gate"] = "colwise";
  Json plan = {{"embedding", {{"table", "rowwise"}}},
               {"attention",
                {{"input", "once"},
                 {"query", "colwise"},
                 {"key", "colwise"},
                 {"value", "colwise"},
                 {"output", "rowwise"}}},
               {"feed_forward", feed_forward},
               {"head", {{"input", "once"}, {"projection", "colwise"}}}};
  if (HasExperts(model)) {
    // Each expert, the shared one too, is split as a feed-forward part is.
    Json experts = feed_forward;
    experts["router"] = "whole";
    plan["experts"] = experts;
  }
  return plan;
}

// Finds or appends `strategy`, and returns its index.
int IndexOf(const Strategy& strategy, std::vector<Strategy>* known) {
  const auto found = std::find(known->begin(), known->end(), strategy);
  const int index = static_cast<int>(found - known->begin());
  if (found == known->end()) known->push_back(strategy);
  return index;
}

Json TransitionsJson(const ModelSpec& model, const std::vector<Strategy>& layers) {
  Json transitions = Json::array();
  for (size_t layer = 1; layer < layers.size(); ++layer) {
    if (HoldActivationsAlike(layers[layer - 1], layers[layer])) continue;
    const GradientScale scale = GradientScaleBetween(layers[layer - 1], layers[layer]);
    transitions.push_back({{"before", TorchModulesOf(model, static_cast<int>(layer)).front()},
                           {"gradient_scale", {scale.numerator, scale.denominator}}});
  }
  return transitions;
}

}  // namespace

absl::string_view TorchPlanFormatName(TorchPlanFormat format) {
  return format == TorchPlanFormat::kFsdp2 ? "parplan.fsdp2" : "parplan.torch-pipelining";
}

absl::string_view TorchTypeName(Precision precision) {
  switch (precision) {
    case Precision::kFp32:
      return "float32";
    case Precision::kBf16:
    // Weights and activations lie in memory as with bf16.
    case Precision::kFp8Delayed:
    case Precision::kFp8Current:
    case Precision::kFp8Rowwise:
    case Precision::kFp8Blockwise:
    case Precision::kMxfp8:
    case Precision::kNvfp4:
      return "bfloat16";
    case Precision::kFp16:
      return "float16";
  }
  return "float32";
}

GradientScale GradientScaleBetween(const Strategy& from, const Strategy& to) {
  const int64_t before = int64_t{from.data_parallel_degree} * from.context_parallel_degree;
  const int64_t behind = int64_t{to.data_parallel_degree} * to.context_parallel_degree;
  const int64_t common = std::gcd(before, behind);
  return {before / common, behind / common};
}

bool HoldActivationsAlike(const Strategy& from, const Strategy& to) {
  return from.tensor_parallel_degree == to.tensor_parallel_degree &&
         from.context_parallel_degree == to.context_parallel_degree &&
         from.data_parallel_degree == to.data_parallel_degree && from.rank_order == to.rank_order &&
         from.context_kind == to.context_kind && from.sequence_parallel == to.sequence_parallel;
}

Json TorchStrategyJson(const Strategy& strategy, SelectiveRecompute selective_recompute) {
  const bool is_ring = strategy.context_kind == ContextKind::kRing;
  return {{"mesh", MeshJson(strategy)},
          {"data_parallel", DataParallelJson(strategy)},
          {"sequence_parallel", strategy.sequence_parallel},
          {"context_parallel", is_ring ? "ring" : "all_to_all"},
          {"expert_parallel_degree", strategy.expert_parallel_degree},
          {"recompute", RecomputeName(strategy.recompute_level, selective_recompute)}};
}

Json TorchPlanJson(TorchPlanFormat format, const Plan& plan, const ModelSpec& model,
                   const TorchPlanTraits& traits) {
  const LayerStrategies layers = LayerStrategiesOf(plan);
  const int degree = plan.pipeline_parallel_degree();
  Json pipeline = {{"degree", degree},
                   {"virtual_stages", plan.virtual_stage_count},
                   {"schedule", std::string(TraitsOf(plan.schedule).name)}};
  if (degree > 1) pipeline["passes"] = kPassTableName;
  Json document = {{"format", std::string(TorchPlanFormatName(format))},
                   {"version", kTorchPlanVersion},
                   {"device_count", plan.device_count},
                   {"global_batch_size", plan.global_batch_size},
                   {"micro_batch_count", plan.micro_batch_count},
                   {"pipeline", pipeline}};
  std::vector<Strategy> strategies;
  Json stages = Json::array();
  int layer = 0;
  for (const StagePlan& stage : plan.stages) {
    Json entry = {{"first_rank", stage.first_rank}, {"rank_count", stage.rank_count}};
    for (int i = 0; i < stage.layer_count(); ++i, ++layer) {
      entry["layers"].push_back({{"modules", TorchModulesOf(model, layer)},
                                 {"strategy", IndexOf(layers.strategies[layer], &strategies)}});
    }
    stages.push_back(entry);
  }
  Json list = Json::array();
  bool splits_matrices = false;
  for (const Strategy& strategy : strategies) {
    list.push_back(TorchStrategyJson(strategy, traits.selective_recompute));
    splits_matrices = splits_matrices || strategy.tensor_parallel_degree > 1;
  }
  document["strategies"] = list;
  document["stages"] = stages;
  if (format == TorchPlanFormat::kPipelining) return document;
  const std::string type(TorchTypeName(model.precision()));
  const bool is_wide = traits.reduction_bytes == 4;
  document["numbers"] = {{"parameters", TorchTypeName(model.precision())},
                         {"gradient_messages", is_wide ? "float32" : type}};
  document["transitions"] = TransitionsJson(model, layers.strategies);
  document["tied_modules"] = model.layer(model.layer_count() - 1).tied_embedding
                                 ? Json{"tok_embeddings", "lm_head"}
                                 : Json::array();
  if (splits_matrices) document["tensor_parallel_plan"] = TensorParallelPlan(model);
  return document;
}

}  // namespace parplan
