#include "tests/clients/import/layerwise_plans.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "exports/layer_strategies.h"
#include "planner/model/tied_table.h"

namespace parplan {
namespace {

class TorchPlanDraw {
 public:
  TorchPlanDraw(std::mt19937_64& random, const ModelSpec& model, TorchPlanFormat format)
      : random_(random), model_(model), format_(format) {}

  Plan Draw() {
    const int layer_count = model_.layer_count();
    const bool is_pipelining = format_ == TorchPlanFormat::kPipelining;
    const int degree = Number(is_pipelining ? 2 : 1, std::min(layer_count, 6));
    Plan plan;
    if (degree > 1 && layer_count >= 2 * degree && Toss()) {
      plan.virtual_stage_count = Number(2, layer_count / degree);
    }
    plan.schedule = plan.virtual_stage_count > 1 ? Schedule::kInterleaved
                    : Toss()                     ? Schedule::kOneForwardOneBackward
                                                 : Schedule::kGpipe;
    // Three replicas that no tensor parallelism can take.
    rank_count_ = (1 << Number(0, 4)) * (Toss() ? 3 : 1);
    plan.device_count = rank_count_ * degree;
    plan.micro_batch_count = Number(1, 3) * (plan.virtual_stage_count > 1 ? degree : 1);
    plan.global_batch_size = plan.micro_batch_count * rank_count_ * Number(1, 2);

    LayerStrategies layers;
    layers.stage_layer_counts = DrawStages(degree * plan.virtual_stage_count);
    // Messages between stages keep their layout.
    std::vector<bool> keeps_mesh(static_cast<size_t>(layer_count));
    int first = 0;
    for (const int count : layers.stage_layer_counts) {
      keeps_mesh[static_cast<size_t>(first)] = is_pipelining && first > 0;
      first += count;
    }
    const bool is_tied = HasTiedTable(model_);
    Strategy last = DrawMesh();
    for (int layer = 0; layer < layer_count; ++layer) {
      const bool may_change =
          !keeps_mesh[static_cast<size_t>(layer)] && !(is_pipelining && is_tied);
      if (may_change && Number(0, 3) == 0) last = DrawMesh();
      last = DrawRest(last, layer);
      layers.strategies.push_back(last);
    }
    if (is_tied) {
      if (degree > 1) layers.strategies.front().set_sharding(Sharding());
      layers.strategies.back() = layers.strategies.front();
    }
    plan.stages = StagesOf(layers, model_, degree, rank_count_);
    return plan;
  }

 private:
  int Number(int low, int high) {
    return low + static_cast<int>(random_() % static_cast<uint64_t>(high - low + 1));
  }
  bool Toss() { return Number(0, 1) == 1; }

  std::vector<int> DrawStages(int stage_count) {
    const int layer_count = model_.layer_count();
    std::vector<int> cuts;
    for (int cut = 1; cut < layer_count; ++cut) cuts.push_back(cut);
    std::shuffle(cuts.begin(), cuts.end(), random_);
    cuts.resize(static_cast<size_t>(stage_count - 1));
    cuts.push_back(layer_count);
    std::sort(cuts.begin(), cuts.end());
    std::vector<int> counts;
    int last = 0;
    for (const int cut : cuts) counts.push_back(cut - std::exchange(last, cut));
    return counts;
  }

  // Draws degrees and what depends on them alone.
  Strategy DrawMesh() {
    Strategy strategy;
    const auto divides = [this](int degree) { return rank_count_ % degree == 0; };
    do {
      strategy.tensor_parallel_degree = 1 << Number(0, 3);
    } while (!divides(strategy.tensor_parallel_degree));
    do {
      strategy.context_parallel_degree = 1 << Number(0, 2);
    } while (!divides(strategy.tensor_parallel_degree * strategy.context_parallel_degree));
    strategy.data_parallel_degree =
        rank_count_ / strategy.tensor_parallel_degree / strategy.context_parallel_degree;
    strategy.sequence_parallel = strategy.tensor_parallel_degree > 1 && Toss();
    const bool has_order = strategy.tensor_parallel_degree > 1 && strategy.data_parallel_degree > 1;
    if (has_order && Toss()) strategy.rank_order = RankOrder::kDataInnermost;
    if (format_ == TorchPlanFormat::kPipelining && strategy.context_parallel_degree > 1 &&
        strategy.tensor_parallel_degree * strategy.context_parallel_degree <= 8 && Toss()) {
      strategy.context_kind = ContextKind::kUlysses;
    }
    return strategy;
  }

