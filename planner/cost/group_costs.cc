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
  const int context = strategy.context_parallel_degree;
  const double message =
      samples * definition.sequence_length / context * definition.hidden_size * ElementBytes();
  ReshardingTimes times;
  times.gather = collectives_.Time(
      Collective::kAllGather, {strategy.tensor_parallel_degree, strategy.tensor_stride()}, message);
  times.regroup = times.gather;
  if (context == 1) return times;
  const double part = MessageBytes(definition, strategy, samples);
  times.regroup +=
      collectives_.Time(Collective::kAllToAll, {context, strategy.context_stride()}, part) * 2.0;
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

double GroupCosts::MessageBytes(const LayerDefinition& definition, const Strategy& strategy,
                                double samples) const {
  if (definition.opaque.has_value() && definition.opaque->boundary_bytes_per_sample > 0) {
    return samples * static_cast<double>(definition.opaque->boundary_bytes_per_sample);
  }
  // A layer that predicts further tokens hands on its own hidden states and all before.
  const double message = samples * definition.sequence_length / strategy.context_parallel_degree *
                         definition.hidden_size * ElementBytes() *
                         (1 + definition.prediction_depth);
  return strategy.sequence_parallel ? message / strategy.tensor_parallel_degree : message;
}

Bytes GroupCosts::MessageSize(int definition_index, const Strategy& strategy,
                              int64_t micro_batch_size) const {
  const double samples = static_cast<double>(micro_batch_size / strategy.data_parallel_degree);
  return Bytes::Ceil(MessageBytes(layers_[definition_index].definition(), strategy, samples));
}

Seconds GroupCosts::MessageTime(int definition_index, const Strategy& from, int rank_count,
                                bool leaves_node, int64_t micro_batch_size) const {
  const LayerDefinition& definition = layers_[definition_index].definition();
  const double samples = static_cast<double>(micro_batch_size / from.data_parallel_degree);
  GroupShape pair{2, rank_count};
  // Stages may be smaller than a node and still lie on either side of its edge.
  const GroupShape across{2, devices_per_node_};
  if (leaves_node && rank_count < devices_per_node_ &&
      collectives_.Knows(Collective::kSendReceive, across)) {
    pair = across;
  }
  const double message = MessageBytes(definition, from, samples);
  const int tensor = from.tensor_parallel_degree;
  if (!runtime_.scattered_pipeline_messages || from.sequence_parallel || tensor == 1) {
    return collectives_.Time(Collective::kSendReceive, pair, message);
  }
  return collectives_.Time(Collective::kSendReceive, pair, message / tensor) +
         collectives_.Time(Collective::kAllGather, {tensor, from.tensor_stride()}, message);
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

}  // namespace parplan
