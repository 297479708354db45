#include "exports/uniform_plan.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "exports/layer_strategies.h"
#include "exports/refusal.h"
#include "planner/model/pass_order.h"
#include "planner/model/stage_layers.h"
#include "planner/model/strategy_fields.h"
#include "planner/model/strategy_names.h"

namespace parplan {
namespace {

static_assert(kStrategyFieldCount == 13, "compare the new field where layers must agree");

// Returns the strategy of layer `layer`, which is number `number` of the decoder layers of its
// stage, counted from 0.
Strategy StrategyOfLayer(const UniformPlan& facts, const ModelSpec& model, int layer, int number) {
  Strategy strategy = facts.strategy;
  const LayerDefinition& definition = model.layer(layer);
  if (definition.expert_count == 0) {
    strategy.expert_parallel_degree = 1;
    strategy.expert_tensor_parallel_degree = 0;
  }
  const bool beyond = strategy.recompute_level == RecomputeLevel::kFull &&
                      facts.recomputed_layer_count > 0 &&
                      (number >= facts.recomputed_layer_count || definition.prediction_depth > 0);
  if (!IsTransformer(definition.kind) || beyond) {
    strategy.set_recomputation(RecomputeLevel::kNone);
  }
  return strategy;
}

// One layer of a plan.
struct PlacedLayer {
  std::string field;
  int layer = 0;
  // Position among the decoder layers of its stage, and that stage.
  int number = 0;
  size_t stage = 0;
  Strategy strategy;
  bool is_decoder = false;
  bool predicts_further_token = false;
};

std::vector<PlacedLayer> LayersOf(const Plan& plan, const ModelSpec& model) {
  std::vector<PlacedLayer> layers;
  for (size_t i = 0; i < plan.stages.size(); ++i) {
    int number = 0;
    for (size_t j = 0; j < plan.stages[i].layer_runs.size(); ++j) {
      const StageLayerRun& run = plan.stages[i].layer_runs[j];
      for (int k = 0; k < run.layer_count && layers.size() < size_t(model.layer_count()); ++k) {
        const int layer = static_cast<int>(layers.size());
        const bool is_decoder = IsTransformer(model.layer(layer).kind);
        layers.push_back({absl::StrCat("stages[", i, "].layer_runs[", j, "].strategy"), layer,
                          number, i, run.strategy, is_decoder,
                          model.layer(layer).prediction_depth > 0});
        if (is_decoder) ++number;
      }
    }
  }
  return layers;
}

absl::string_view SwitchName(bool is_on) { return is_on ? "on" : "off"; }

// Compares one fact of two layers.
class LayerComparison {
 public:
  LayerComparison(const PlacedLayer& layer, const PlacedLayer& reference, absl::string_view program)
      : layer_(layer), reference_(reference), program_(program) {}

  template <typename Value>
  void Compare(absl::string_view name, Value value, Value expected) {
    if (value == expected || !status_.ok()) return;
    status_ = RefusePlan(program_, absl::StrCat(layer_.field, ".", name),
                         absl::StrCat("is ", value, " in layer ", layer_.layer, " and ", expected,
                                      " in layer ", reference_.layer));
  }
  absl::Status status() const { return status_; }

