#include "tests/clients/import/engine_plans.h"

#include <cstdint>

#include "planner/model/precision.h"

namespace parplan {
namespace {

int DrawFrom(std::mt19937_64& random, int low, int high) {
  return low + static_cast<int>(random() % static_cast<uint64_t>(high - low + 1));
}

void DrawBatch(std::mt19937_64& random, int pipeline, UniformPlan* plan) {
  plan->device_count = plan->strategy.rank_count() * pipeline;
  plan->micro_batch_count = DrawFrom(random, 1, 16);
  plan->global_batch_size =
      plan->micro_batch_count * plan->strategy.data_parallel_degree * DrawFrom(random, 1, 3);
}

void DrawRecomputation(std::mt19937_64& random, Strategy* strategy) {
  if (DrawFrom(random, 0, 1) == 1) strategy->recompute_level = RecomputeLevel::kFull;
}

}  // namespace

UniformPlan RandomDeepSpeedPlan(std::mt19937_64& random, const ModelSpec& model) {
  UniformPlan plan;
  Strategy& strategy = plan.strategy;
  const int decoders = model.layer_count() - 2;
  int pipeline = DrawFrom(random, 0, 1) == 0 ? 1 : DrawFrom(random, 2, 8);
  while (decoders % pipeline != 0) --pipeline;
  strategy.data_parallel_degree = DrawFrom(random, 1, 6);
  if (pipeline > 1) {
    const bool must_shard =
        strategy.data_parallel_degree > 1 && model.precision() == Precision::kBf16;
    strategy.sharding_level = static_cast<ShardingLevel>(DrawFrom(random, must_shard ? 2 : 1, 2));
  } else {
    strategy.sharding_level = static_cast<ShardingLevel>(DrawFrom(random, 1, 4));
    const int degree = 1 << DrawFrom(random, 1, 3);
    if (HasExperts(model)) {
      if (strategy.data_parallel_degree % 2 == 0) strategy.expert_parallel_degree = 2;
    } else if (const int axis = DrawFrom(random, 0, 2); axis == 1) {
      strategy.tensor_parallel_degree = degree;
    } else if (axis == 2) {
      strategy.context_parallel_degree = degree;
      strategy.context_kind = ContextKind::kUlysses;
    }
  }
  plan.stage_layer_counts.assign(static_cast<size_t>(pipeline), decoders / pipeline);
  ++plan.stage_layer_counts.front();
  ++plan.stage_layer_counts.back();
  DrawRecomputation(random, &strategy);
  DrawBatch(random, pipeline, &plan);
  return plan;
}

UniformPlan RandomAcceleratePlan(std::mt19937_64& random, const ModelSpec& model) {
  UniformPlan plan;
  Strategy& strategy = plan.strategy;
  plan.stage_layer_counts = {model.layer_count()};
  strategy.data_parallel_degree = DrawFrom(random, 1, 6);
  if (!HasExperts(model)) {
    strategy.tensor_parallel_degree = 1 << DrawFrom(random, 0, 3);
    strategy.context_parallel_degree = 1 << DrawFrom(random, 0, 2);
  }
  const bool is_split = strategy.tensor_parallel_degree > 1 || strategy.context_parallel_degree > 1;
  DrawRecomputation(random, &strategy);
  DrawBatch(random, /*pipeline=*/1, &plan);
  if (strategy.data_parallel_degree * strategy.context_parallel_degree > 1 &&
      (is_split || DrawFrom(random, 0, 2) > 0)) {
    strategy.sharding_level = plan.micro_batch_count == 1 && DrawFrom(random, 0, 1) == 1
                                  ? ShardingLevel::kGradients
                                  : ShardingLevel::kParameters;
  }
  return plan;
}

}  // namespace parplan