  // Draws the other members for layer `layer`.
  Strategy DrawRest(Strategy strategy, int layer) {
    const LayerDefinition& definition = model_.layer(layer);
    strategy.set_sharding(static_cast<ShardingLevel>(Number(1, 4)));
    strategy.recompute_level = IsTransformer(definition.kind)
                                   ? static_cast<RecomputeLevel>(Number(1, 3))
                                   : RecomputeLevel::kNone;
    const bool spreads_experts =
        format_ == TorchPlanFormat::kPipelining && definition.expert_count > 0 && Toss();
    strategy.expert_parallel_degree =
        spreads_experts ? strategy.data_parallel_degree * strategy.context_parallel_degree : 1;
    if (format_ == TorchPlanFormat::kFsdp2 && strategy.replica_count() % 4 == 0 &&
        strategy.sharding_level != ShardingLevel::kNone && Toss()) {
      strategy.sharding_degree = strategy.replica_count() / 2;
    }
    return strategy;
  }

  std::mt19937_64& random_;
  const ModelSpec& model_;
  const TorchPlanFormat format_;
  int rank_count_ = 1;
};

class GalvatronPlanDraw {
 public:
  GalvatronPlanDraw(std::mt19937_64& random, const ModelSpec& model)
      : random_(random), model_(model) {}

  Plan Draw() {
    const int decoder_count = model_.layer_count() - 2;
    const int degree = Number(1, std::min(decoder_count, 4));
    rank_count_ = 1 << Number(0, 4);
    default_level_ = Toss() ? ShardingLevel::kNone : ShardingLevel::kGradients;
    Plan plan;
    plan.schedule = Toss() ? Schedule::kOneForwardOneBackward : Schedule::kGpipe;
    plan.device_count = rank_count_ * degree;
    plan.micro_batch_count = Number(1, 4);
    plan.global_batch_size = plan.micro_batch_count * rank_count_ * Number(1, 2);
    LayerStrategies layers;
    // Cuts between decoder layers.
    std::vector<int> cuts;
    for (int cut = 1; cut < decoder_count; ++cut) cuts.push_back(cut);
    std::shuffle(cuts.begin(), cuts.end(), random_);
    cuts.resize(static_cast<size_t>(degree - 1));
    cuts.push_back(decoder_count);
    std::sort(cuts.begin(), cuts.end());
    int last = 0;
    for (const int cut : cuts) {
      layers.stage_layer_counts.push_back(cut - std::exchange(last, cut));
    }
    ++layers.stage_layer_counts.front();
    ++layers.stage_layer_counts.back();
    const Strategy ends = DrawStrategy(/*is_end=*/true);
    layers.strategies.assign(static_cast<size_t>(model_.layer_count()), ends);
    for (int layer = 1; layer <= decoder_count; ++layer) {
      layers.strategies[static_cast<size_t>(layer)] =
          layer > 1 && Number(0, 2) > 0 ? layers.strategies[static_cast<size_t>(layer - 1)]
                                        : DrawStrategy(/*is_end=*/false);
    }
    plan.stages = StagesOf(layers, model_, degree, rank_count_);
    return plan;
  }

 private:
  int Number(int low, int high) {
    return low + static_cast<int>(random_() % static_cast<uint64_t>(high - low + 1));
  }
  bool Toss() { return Number(0, 1) == 1; }
  // Draws a power of two of at most 8 that divides so many ranks.
  int DrawDegree(int ranks) {
    int degree = 1 << Number(0, 3);
    while (ranks % degree != 0) degree /= 2;
    return degree;
  }

  Strategy DrawStrategy(bool is_end) {
    Strategy strategy;
    const bool is_ulysses = Number(0, 3) == 0;
    if (is_ulysses) {
      strategy.context_parallel_degree = DrawDegree(rank_count_);
      if (strategy.context_parallel_degree > 1) strategy.context_kind = ContextKind::kUlysses;
    } else {
      strategy.tensor_parallel_degree = DrawDegree(rank_count_);
      if (Number(0, 2) == 0) {
        strategy.context_parallel_degree =
            DrawDegree(rank_count_ / strategy.tensor_parallel_degree);
      }
    }
    strategy.data_parallel_degree =
        rank_count_ / strategy.tensor_parallel_degree / strategy.context_parallel_degree;
    strategy.sequence_parallel = strategy.tensor_parallel_degree > 1;
    if (strategy.data_parallel_degree > 1) {
      strategy.sharding_level = Toss() ? ShardingLevel::kParameters : default_level_;
      if (!is_end && strategy.tensor_parallel_degree > 1 && Toss()) {
        strategy.rank_order = RankOrder::kDataInnermost;
      }
    }
    if (!is_end && Toss()) strategy.recompute_level = RecomputeLevel::kFull;
    return strategy;
  }

  std::mt19937_64& random_;
  const ModelSpec& model_;
  int rank_count_ = 1;
  ShardingLevel default_level_ = ShardingLevel::kNone;
};

}  // namespace

Plan RandomGalvatronPlan(std::mt19937_64& random, const ModelSpec& model) {
  return GalvatronPlanDraw(random, model).Draw();
}

Plan RandomTorchPlan(std::mt19937_64& random, const ModelSpec& model, TorchPlanFormat format) {
  return TorchPlanDraw(random, model, format).Draw();
}

}  // namespace parplan
