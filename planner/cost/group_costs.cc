#include "planner/cost/group_costs.h"

#include <cstdint>

#include "planner/cost/layer_pricing.h"
#include "planner/cost/optimizer_step.h"
#include "planner/model/strategy_fields.h"

namespace parplan {

LayerCost GroupCosts::CostOfLayer(int definition_index, const Strategy& strategy,
                                  int64_t micro_batch_size, int pipeline_parallel_degree) const {
  return LayerPricing(*this, definition_index, strategy, micro_batch_size, pipeline_parallel_degree,
                      strategy.recompute_level == RecomputeLevel::kSelective)
      .CostOf(strategy.sharding_level, strategy.recompute_level);
}

GroupCosts::ReshardingTimes GroupCosts::ReshardingTimesOf(int definition_index,
                                                          const Strategy& strategy,
                                                          int64_t micro_batch_size) const {
  const LayerDefinition& definition = layers_[definition_index].definition();
  const double samples = static_cast<double>(micro_batch_size / strategy.data_parallel_degree);
  const CollectiveCosts& collectives = traffic_.collectives();
  ReshardingTimes times;
  times.gather = collectives.Time(Collective::kAllGather,
                                  {strategy.tensor_parallel_degree, strategy.tensor_stride()},
                                  traffic_.OutputBytes(definition, strategy, samples));
  times.regroup = times.gather;
  const int context = strategy.context_parallel_degree;
  if (context == 1) return times;
  const double part = traffic_.MessageBytes(definition, strategy, samples);
  times.regroup +=
      collectives.Time(Collective::kAllToAll, {context, strategy.context_stride()}, part) * 2.0;
  return times;
}

namespace {

static_assert(kStrategyFieldCount == 9, "say whether the new field moves samples or tokens");

// Returns whether each rank holds the same samples and tokens under both strategies. Rings give a
// rank a piece from either end of a sequence, Ulysses one piece. The context-parallel degree
// follows from the others on equal devices; sequence parallelism cuts only inside a layer.
bool SamePart(const Strategy& a, const Strategy& b) {
  return a.tensor_parallel_degree == b.tensor_parallel_degree &&
         a.data_parallel_degree == b.data_parallel_degree && a.rank_order == b.rank_order &&
         a.context_kind == b.context_kind;
}

}  // namespace

// A wider group gathers activations in the forward pass, a narrower one gathers their gradients in
// the backward pass; in the other pass ranks keep a slice. Equal degrees on other ranks gather in
// both passes, and so does a change from or to shared tokens, or of the way they are shared.
Seconds GroupCosts::TransitionTime(const Strategy& from, const Strategy& to,
                                   const ReshardingTimes& resharding_from,
                                   const ReshardingTimes& resharding_to) {
  if (SamePart(from, to)) return Seconds();
  if (from.tensor_parallel_degree < to.tensor_parallel_degree) return resharding_to.gather;
  if (from.tensor_parallel_degree > to.tensor_parallel_degree) return resharding_from.gather;
  return resharding_from.regroup + resharding_to.regroup;
}

Seconds GroupCosts::TransitionTime(int definition_index, const Strategy& from, const Strategy& to,
                                   int64_t micro_batch_size) const {
  if (SamePart(from, to)) return Seconds();
  return TransitionTime(from, to, ReshardingTimesOf(definition_index, from, micro_batch_size),
                        ReshardingTimesOf(definition_index, to, micro_batch_size));
}

Bytes GroupCosts::MessageSize(int definition_index, const Strategy& strategy,
                              int64_t micro_batch_size) const {
  const double samples = static_cast<double>(micro_batch_size / strategy.data_parallel_degree);
  return Bytes::Ceil(
      traffic_.MessageBytes(layers_[definition_index].definition(), strategy, samples));
}

Seconds GroupCosts::MessageTime(int definition_index, const Strategy& from, int rank_count,
                                bool leaves_node, int64_t micro_batch_size) const {
  const LayerDefinition& definition = layers_[definition_index].definition();
  const double samples = static_cast<double>(micro_batch_size / from.data_parallel_degree);
  const CollectiveCosts& collectives = traffic_.collectives();
  GroupShape pair{2, rank_count};
  // Stages may be smaller than a node and still lie on either side of its edge.
  const GroupShape across{2, devices_per_node_};
  if (leaves_node && rank_count < devices_per_node_ &&
      collectives.Knows(Collective::kSendReceive, across)) {
    pair = across;
  }
  const double message = traffic_.MessageBytes(definition, from, samples);
  const int tensor = from.tensor_parallel_degree;
  if (!runtime_.scattered_pipeline_messages || from.sequence_parallel || tensor == 1) {
    return collectives.Time(Collective::kSendReceive, pair, message);
  }
  return collectives.Time(Collective::kSendReceive, pair, message / tensor) +
         collectives.Time(Collective::kAllGather, {tensor, from.tensor_stride()}, message);
}

Seconds GroupCosts::OptimizerTime(int64_t parameter_count, ShardingLevel level,
                                  int replica_count) const {
  const auto count = static_cast<double>(parameter_count);
  if (optimizer_time_.has_value()) {
    return optimizer_time_->At(level == ShardingLevel::kNone ? count : count / replica_count);
  }
  if (!device_.has_value()) return Seconds();
  return OptimizerStepTime(count, level, replica_count, precision_, optimizer_, runtime_, *device_,
                           coefficients_);
}

Seconds GroupCosts::ShardedGradientTime(int64_t parameter_count, int replica_count) const {
  if (!optimizer_time_.has_value()) return Seconds();
  return OptimizerTime(parameter_count, ShardingLevel::kNone, replica_count) *
         ShardedGradientShare(precision_, optimizer_, replica_count);
}

LayerMemory GroupCosts::MemoryOf(const LayerFootprint& footprint, const Strategy& strategy,
                                 double samples) const {
  return MemoryOfLayer(footprint, precision_, optimizer_, runtime_, strategy, samples);
}

}  // namespace parplan
