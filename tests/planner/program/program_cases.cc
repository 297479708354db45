#include "tests/planner/program/program_cases.h"

#include <utility>

#include "base/check.h"

namespace parplan {

namespace {

ModelSpec SmallModel(int middle_count, LayerDefinition middle, bool is_tied,
                     LayerDefinition embedding = {}, LayerDefinition head = {}) {
  const auto layer = [](LayerDefinition raw) {
    raw.hidden_size = 48;
    raw.sequence_length = 24;
    absl::StatusOr<LayerDefinition> made = LayerDefinition::Create(raw, "layer");
    PARPLAN_CHECK(made.ok());
    return *made;
  };
  middle.layer_definition_id = "middle";
  middle.attention_head_count = 12;
  middle.feed_forward_size = 192;
  embedding.layer_definition_id = "embedding";
  embedding.kind = LayerKind::kEmbedding;
  embedding.vocabulary_size = 96;
  head.layer_definition_id = "head";
  head.kind = LayerKind::kHead;
  head.vocabulary_size = 96;
  head.tied_embedding = is_tied;
  absl::StatusOr<ModelSpec> model =
      ModelSpec::Create("small", {layer(embedding), layer(middle), layer(head)},
                        {{0, 1}, {1, middle_count}, {2, 1}}, Precision::kFp32, Optimizer::kAdam);
  PARPLAN_CHECK(model.ok());
  return *std::move(model);
}

}  // namespace

ModelSpec SmallGpt(int decoder_count, bool is_tied) {
  return SmallModel(decoder_count,
                    {.kind = LayerKind::kDecoder, .feed_forward_kind = FeedForwardKind::kGelu},
                    is_tied);
}

ModelSpec SmallGpt2(int decoder_count) {
  return SmallModel(decoder_count,
                    {.kind = LayerKind::kDecoder,
                     .feed_forward_kind = FeedForwardKind::kGelu,
                     .parameter_count = 12 * 48 * 48 + 13 * 48},
                    /*is_tied=*/false, {.parameter_count = (96 + 24) * 48},
                    {.parameter_count = (96 + 2) * 48});
}

ModelSpec SmallLlama(int decoder_count) {
  return SmallModel(decoder_count,
                    {.kind = LayerKind::kDecoder,
                     .key_value_head_count = 6,
                     .feed_forward_kind = FeedForwardKind::kSwiglu},
                    /*is_tied=*/false);
}

ModelSpec SmallBert(int encoder_count) {
  return SmallModel(encoder_count,
                    {.kind = LayerKind::kEncoder, .feed_forward_kind = FeedForwardKind::kGelu},
                    /*is_tied=*/false);
}

std::vector<Strategy> StrategiesOf(int rank_count) {
  std::vector<Strategy> strategies;
  for (int tensor = 1; tensor <= rank_count; ++tensor) {
    if (rank_count % tensor != 0 || 12 % tensor != 0) continue;
    for (int context = 1; context <= rank_count / tensor; ++context) {
      if (rank_count / tensor % context != 0 || 12 % context != 0) continue;
      Strategy strategy{.tensor_parallel_degree = tensor,
                        .data_parallel_degree = rank_count / tensor / context,
                        .context_parallel_degree = context};
      for (const RankOrder order : {RankOrder::kTensorInnermost, RankOrder::kDataInnermost}) {
        if (order == RankOrder::kDataInnermost && (tensor == 1 || tensor == rank_count)) continue;
        strategy.rank_order = order;
        for (const bool sequence : {false, true}) {
          if (sequence && (tensor == 1 || 24 / context % tensor != 0)) continue;
          strategy.sequence_parallel = sequence;
          strategy.context_kind = ContextKind::kRing;
          strategies.push_back(strategy);
          if (context == 1 || 12 % (tensor * context) != 0) continue;
          strategy.context_kind = ContextKind::kUlysses;
          strategies.push_back(strategy);
        }
      }
    }
  }
  return strategies;
}

Strategy Dp(int degree, ShardingLevel level) {
  return {.data_parallel_degree = degree, .sharding_level = level};
}

Strategy Tp(int degree, bool sequence_parallel) {
  return {.tensor_parallel_degree = degree, .sequence_parallel = sequence_parallel};
}

Plan PlanOf(const ModelSpec& model, int device_count, const std::vector<int>& stage_layer_counts,
            const std::vector<Strategy>& strategies, int64_t batch, int64_t micro_batch_count) {
  Plan plan{.device_count = device_count,
            .global_batch_size = batch,
            .micro_batch_count = micro_batch_count};
  const int rank_count = device_count / static_cast<int>(stage_layer_counts.size());
  int layer = 0;
  for (const int count : stage_layer_counts) {
    StagePlan stage{.first_rank = static_cast<int>(plan.stages.size()) * rank_count,
                    .rank_count = rank_count};
    for (int k = 0; k < count; ++k, ++layer) {
      stage.layer_runs.push_back({layer, 1, strategies[layer % strategies.size()]});
    }
    plan.stages.push_back(std::move(stage));
  }
  PARPLAN_CHECK(layer == model.layer_count());
  return plan;
}

Plan WithGpipe(Plan plan) {
  plan.schedule = Schedule::kGpipe;
  return plan;
}

Plan Interleaved(Plan plan) {
  const int degree = static_cast<int>(plan.stages.size()) / 2;
  plan.device_count /= 2;
  const int ranks = plan.device_count / degree;
  plan.schedule = Schedule::kInterleaved;
  plan.virtual_stage_count = 2;
  for (size_t stage = 0; stage < plan.stages.size(); ++stage) {
    plan.stages[stage].rank_count = ranks;
    plan.stages[stage].first_rank = static_cast<int>(stage) % degree * ranks;
  }
  return plan;
}

Plan Recomputing(Plan plan, RecomputeLevel level) {
  const int last = plan.stages.back().layer_runs.back().first_layer_index;
  for (StagePlan& stage : plan.stages) {
    for (StageLayerRun& run : stage.layer_runs) {
      if (run.first_layer_index > 0 && run.first_layer_index < last) {
        run.strategy.recompute_level = level;
      }
    }
  }
  return plan;
}

}  // namespace parplan
