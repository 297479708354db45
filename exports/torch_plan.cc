#include "exports/torch_plan.h"

#include <cstddef>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "exports/layer_strategies.h"
#include "exports/refusal.h"
#include "exports/uniform_plan.h"
#include "planner/model/strategy_fields.h"
#include "planner/model/tied_table.h"

namespace parplan {
namespace {

static_assert(kStrategyFieldCount == 13, "say which values of the new field are wrong");

bool IsTorchLayer(LayerKind kind) {
  return kind == LayerKind::kDecoder || kind == LayerKind::kEncoder;
}

absl::Status CheckPipeline(const Plan& plan, absl::string_view program) {
  const int stage_count = static_cast<int>(plan.stages.size());
  if (stage_count == 0 || plan.virtual_stage_count < 1 ||
      stage_count % plan.virtual_stage_count != 0) {
    return RefusePlan(program, "virtual_stage_count", "does not divide the stages");
  }
  const bool has_virtual_stages = plan.virtual_stage_count > 1;
  if (TraitsOf(plan.schedule).has_virtual_stages != has_virtual_stages) {
    return RefusePlan(program, "schedule",
                      absl::StrCat("is ", TraitsOf(plan.schedule).name, " with ",
                                   plan.virtual_stage_count, " virtual stages a device"));
  }
  const int degree = plan.pipeline_parallel_degree();
  if (has_virtual_stages && degree == 1) {
    return RefusePlan(program, "virtual_stage_count", "gives the one device several stages");
  }
  if (plan.micro_batch_group_size != 0) {
    return RefusePlan(program, "micro_batch_group_size",
                      absl::StrCat("is ", plan.micro_batch_group_size,
                                   ": the order of passes of these files has groups of as many "
                                   "micro-batches as the pipeline has devices"));
  }
  if (degree == 1 && TraitsOf(plan.schedule).backward_split != BackwardSplit::kWhole) {
    return RefusePlan(program, "schedule",
                      absl::StrCat("is ", TraitsOf(plan.schedule).name, " without a pipeline"));
  }
  if (plan.device_count < 1 || plan.device_count % degree != 0) {
    return RefusePlan(
        program, "device_count",
        absl::StrCat("is ", plan.device_count, ", which ", degree, " stages do not share equally"));
  }
  for (int i = 0; i < stage_count; ++i) {
    const StagePlan& stage = plan.stages[i];
    const int rank_count = plan.device_count / degree;
    if (stage.rank_count != rank_count || stage.first_rank != i % degree * rank_count) {
      return RefusePlan(
          program, absl::StrCat("stages[", i, "]"),
          absl::StrCat("must be on ", rank_count, " ranks from ", i % degree * rank_count, " on"));
    }
    if (stage.layer_count() < 1) {
      return RefusePlan(program, absl::StrCat("stages[", i, "]"), "has no layer");
    }
  }
  if (plan.global_batch_size < 1 || plan.micro_batch_count < 1 ||
      plan.global_batch_size % plan.micro_batch_count != 0) {
    return RefusePlan(program, "micro_batch_count", "does not divide global_batch_size");
  }
  if (plan.micro_batch_count > kMaxForwardPassCount / stage_count) {
    return RefusePlan(
        program, "micro_batch_count",
        absl::StrCat("makes more than ", kMaxForwardPassCount, " forward passes a step"));
  }
  return absl::OkStatus();
}

// Returns what the degrees of `strategy` do not divide, or nothing.
std::string UndividedPart(const LayerDefinition& layer, const Strategy& strategy) {
  const int tensor = strategy.tensor_parallel_degree;
  const int context = strategy.context_parallel_degree;
  const bool exchanges_heads = strategy.context_kind == ContextKind::kUlysses;
  const int head_ranks = exchanges_heads ? tensor * context : tensor;
  if (IsTransformer(layer.kind)) {
    if (layer.attention_head_count % head_ranks != 0) {
      return absl::StrCat(layer.attention_head_count, " heads over ", head_ranks, " ranks");
    }
    if (layer.key_value_head_count % head_ranks != 0) {
      return absl::StrCat(layer.key_value_head_count, " key and value heads over ", head_ranks,
                          " ranks");
    }
    if (layer.feed_forward_size % tensor != 0) {
      return absl::StrCat("a feed-forward part of ", layer.feed_forward_size, " over ", tensor,
                          " ranks");
    }
  }
  const int pieces = context > 1 && !exchanges_heads ? 2 * context : context;
  if (layer.sequence_length % pieces != 0) {
    return absl::StrCat(layer.sequence_length, " tokens in ", pieces, " pieces");
  }
  if (strategy.sequence_parallel && layer.sequence_length / context % tensor != 0) {
    return absl::StrCat(layer.sequence_length / context, " tokens over ", tensor,
                        " sequence-parallel ranks");
  }
  return "";
}

// Returns what is wrong with the strategy of a layer, or nothing.
std::string StrategyFault(const Plan& plan, const LayerDefinition& layer, const Strategy& strategy,
                          bool may_gather) {
  const int64_t tensor = strategy.tensor_parallel_degree;
  const int64_t context = strategy.context_parallel_degree;
  const int64_t data = strategy.data_parallel_degree;
  const int rank_count = plan.stages.front().rank_count;
  if (tensor < 1 || context < 1 || data < 1 || tensor * context > rank_count ||
      tensor * context * data != rank_count) {
    return absl::StrCat("has degrees that do not multiply to the ", rank_count,
                        " ranks of a stage");
  }
  if (plan.micro_batch_size() % data != 0) {
    return absl::StrCat("shares micro-batches of ", plan.micro_batch_size(), " samples between ",
                        data, " replicas");
  }
  if (strategy.rank_order == RankOrder::kDataInnermost && (tensor == 1 || data * context == 1)) {
    return "has an order of ranks that means nothing with a degree of 1";
  }
  if (strategy.context_kind != ContextKind::kRing && context == 1) {
    return "has a kind of context parallelism without any";
  }
  if (strategy.context_kind == ContextKind::kAllGather && !may_gather) {
    return "gathers keys and values, which only torchtitan and Megatron-LM do";
  }
  if (strategy.context_exchange_degree > 1) {
    return "shares tokens by a ring of groups that exchange heads, which only Megatron-LM does";
  }
  if (strategy.sequence_parallel && tensor == 1) {
    return "has sequence parallelism without tensor parallelism";
  }
  // torch.distributed.pipelining writes gradients of weights by itself in `W`, past the hooks by
  // which FSDP2 exchanges them, and activation checkpointing frees what `W` needs in `I`.
  if (TraitsOf(plan.schedule).backward_split != BackwardSplit::kWhole) {
    if (strategy.sharding_level != ShardingLevel::kNone) {
      return "is sharded beside split backward passes";
    }
    if (strategy.recompute_level != RecomputeLevel::kNone) {
      return "recomputes beside split backward passes";
    }
  }
  if (strategy.recompute_level != RecomputeLevel::kNone && !IsTransformer(layer.kind)) {
    return "recomputes an embedding or a head";
  }
  if (strategy.recompute_level == RecomputeLevel::kModules || !strategy.recompute_modules.empty()) {
    return "recomputes modules by name, which only Megatron-LM does";
  }
  if (strategy.expert_tensor_parallel_degree != 0) {
    return "splits experts over other ranks than the rest of their layer";
  }
  const int group = strategy.sharding_degree;
  if (group != 0 && (group < 2 || group >= data * context || data * context % group != 0 ||
                     strategy.sharding_level == ShardingLevel::kNone)) {
    return absl::StrCat("shares its states in groups of ", group, " of ", data * context,
                        " ranks, or shares none");
  }
  const int expert = strategy.expert_parallel_degree;
  if (expert < 1 || data * context % expert != 0 || (expert > 1 && layer.expert_count == 0)) {
    return absl::StrCat("spreads experts over ", expert,
                        " ranks, which must divide those of its data and context parallelism, and "
                        "the layer must have experts");
  }
  if (group != 0 && !strategy.has_experts_in_groups()) {
    return absl::StrCat("spreads experts over ", expert, " ranks of several groups of ", group,
                        " that share states");
  }
  const std::string undivided = UndividedPart(layer, strategy);
  return undivided.empty() ? "" : absl::StrCat("splits ", undivided);
}

absl::Status CheckTiedTable(const Plan& plan, const ModelSpec& model,
                            const std::vector<Strategy>& strategies, absl::string_view program) {
  const int last = model.layer_count() - 1;
  if (!HasTiedTable(model)) return absl::OkStatus();
  const std::string field = StrategyFieldOf(plan, last);
  if (!HoldTableAlike(strategies.front(), strategies.back())) {
    return RefusePlan(
        program, field,
        absl::StrCat("spreads layer ", last, ", a tied head, otherwise than layer 0"));
  }
  if (plan.pipeline_parallel_degree() > 1 &&
      strategies.back().sharding_level != ShardingLevel::kNone) {
    return RefusePlan(program, absl::StrCat(field, ".sharding_level"),
                      absl::StrCat("shards layer ", last,
                                   ", a tied head whose table layer 0 holds on other ranks"));
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<std::string> TorchModulesOf(const ModelSpec& model, int layer) {
  if (layer == 0) return {"tok_embeddings"};
  if (layer == model.layer_count() - 1) return {"norm", "lm_head"};
  return {absl::StrCat("layers.", layer - 1)};
}

absl::Status CheckHasNamedLayers(const ModelSpec& model) {
  if (FurtherTokenCount(model) == 0) return absl::OkStatus();
  return FieldError(Reason::kSpecInvalid, "model.layer_runs",
                    absl::StrCat("has in layer ", DecoderLayerCount(model) + 1,
                                 " one for a further token, whose modules this export does not "
                                 "name; plan the model without it (planctl import hf "
                                 "--prediction-layers 0)"));
}

absl::Status CheckTorchModel(const ModelSpec& model, absl::string_view program) {
  const int last = model.layer_count() - 1;
  for (int layer = 0; layer <= last; ++layer) {
    const LayerKind kind = model.layer(layer).kind;
    const bool fits = layer == 0      ? kind == LayerKind::kEmbedding
                      : layer == last ? kind == LayerKind::kHead
                                      : IsTorchLayer(kind);
    if (fits && last >= 2) continue;
    return RefuseModel(
        program, "model.layer_runs",
        absl::StrCat("must be an embedding, encoder or decoder layers and a head, and layer ",
                     layer, " is `", model.layer(layer).layer_definition_id, "`"));
  }
  return CheckHasNamedLayers(model);
}

std::string StrategyFieldOf(const Plan& plan, int layer) {
  int next = 0;
  for (size_t i = 0; i < plan.stages.size(); ++i) {
    for (size_t j = 0; j < plan.stages[i].layer_runs.size(); ++j) {
      next += plan.stages[i].layer_runs[j].layer_count;
      if (layer < next) return absl::StrCat("stages[", i, "].layer_runs[", j, "].strategy");
    }
  }
  return "stages";
}

absl::Status CheckTorchPlan(const Plan& plan, const ModelSpec& model, absl::string_view program,
                            bool may_gather) {
  PARPLAN_RETURN_IF_ERROR(CheckTorchModel(model, program));
  PARPLAN_RETURN_IF_ERROR(CheckPipeline(plan, program));
  const LayerStrategies layers = LayerStrategiesOf(plan);
  if (layers.strategies.size() != static_cast<size_t>(model.layer_count())) {
    return RefusePlan(program, "stages",
                      absl::StrCat("hold ", layers.strategies.size(), " layers of the model's ",
                                   model.layer_count(), ": it is a plan for another model"));
  }
  for (int layer = 0; layer < model.layer_count(); ++layer) {
    const std::string fault =
        StrategyFault(plan, model.layer(layer), layers.strategies[layer], may_gather);
    if (fault.empty()) continue;
    return RefusePlan(program, StrategyFieldOf(plan, layer),
                      absl::StrCat("of layer ", layer, " ", fault));
  }
  PARPLAN_RETURN_IF_ERROR(CheckTiedTable(plan, model, layers.strategies, program));
  if (StagesOf(layers, model, plan.pipeline_parallel_degree(), plan.stages.front().rank_count) !=
      WithJoinedRuns(plan, model).stages) {
    return RefusePlan(program, "stages", "are not in the order of the model's layers");
  }
  return absl::OkStatus();
}

}  // namespace parplan
