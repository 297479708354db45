#include "planner/cost/layer_pricing.h"

#include <algorithm>

#include "base/check.h"

namespace parplan {
namespace {

double SamplesOf(const Strategy& strategy, int64_t micro_batch_size) {
  PARPLAN_CHECK(micro_batch_size % strategy.data_parallel_degree == 0);
  return static_cast<double>(micro_batch_size / strategy.data_parallel_degree);
}

}  // namespace

LayerPricing::LayerPricing(const GroupCosts& costs, int definition_index, const Strategy& strategy,
                           int64_t micro_batch_size, int pipeline_parallel_degree,
                           RepeatedParts parts)
    : costs_(costs),
      layer_(costs.layer_source(definition_index)),
      pipeline_parallel_degree_(pipeline_parallel_degree),
      samples_(SamplesOf(strategy, micro_batch_size)),
      strategy_(strategy),
      work_(layer_.Work(strategy, samples_, parts)) {
  if (pipeline_parallel_degree > 1) {
    message_ = costs.MessageSize(definition_index, strategy, micro_batch_size);
  }
  PriceExchanges();
}

bool LayerPricing::Serves(const Strategy& strategy) const {
  return strategy.tensor_parallel_degree == strategy_.tensor_parallel_degree &&
         strategy.data_parallel_degree == strategy_.data_parallel_degree &&
         strategy.context_parallel_degree == strategy_.context_parallel_degree &&
         strategy.context_kind == strategy_.context_kind &&
         strategy.context_exchange_degree == strategy_.context_exchange_degree &&
         strategy.expert_parallel_degree == strategy_.expert_parallel_degree &&
         strategy.expert_tensor_parallel_degree == strategy_.expert_tensor_parallel_degree &&
         strategy.sequence_parallel == strategy_.sequence_parallel;
}

void LayerPricing::UseRankOrder(RankOrder order) {
  if (strategy_.rank_order == order) return;
  strategy_.rank_order = order;
  data_ = {};
  hybrid_data_.clear();
  timed_ = {};
  timed_modules_.clear();
  PriceExchanges();
}

const LayerFootprint& LayerPricing::footprint() {
  if (!footprint_.has_value()) {
    Strategy strategy = strategy_;
    if (costs_.traffic().KeepsTableWhole(layer_.definition())) {
      strategy.tensor_parallel_degree = 1;
      strategy.sequence_parallel = false;
    }
    footprint_ = layer_.Footprint(strategy, pipeline_parallel_degree_);
  }
  return *footprint_;
}

void LayerPricing::PriceExchanges() {
  const LayerDefinition& definition = layer_.definition();
  const LayerTraffic& traffic = costs_.traffic();
  tensor_ = traffic.TensorParallel(definition, strategy_, samples_, work_.bare);
  expert_ = traffic.ExpertParallel(definition, strategy_, samples_, work_.bare);
  context_ = traffic.ContextParallel(definition, strategy_, samples_, work_.bare);
}

const LayerPricing::Timed& LayerPricing::TimeOf(const Recomputation& recomputation) {
  const bool by_modules = recomputation.level == RecomputeLevel::kModules;
  if (by_modules && timed_modules_.empty()) timed_modules_.resize(RecomputeModules::kSetCount);
  std::optional<Timed>& known = by_modules ? timed_modules_[recomputation.modules.index()]
                                           : timed_[static_cast<int>(recomputation.level) - 1];
  if (known.has_value()) return *known;
  Timed& timed = known.emplace();
  const RuntimeTraits& runtime = costs_.runtime();
  const LayerPasses passes = work_.At(recomputation);
  timed.busy_forward = passes.forward;
  timed.busy_backward = passes.backward + passes.recompute;
  timed.backward_weights = passes.backward_weights;
  timed.items[TimeItemKind::kForwardCompute] = passes.forward;
  timed.items[TimeItemKind::kBackwardCompute] = passes.backward;
  timed.items[TimeItemKind::kRecompute] = passes.recompute;

  const bool recomputes_all =
      recomputation.level == RecomputeLevel::kFull && IsTransformer(layer_.definition().kind);
  const bool recomputes_experts = recomputation.modules.has(RecomputeModule::kExperts);
  const auto add = [&](const Exchange& exchange, TimeItemKind kind, bool repeats) {
    const Seconds again = repeats ? exchange.repeated : Seconds();
    timed.items[kind] = exchange.forward + exchange.backward + again;
    timed.forward += exchange.forward;
    timed.backward += exchange.backward + again;
  };
  const bool repeats_context = costs_.traffic().RepeatsContext(strategy_, recomputation);
  add(tensor_, TimeItemKind::kTensorParallel, recomputes_all);
  add(context_, TimeItemKind::kContextParallel, repeats_context);
  add(expert_, TimeItemKind::kExpertParallel, recomputes_all || recomputes_experts);
  if (by_modules) {
    const Seconds again = costs_.traffic().TimeOf(costs_.traffic().ModuleCollectives(
        layer_.definition(), strategy_, samples_, recomputation.modules));
    timed.items[TimeItemKind::kTensorParallel] += again;
    timed.backward += again;
  }
  // The device waits if the host is slower, or for every launch if the host waits for every kernel.
  const auto waits = [&runtime](Seconds device, Seconds host) {
    return runtime.blocking_launches ? host : std::max(Seconds(), host - device);
  };
  const Seconds forward_wait = waits(timed.forward + passes.forward, passes.forward_host);
  const Seconds backward_wait = waits(timed.backward + timed.busy_backward, passes.backward_host);
  timed.items[TimeItemKind::kLaunch] = forward_wait + backward_wait;
  timed.forward += passes.forward + forward_wait;
  timed.backward += timed.busy_backward + backward_wait;
  return timed;
}

const LayerPricing::DataExchange& LayerPricing::DataParallelOf(Sharding sharding) {
  // Sharded gradients are scattered in the same way whether parameters are sharded or not.
  // Frozen parameters are gathered only if they are sharded.
  if (!footprint().is_frozen()) {
    sharding.level = std::min(sharding.level, ShardingLevel::kGradients);
  }
  if (sharding.degree > 0) {
    for (const auto& [known, exchange] : hybrid_data_) {
      if (known == sharding) return exchange;
    }
    hybrid_data_.emplace_back(sharding,
                              costs_.traffic().DataParallel(footprint(), strategy_, sharding));
    return hybrid_data_.back().second;
  }
  std::optional<DataExchange>& known = data_[static_cast<int>(sharding.level) - 1];
  if (!known.has_value()) known = costs_.traffic().DataParallel(footprint(), strategy_, sharding);
  return *known;
}

LayerCost LayerPricing::CostOf(const Sharding& sharding, const Recomputation& recomputation) {
  const Timed& timed = TimeOf(recomputation);
  const LayerFootprint& footprint = this->footprint();
  const LayerTraffic& traffic = costs_.traffic();
  Strategy strategy = strategy_;
  strategy.set_sharding(sharding);
  strategy.set_recomputation(recomputation);
  LayerCost cost;
  cost.forward = timed.forward;
  cost.backward = timed.backward;
  cost.backward_weights = timed.backward_weights;
  cost.time = timed.items;
  traffic.AddDataParallel(layer_.definition().kind, DataParallelOf(sharding), sharding.level,
                          pipeline_parallel_degree_ > 1, timed.busy_forward, timed.busy_backward,
                          cost);
  if (pipeline_parallel_degree_ > 1 && traffic.SharesTable(layer_.definition())) {
    cost.gradient_sync += traffic.TiedTableSync(footprint, pipeline_parallel_degree_);
  }
  cost.gradient_sync +=
      traffic.TimeOf(traffic.PartialGradientCollectives(layer_.definition(), strategy_));
  const int shards = strategy.shard_count();
  cost.optimizer_step = costs_.OptimizerTime(footprint.parameter_count, sharding.level, shards) +
                        costs_.OptimizerTime(footprint.expert_parameter_count, sharding.level,
                                             strategy.expert_shard_count()) +
                        costs_.QuantisationTime(footprint, sharding.level, strategy) +
                        std::max(Seconds(), costs_.PartCopyTime(layer_.definition(), footprint,
                                                                sharding.level, strategy) -
                                                DataParallelOf(sharding).forward);
  if (sharding.level >= ShardingLevel::kGradients && shards > 1) {
    const Seconds work = costs_.ShardedGradientTime(
        footprint.parameter_count + footprint.expert_parameter_count, shards);
    cost.backward += work;
    cost.time[TimeItemKind::kShardedDataParallel] += work;
  }
  cost.memory = costs_.MemoryOf(footprint, strategy, samples_);
  cost.memory.message = message_;
  return cost;
}

LayerPricing::Passes LayerPricing::PassesWith(const Recomputation& recomputation) {
  const Timed& timed = TimeOf(recomputation);
  return {timed.forward, timed.backward};
}

}  // namespace parplan
