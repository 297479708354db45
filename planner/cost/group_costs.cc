#include "planner/cost/group_costs.h"

#include <algorithm>
#include <cstdint>

#include "planner/cost/layer_pricing.h"
#include "planner/cost/optimizer_step.h"
#include "planner/cost/same_rows.h"
#include "planner/model/layer_matrices.h"
#include "planner/model/layer_precision.h"
#include "planner/model/strategy_fields.h"

namespace parplan {

LayerCost GroupCosts::CostOfLayer(int definition_index, const Strategy& strategy,
                                  int64_t micro_batch_size, int pipeline_parallel_degree) const {
  return LayerPricing(*this, definition_index, strategy, micro_batch_size, pipeline_parallel_degree,
                      PartsOf(strategy.recompute_level))
      .CostOf(strategy.sharding(), strategy.recomputation());
}

GroupCosts::ReshardingTimes GroupCosts::ReshardingTimesOf(int definition_index,
                                                          const Strategy& strategy,
                                                          int64_t micro_batch_size) const {
  const LayerDefinition& definition = layers_[definition_index].definition();
  const double samples = static_cast<double>(micro_batch_size / strategy.data_parallel_degree);
  const CollectiveCosts& collectives = traffic_.collectives();
  ReshardingTimes times;
  if (runtime_.exchanges_layouts) {
    const LayerCollective call = LayoutExchange(definition_index, strategy, micro_batch_size);
    times.exchange = collectives.Time(call.collective, call.group, call.bytes);
    return times;
  }
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

static_assert(kStrategyFieldCount == 13, "say whether the new field moves samples or tokens");

// Returns whether each rank holds the same samples and tokens under both strategies. Ulysses gives
// a rank one piece of a sequence, other kinds one from either end. The context-parallel degree
// follows from the others on equal devices; sequence parallelism cuts only inside a layer.
bool SamePart(const Strategy& a, const Strategy& b) {
  return a.tensor_parallel_degree == b.tensor_parallel_degree &&
         a.data_parallel_degree == b.data_parallel_degree && a.rank_order == b.rank_order &&
         a.has_two_pieces() == b.has_two_pieces();
}

}  // namespace

// A wider group gathers activations in the forward pass, a narrower one gathers their gradients in
// the backward pass; in the other pass ranks keep a slice. Equal degrees on other ranks gather in
// both passes, and so does a change from or to shared tokens, or of the way they are shared.
Seconds GroupCosts::TransitionTime(const Strategy& from, const Strategy& to,
                                   const ReshardingTimes& resharding_from,
                                   const ReshardingTimes& resharding_to) {
  if (resharding_from.exchange > Seconds() || resharding_to.exchange > Seconds()) {
    // Forward ranks receive rows in the layout of `to`, backward in that of `from`.
    return HoldSameRows(from, to) ? Seconds() : resharding_from.exchange + resharding_to.exchange;
  }
  if (SamePart(from, to)) return Seconds();
  if (from.tensor_parallel_degree < to.tensor_parallel_degree) return resharding_to.gather;
  if (from.tensor_parallel_degree > to.tensor_parallel_degree) return resharding_from.gather;
  return resharding_from.regroup + resharding_to.regroup;
}

Seconds GroupCosts::TransitionTime(int definition_index, const Strategy& from, const Strategy& to,
                                   int64_t micro_batch_size) const {
  if (!runtime_.exchanges_layouts && SamePart(from, to)) return Seconds();
  return TransitionTime(from, to, ReshardingTimesOf(definition_index, from, micro_batch_size),
                        ReshardingTimesOf(definition_index, to, micro_batch_size));
}

LayerCollective GroupCosts::LayoutExchange(int definition_index, const Strategy& strategy,
                                           int64_t micro_batch_size) const {
  const double samples = static_cast<double>(micro_batch_size / strategy.data_parallel_degree);
  return {.collective = Collective::kAllToAll,
          .group = {strategy.rank_count(), 1},
          .bytes = traffic_.MessageBytes(layers_[definition_index].definition(), strategy, samples),
          .count = 1.0};
}

CollectiveList GroupCosts::TransitionCollectives(int definition_index, const Strategy& from,
                                                 const Strategy& to,
                                                 int64_t micro_batch_size) const {
  CollectiveList calls;
  if (runtime_.exchanges_layouts) {
    if (HoldSameRows(from, to)) return calls;
    for (const Strategy* strategy : {&to, &from}) {
      const LayerCollective call = LayoutExchange(definition_index, *strategy, micro_batch_size);
      calls.Add(call.collective, call.group, call.bytes, call.count);
    }
    return calls;
  }
  if (SamePart(from, to)) return calls;
  const LayerDefinition& definition = layers_[definition_index].definition();
  const bool is_within = from.tensor_parallel_degree == to.tensor_parallel_degree;
  for (const Strategy* strategy : {&from, &to}) {
    const int tensor = strategy->tensor_parallel_degree;
    // Only the wider group gathers, if one is.
    if (!is_within && tensor < std::max(from.tensor_parallel_degree, to.tensor_parallel_degree)) {
      continue;
    }
    const double samples = static_cast<double>(micro_batch_size / strategy->data_parallel_degree);
    calls.Add(Collective::kAllGather, {tensor, strategy->tensor_stride()},
              traffic_.OutputBytes(definition, *strategy, samples), 1);
    if (!is_within) continue;
    calls.Add(Collective::kAllToAll,
              {strategy->context_parallel_degree, strategy->context_stride()},
              traffic_.MessageBytes(definition, *strategy, samples), 2);
  }
  return calls;
}

Bytes GroupCosts::MessageSize(int definition_index, const Strategy& strategy,
                              int64_t micro_batch_size) const {
  const double samples = static_cast<double>(micro_batch_size / strategy.data_parallel_degree);
  return Bytes::Ceil(
      traffic_.MessageBytes(layers_[definition_index].definition(), strategy, samples));
}

LayerMemory GroupCosts::MemoryOfPassage(int definition_index, const Strategy& strategy,
                                        int64_t micro_batch_size) const {
  LayerMemory memory;
  memory.message = MessageSize(definition_index, strategy, micro_batch_size);
  memory.kept = memory.message;
  return memory;
}

CollectiveList GroupCosts::MessageCollectives(int definition_index, const Strategy& from,
                                              int rank_count, bool leaves_node,
                                              int64_t micro_batch_size) const {
  const LayerDefinition& definition = layers_[definition_index].definition();
  const double samples = static_cast<double>(micro_batch_size / from.data_parallel_degree);
  GroupShape pair{2, rank_count};
  // Stages may be smaller than a node and still lie on either side of its edge.
  const GroupShape across{2, devices_per_node_};
  if (leaves_node && rank_count < devices_per_node_ &&
      traffic_.collectives().Knows(Collective::kSendReceive, across)) {
    pair = across;
  }
  const double message = traffic_.MessageBytes(definition, from, samples);
  const int tensor = from.tensor_parallel_degree;
  CollectiveList calls;
  if (!runtime_.scattered_pipeline_messages || from.sequence_parallel || tensor == 1) {
    calls.Add(Collective::kSendReceive, pair, message, 1);
    return calls;
  }
  calls.Add(Collective::kSendReceive, pair, message / tensor, 1);
  calls.Add(Collective::kAllGather, {tensor, from.tensor_stride()}, message, 1);
  return calls;
}

Seconds GroupCosts::MessageTime(int definition_index, const Strategy& from, int rank_count,
                                bool leaves_node, int64_t micro_batch_size) const {
  return traffic_.TimeOf(
      MessageCollectives(definition_index, from, rank_count, leaves_node, micro_batch_size));
}

Seconds GroupCosts::OptimizerTime(int64_t parameter_count, ShardingLevel level,
                                  int shard_count) const {
  const auto count = static_cast<double>(parameter_count);
  if (optimizer_time_.has_value()) {
    return optimizer_time_->At(level == ShardingLevel::kNone ? count : count / shard_count);
  }
  if (!device_.has_value()) return Seconds();
  return OptimizerStepTime(count, level, shard_count, precision_, optimizer_, runtime_, *device_,
                           coefficients_);
}

Seconds GroupCosts::QuantisationTime(const LayerFootprint& footprint, ShardingLevel level,
                                     const Strategy& strategy) const {
  const std::optional<Quantisation>& quantisation = TraitsOf(precision_).quantisation;
  // Frozen weights are quantised once for all steps.
  if (!quantisation.has_value() || !device_.has_value() || footprint.is_frozen()) {
    return Seconds();
  }
  const bool quantises_shard = level != ShardingLevel::kNone && quantisation->gathers_weights &&
                               HasQuantisedParameters(precision_, runtime_);
  const auto own = [quantises_shard](int64_t count, int ranks) {
    return static_cast<double>(count) / (quantises_shard ? ranks : 1);
  };
  const double elements =
      own(footprint.quantised_parameter_count, strategy.shard_count()) +
      own(footprint.quantised_expert_parameter_count, strategy.expert_shard_count());
  const double bytes =
      elements * (static_cast<double>(quantisation->read_count * BytesPerElement(precision_)) +
                  QuantisedCopyCount(precision_, &*device_) * quantisation->operand_bytes);
  return Seconds::Of(
      bytes / (device_->memory_bytes_per_second * coefficients_[Coefficient::kMemoryEfficiency]));
}

Seconds GroupCosts::PartCopyTime(const LayerDefinition& definition, const LayerFootprint& footprint,
                                 ShardingLevel level, const Strategy& strategy) const {
  const bool gathers = runtime_.gathers_parameters_in_step && level != ShardingLevel::kNone &&
                       level != ShardingLevel::kParameters;
  if (!gathers || !runtime_.copies_gathered_parts || !runtime_.eager || !device_.has_value()) {
    return Seconds();
  }
  // Parameters that no other rank has a part of are not gathered, nor are frozen ones.
  const auto copies = [](int tensor_count, int64_t parameter_count, int shard_count) {
    return parameter_count > 0 && shard_count > 1 ? tensor_count * shard_count : 0;
  };
  const int of_experts = ExpertTensorCount(definition);
  const int count =
      copies(ParameterTensorCount(definition) - of_experts, footprint.parameter_count,
             strategy.shard_count()) +
      copies(of_experts, footprint.expert_parameter_count, strategy.expert_shard_count());
  return Seconds::Of(count * coefficients_[Coefficient::kLaunchInterval]);
}

Seconds GroupCosts::ShardedGradientTime(int64_t parameter_count, int shard_count) const {
  if (!optimizer_time_.has_value()) return Seconds();
  return OptimizerTime(parameter_count, ShardingLevel::kNone, shard_count) *
         ShardedGradientShare(precision_, optimizer_, shard_count);
}

LayerMemory GroupCosts::MemoryOf(const LayerFootprint& footprint, const Strategy& strategy,
                                 double samples) const {
  return MemoryOfLayer(footprint, precision_, optimizer_, runtime_, strategy, samples,
                       QuantisedCopyCount(precision_, device_.has_value() ? &*device_ : nullptr));
}

}  // namespace parplan