 private:
  const PlacedLayer& layer_;
  const PlacedLayer& reference_;
  absl::string_view program_;
  absl::Status status_;
};

absl::Status CompareLayers(const PlacedLayer& layer, const PlacedLayer& reference,
                           absl::string_view program) {
  const Strategy& strategy = layer.strategy;
  const Strategy& expected = reference.strategy;
  LayerComparison comparison(layer, reference, program);
  comparison.Compare("tensor_parallel_degree", strategy.tensor_parallel_degree,
                     expected.tensor_parallel_degree);
  comparison.Compare("data_parallel_degree", strategy.data_parallel_degree,
                     expected.data_parallel_degree);
  comparison.Compare("context_parallel_degree", strategy.context_parallel_degree,
                     expected.context_parallel_degree);
  comparison.Compare("context_kind", ContextKindName(strategy.context_kind),
                     ContextKindName(expected.context_kind));
  comparison.Compare("context_exchange_degree", strategy.context_exchange_degree,
                     expected.context_exchange_degree);
  comparison.Compare("sharding_level", ShardingLevelName(strategy.sharding_level),
                     ShardingLevelName(expected.sharding_level));
  comparison.Compare("sharding_degree", strategy.sharding_degree, expected.sharding_degree);
  comparison.Compare("sequence_parallel", SwitchName(strategy.sequence_parallel),
                     SwitchName(expected.sequence_parallel));
  return comparison.status();
}

// Sets the recomputation of `facts`, or says which layer breaks the pattern.
absl::Status NoteRecomputation(const std::vector<PlacedLayer>& layers, const PlacedLayer& reference,
                               absl::string_view program, UniformPlan* facts) {
  facts->strategy.set_recomputation(reference.strategy.recomputation());
  bool all = true;
  int count = 0;
  const PlacedLayer* prediction = nullptr;
  for (const PlacedLayer& layer : layers) {
    const RecomputeLevel level = layer.strategy.recompute_level;
    const std::string field = absl::StrCat(layer.field, ".recompute_level");
    if (!layer.is_decoder) {
      if (layer.strategy.recomputation() == RecomputeLevel::kNone) continue;
      return RefusePlan(program, field,
                        absl::StrCat("recomputes layer ", layer.layer, ", an embedding or a head"));
    }
    const std::string modules = layer.strategy.recompute_modules.ToString(" ");
    const std::string expected = reference.strategy.recompute_modules.ToString(" ");
    if (modules != expected) {
      return RefusePlan(program, absl::StrCat(layer.field, ".recompute_modules"),
                        absl::StrCat("is `", modules, "` in layer ", layer.layer, " and `",
                                     expected, "` in layer ", reference.layer));
    }
    const bool is_selective = level == RecomputeLevel::kSelective;
    if (is_selective != (reference.strategy.recompute_level == RecomputeLevel::kSelective)) {
      return RefusePlan(program, field,
                        absl::StrCat("recomputes attention alone in one of the layers ",
                                     reference.layer, " and ", layer.layer));
    }
    if (level == RecomputeLevel::kFull) {
      facts->strategy.recompute_level = RecomputeLevel::kFull;
      if (layer.predicts_further_token) {
        prediction = &layer;
      } else {
        count = std::max(count, layer.number + 1);
      }
    } else {
      all = false;
    }
  }
  if (all || facts->strategy.recompute_level != RecomputeLevel::kFull) return absl::OkStatus();
  if (prediction != nullptr) {
    return RefusePlan(program, absl::StrCat(prediction->field, ".recompute_level"),
                      absl::StrCat("recomputes layer ", prediction->layer,
                                   ", which predicts a further token, and not all others"));
  }
  facts->recomputed_layer_count = count;
  for (const PlacedLayer& layer : layers) {
    if (!layer.is_decoder || layer.predicts_further_token || layer.number >= count) continue;
    if (layer.strategy.recompute_level != RecomputeLevel::kFull) {
      return RefusePlan(
          program, absl::StrCat(layer.field, ".recompute_level"),
          absl::StrCat("does not recompute layer ", layer.layer, ", one of the first ", count,
                       " of its stage, which others recompute"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckSchedule(const Plan& plan, absl::string_view program) {
  const int stage_count = static_cast<int>(plan.stages.size());
  if (stage_count == 0 || plan.virtual_stage_count < 1 ||
      stage_count % plan.virtual_stage_count != 0) {
    return RefusePlan(program, "virtual_stage_count", "does not divide the stages");
  }
  if (plan.schedule == Schedule::kGpipe) return RefusePlan(program, "schedule", "is gpipe");
  if (TraitsOf(plan.schedule).backward_split != BackwardSplit::kWhole) {
    return RefusePlan(
        program, "schedule",
        absl::StrCat("is ", TraitsOf(plan.schedule).name, ", which splits backward passes"));
  }
  const bool has_virtual_stages = plan.virtual_stage_count > 1;
  if ((plan.schedule == Schedule::kInterleaved) != has_virtual_stages) {
    return RefusePlan(program, "schedule",
                      absl::StrCat("is ", TraitsOf(plan.schedule).name, " with ",
                                   plan.virtual_stage_count, " virtual stages a device"));
  }
  if (has_virtual_stages && plan.pipeline_parallel_degree() == 1) {
    return RefusePlan(program, "virtual_stage_count", "gives the one device several stages");
  }
  const int64_t group = plan.micro_batch_group_size;
  if (group != 0 &&
      (!has_virtual_stages || group <= plan.pipeline_parallel_degree() ||
       !IsGroupSize(group, plan.pipeline_parallel_degree(), plan.micro_batch_count))) {
    return RefusePlan(
        program, "micro_batch_group_size",
        absl::StrCat("is ", group, " with ", plan.virtual_stage_count, " virtual stages a device, ",
                     plan.pipeline_parallel_degree(), " devices in the pipeline and ",
                     plan.micro_batch_count, " micro-batches"));
  }
  return absl::OkStatus();
}

absl::Status CheckStages(const Plan& plan, absl::string_view program, EmptyStages empty_stages) {
  for (size_t i = 0; i < plan.stages.size(); ++i) {
    const StagePlan& stage = plan.stages[i];
    const std::string field = absl::StrCat("stages[", i, "]");
    const int rank_count = plan.stages.front().rank_count;
    if (stage.rank_count != rank_count) {
      return RefusePlan(
          program, absl::StrCat(field, ".rank_count"),
          absl::StrCat("is ", stage.rank_count, " and that of the first stage is ", rank_count));
    }
    const int place = static_cast<int>(i) % plan.pipeline_parallel_degree();
    if (stage.first_rank != place * rank_count) {
      return RefusePlan(program, absl::StrCat(field, ".first_rank"), "is out of order");
    }
    const bool is_end = i == 0 || i + 1 == plan.stages.size();
    if (stage.is_empty() && (is_end || empty_stages == EmptyStages::kRefused)) {
      return RefusePlan(program, absl::StrCat(field, ".layer_runs"), "has no layer");
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status RequireDecoderModel(const ModelSpec& model, absl::string_view program) {
  const int last = model.layer_count() - 1;
  for (int layer = 0; layer <= last; ++layer) {
    const LayerKind kind = model.layer(layer).kind;
    const LayerKind expected = layer == 0      ? LayerKind::kEmbedding
                               : layer == last ? LayerKind::kHead
                                               : LayerKind::kDecoder;
    if (kind == expected && last >= 2) continue;
    return RefuseModel(program, "model.layer_runs",
                       absl::StrCat("must be an embedding, decoder layers and a head, and layer ",
                                    layer, " is `", model.layer(layer).layer_definition_id, "`"));
  }
  return absl::OkStatus();
}

int FurtherTokenCount(const ModelSpec& model) {
  return model.layer(model.layer_count() - 1).further_token_count;
}

int DecoderLayerCount(const ModelSpec& model) {
  return model.layer_count() - 2 - FurtherTokenCount(model);
}

absl::StatusOr<UniformPlan> UniformPlanOf(const Plan& plan, const ModelSpec& model,
                                          absl::string_view program, EmptyStages empty_stages) {
  absl::Status status = RequireDecoderModel(model, program);
  if (status.ok()) status = CheckSchedule(plan, program);
  if (status.ok()) status = CheckStages(plan, program, empty_stages);
  if (!status.ok()) return status;

  UniformPlan facts;
  facts.device_count = plan.device_count;
  facts.global_batch_size = plan.global_batch_size;
  facts.micro_batch_count = plan.micro_batch_count;
  facts.virtual_stage_count = plan.virtual_stage_count;
  facts.micro_batch_group_size = plan.micro_batch_group_size;
  int layer_count = 0;
  for (const StagePlan& stage : plan.stages) {
    facts.stage_layer_counts.push_back(stage.layer_count());
    layer_count += stage.layer_count();
  }
  if (layer_count != model.layer_count()) {
    return RefusePlan(program, "stages",
                      absl::StrCat("hold ", layer_count, " layers of the model's ",
                                   model.layer_count(), ": it is a plan for another model"));
  }
  const std::vector<PlacedLayer> layers = LayersOf(plan, model);
  // Layer 1 is the first decoder layer.
  const PlacedLayer& reference = layers[1];
  facts.strategy = reference.strategy;
  const PlacedLayer* with_experts = nullptr;
  for (const PlacedLayer& layer : layers) {
    status = CompareLayers(layer, reference, program);
    if (!status.ok()) return status;
    if (layer.strategy.rank_order != RankOrder::kTensorInnermost) {
      return RefusePlan(
          program, absl::StrCat(layer.field, ".rank_order"),
          absl::StrCat("has the data-parallel ranks of layer ", layer.layer, " innermost"));
    }
    const int expert_degree = layer.strategy.expert_parallel_degree;
    const int own_tensor = layer.strategy.expert_tensor_parallel_degree;
    if (model.layer(layer.layer).expert_count == 0) {
      if (expert_degree == 1) continue;
      return RefusePlan(
          program, absl::StrCat(layer.field, ".expert_parallel_degree"),
          absl::StrCat("is ", expert_degree, " in layer ", layer.layer, ", which has no experts"));
    }
    if (with_experts == nullptr) with_experts = &layer;
    if (own_tensor != with_experts->strategy.expert_tensor_parallel_degree) {
      return RefusePlan(program, absl::StrCat(layer.field, ".expert_tensor_parallel_degree"),
                        absl::StrCat("is ", own_tensor, " in layer ", layer.layer, " and ",
                                     with_experts->strategy.expert_tensor_parallel_degree,
                                     " in layer ", with_experts->layer));
    }
    if (expert_degree != with_experts->strategy.expert_parallel_degree) {
      return RefusePlan(program, absl::StrCat(layer.field, ".expert_parallel_degree"),
                        absl::StrCat("is ", expert_degree, " in layer ", layer.layer, " and ",
                                     with_experts->strategy.expert_parallel_degree, " in layer ",
                                     with_experts->layer));
    }
  }
  facts.strategy.expert_parallel_degree =
      with_experts == nullptr ? 1 : with_experts->strategy.expert_parallel_degree;
  facts.strategy.expert_tensor_parallel_degree =
      with_experts == nullptr ? 0 : with_experts->strategy.expert_tensor_parallel_degree;
  status = NoteRecomputation(layers, reference, program, &facts);
  if (!status.ok()) return status;
  const Strategy& strategy = facts.strategy;
  if (strategy.rank_count() != plan.stages.front().rank_count ||
      int64_t{strategy.rank_count()} * plan.pipeline_parallel_degree() != plan.device_count) {
    return RefusePlan(program, "stages", "have other ranks than their degrees multiply to");
  }
  if (plan.micro_batch_count < 1 || plan.global_batch_size % plan.micro_batch_count != 0 ||
      plan.micro_batch_size() % strategy.data_parallel_degree != 0) {
    return RefusePlan(
        program, "micro_batch_count",
        absl::StrCat(plan.micro_batch_count, " micro-batches over ", strategy.data_parallel_degree,
                     " replicas do not divide the batch of ", plan.global_batch_size));
  }
  if (PlanOf(facts, model) != WithJoinedRuns(plan, model)) {
    return RefusePlan(program, "stages", "are not in the order of the model's layers");
  }
  return facts;
}

Plan PlanOf(const UniformPlan& facts, const ModelSpec& model) {
  Plan plan;
  plan.device_count = facts.device_count;
  plan.global_batch_size = facts.global_batch_size;
  plan.micro_batch_count = facts.micro_batch_count;
  plan.virtual_stage_count = facts.virtual_stage_count;
  plan.micro_batch_group_size = facts.micro_batch_group_size;
  plan.schedule =
      facts.virtual_stage_count > 1 ? Schedule::kInterleaved : Schedule::kOneForwardOneBackward;
  const int rank_count = facts.strategy.rank_count();
  int layer = 0;
  for (size_t i = 0; i < facts.stage_layer_counts.size(); ++i) {
    StagePlan stage;
    stage.first_rank = static_cast<int>(i) % facts.pipeline_parallel_degree() * rank_count;
    stage.rank_count = rank_count;
    int number = 0;
    for (int k = 0; k < facts.stage_layer_counts[i]; ++k, ++layer) {
      PARPLAN_CHECK(layer < model.layer_count());
      const Strategy strategy = StrategyOfLayer(facts, model, layer, number);
      if (IsTransformer(model.layer(layer).kind)) ++number;
      AppendLayer(model, layer, strategy, &stage);
    }
    plan.stages.push_back(std::move(stage));
  }
  return plan;
}

}  // namespace parplan
