// The part of `LayerTraffic` that is about ranks with the same parameters: gradients, sharded
// parameters, and tied tables.

#include "planner/cost/layer_traffic.h"

#include <algorithm>
#include <cstdint>
#include <optional>

#include "planner/cost/traffic_parts.h"
#include "planner/model/layer_matrices.h"
#include "planner/model/layer_precision.h"

namespace parplan {

// Layers smaller than a bucket share a message with others.
void LayerTraffic::AddBuckets(Collective collective, const GroupShape& group, double bytes,
                              bool in_buckets, CollectiveList& calls, int share_count) const {
  const double bucket = runtime_.gradient_bucket.as_double();
  if (!in_buckets || bytes >= bucket) {
    calls.Add(collective, group, bytes / share_count, 1);
  } else {
    calls.Add(collective, group, bucket / share_count, bytes / bucket);
  }
}

namespace {

// Returns the part of a group with the same parameters that shares their states, if there are
// `group_count` such parts: neighbours.
GroupShape ShardsOf(const GroupShape& replicas, int group_count) {
  return {replicas.participant_count / group_count, replicas.rank_stride};
}

// Returns the ranks of these parts that have the same shard.
GroupShape CopiesOf(const GroupShape& replicas, int group_count) {
  return {group_count, replicas.rank_stride * (replicas.participant_count / group_count)};
}

}  // namespace

// Gradients are reduced once per step; sharded parameters are gathered for every pass.
DataCollectiveLists LayerTraffic::DataCollectives(const LayerFootprint& footprint,
                                                  const Strategy& strategy,
                                                  const Sharding& sharding) const {
  const ShardingLevel level = sharding.level;
  DataCollectiveLists calls;
  if (runtime_.shards_tied_ends_as_one && footprint.kind == LayerKind::kHead &&
      footprint.borrowed_parameter_count > 0 && level != ShardingLevel::kNone) {
    return calls;
  }
  const GroupShape replicas = ReplicaGroup(strategy);
  const int group_count = sharding.degree > 0 ? replicas.participant_count / sharding.degree : 1;
  const int expert = strategy.expert_parallel_degree;
  struct Part {
    int64_t parameter_count;
    int64_t quantised_parameter_count;
    GroupShape group;
  };
  // Each expert is on fewer ranks than the rest. Both parts share the computation that hides them.
  const bool is_frozen = footprint.is_frozen();
  GroupShape expert_replicas{replicas.participant_count / expert, replicas.rank_stride * expert};
  if (strategy.expert_tensor_parallel_degree > 0) {
    expert_replicas = {strategy.expert_replica_count(),
                       strategy.expert_tensor_parallel_degree * expert};
  }
  // Measured layers may have fewer parameters than theory quantises.
  const int64_t quantised_experts =
      std::min(footprint.quantised_expert_parameter_count, footprint.expert_parameter_count);
  Part parts[] = {
      {footprint.parameter_count, is_frozen ? 0 : footprint.quantised_parameter_count, replicas},
      {footprint.expert_parameter_count, quantised_experts, expert_replicas}};
  if (expert == 1 && runtime_.expert_exchange == ExpertExchange::kRows) {
    parts[0].parameter_count += parts[1].parameter_count;
    parts[0].quantised_parameter_count += parts[1].quantised_parameter_count;
    parts[1].parameter_count = 0;
  }
  const std::optional<Quantisation>& quantisation = TraitsOf(precision_).quantisation;
  const bool gathers_quantised =
      HasQuantisedParameters(precision_, runtime_) && quantisation->gathers_weights;
  const auto weight_bytes = [&](const Part& part) {
    const double bytes = static_cast<double>(part.parameter_count) * ElementBytes();
    if (!gathers_quantised) return bytes;
    return bytes - static_cast<double>(part.quantised_parameter_count) *
                       (ElementBytes() - quantisation->operand_bytes);
  };
  const bool all_reduces =
      level == ShardingLevel::kNone ||
      (level == ShardingLevel::kOptimizer && runtime_.all_reduces_sharded_gradients);
  const bool in_buckets = level == ShardingLevel::kNone || level == ShardingLevel::kOptimizer;
  for (const Part& part : parts) {
    if (part.parameter_count == 0 || part.group.participant_count <= 1) continue;
    const auto count = static_cast<double>(part.parameter_count);
    const double gradient_bytes = TraitsOf(precision_).has_master_weights()
                                      ? runtime_.gradient_message_bytes
                                      : ElementBytes();
    const GroupShape shards = ShardsOf(part.group, group_count);
    if (all_reduces) {
      AddBuckets(Collective::kAllReduce, part.group, count * gradient_bytes, in_buckets,
                 calls.backward);
    } else {
      AddBuckets(Collective::kReduceScatter, shards, count * gradient_bytes, in_buckets,
                 calls.backward);
      AddBuckets(Collective::kAllReduce, CopiesOf(part.group, group_count), count * gradient_bytes,
                 in_buckets, calls.between_groups, shards.participant_count);
    }
    if (level == ShardingLevel::kNone) continue;
    AddBuckets(Collective::kAllGather, shards, weight_bytes(part), in_buckets, calls.forward);
  }
  if (!is_frozen || level != ShardingLevel::kParameters) return calls;
  const Part frozen[] = {
      {footprint.frozen_parameter_count, footprint.quantised_parameter_count, replicas},
      {footprint.frozen_expert_parameter_count, footprint.quantised_expert_parameter_count,
       expert_replicas}};
  for (const Part& part : frozen) {
    if (part.parameter_count == 0 || part.group.participant_count <= 1) continue;
    calls.forward.Add(Collective::kAllGather, ShardsOf(part.group, group_count), weight_bytes(part),
                      1);
  }
  return calls;
}

LayerTraffic::DataExchange LayerTraffic::DataParallel(const LayerFootprint& footprint,
                                                      const Strategy& strategy,
                                                      const Sharding& sharding) const {
  const DataCollectiveLists calls = DataCollectives(footprint, strategy, sharding);
  return {ExchangeOf(calls), TimeOf(calls.between_groups)};
}

// Ranks of sequence parallelism see some tokens each, so each has a part of the gradients of what
// they all have.
CollectiveList LayerTraffic::PartialGradientCollectives(const LayerDefinition& definition,
                                                        const Strategy& strategy) const {
  CollectiveList calls;
  if (!runtime_.sums_partial_gradients || !strategy.sequence_parallel) return calls;
  int64_t whole = int64_t{NormCount(definition)} * definition.hidden_size;
  if (!definition.frozen) {
    const PartElements mixer = MixerElements(definition);
    whole += mixer.matrices.copied + mixer.vectors.copied +
             FeedForwardElementsOf(definition).copied() + PredictionNormElements(definition);
  }
  if (!IsTransformer(definition.kind)) {
    // Norms of a head, positions of an embedding.
    whole = definition.parameter_count -
            (definition.kind == LayerKind::kHead && definition.tied_embedding
                 ? 0
                 : int64_t{definition.vocabulary_size} * definition.hidden_size);
  }
  const GroupShape group{strategy.tensor_parallel_degree, strategy.tensor_stride()};
  if (whole > 0) {
    calls.Add(Collective::kAllReduce, group, kGradientBytes * static_cast<double>(whole), 1);
  }
  return calls;
}

void LayerTraffic::AddDataParallel(LayerKind kind, const DataExchange& exchange,
                                   ShardingLevel level, bool has_pipeline, Seconds forward,
                                   Seconds backward, LayerCost& cost) const {
  const Seconds gather = exchange.forward;
  const Seconds between = exchange.between_groups;
  // The exchange of each micro-batch if gradients are sharded, and that of the last one.
  const Seconds reduce_all = exchange.backward + between;
  const Seconds reduce = runtime_.sums_shards_each_pass ? reduce_all : exchange.backward;
  const bool is_late =
      runtime_.overlaps_only_sharded_states && (has_pipeline || level == ShardingLevel::kNone);
  const bool is_at_end =
      (runtime_.sums_whole_gradients_at_end && level == ShardingLevel::kNone) ||
      (runtime_.sums_sharded_states_at_end && level == ShardingLevel::kOptimizer);
  const bool overlaps_reduce = runtime_.overlap_gradient_sync && !is_late && !is_at_end;
  const bool overlaps_scatter = overlaps_reduce && !runtime_.scatters_gradients_in_line;
  const bool is_in_step =
      runtime_.gathers_parameters_in_step && level != ShardingLevel::kParameters;
  const bool overlaps_gather = runtime_.overlap_parameter_gather && !is_in_step;
  Seconds in_forward;
  Seconds in_backward;
  switch (level) {
    case ShardingLevel::kNone:
    case ShardingLevel::kOptimizer:
      // Gradients after the last backward pass, parameters before the next forward pass.
      cost.gradient_sync += Exposed(backward, reduce_all, overlaps_reduce) +
                            Exposed(forward, gather, overlaps_gather);
      return;
    case ShardingLevel::kGradients:
      // Gradients are sharded, so every micro-batch scatters its own; parameters are gathered once.
      in_backward = Exposed(backward, reduce, overlaps_scatter);
      cost.gradient_sync += Exposed(forward, gather, overlaps_gather) +
                            (Exposed(backward, reduce_all, overlaps_scatter) - in_backward);
      break;
    case ShardingLevel::kParameters: {
      // Parameters are gathered once per pass: recomputation uses those gathered for the backward
      // pass. Overlapping collectives share the computation that hides them.
      const bool reads_none = kind == LayerKind::kEmbedding && !runtime_.regathers_embedding;
      const Seconds again = reads_none ? Seconds() : gather;
      const auto exposed = [&](Seconds reduced) {
        const Seconds hidden =
            (overlaps_gather ? again : Seconds()) + (overlaps_scatter ? reduced : Seconds());
        return Exposed(backward, hidden, /*overlaps=*/true) + (again + reduced - hidden);
      };
      in_forward = Exposed(forward, gather, overlaps_gather);
      in_backward = exposed(reduce);
      cost.gradient_sync += exposed(reduce_all) - in_backward;
      break;
    }
  }
  cost.forward += in_forward;
  cost.backward += in_backward;
  cost.time[TimeItemKind::kShardedDataParallel] += in_forward + in_backward;
}

bool LayerTraffic::SharesTable(const LayerDefinition& definition) const {
  if (tied_vocabulary_size_ == 0) return false;
  return definition.tied_embedding || (definition.kind == LayerKind::kEmbedding &&
                                       definition.vocabulary_size == tied_vocabulary_size_);
}

// Both stages take part, each after its last backward pass.
CollectiveList LayerTraffic::TiedTableCollectives(const LayerFootprint& footprint,
                                                  int pipeline_parallel_degree) const {
  CollectiveList calls;
  const int ranks = device_count_ / pipeline_parallel_degree;
  const double bytes = TraitsOf(precision_).has_master_weights() ? runtime_.gradient_bytes : 4.0;
  const double message = static_cast<double>(footprint.largest_matrix_parameter_count) * bytes;
  if (collectives_.has_fabric()) {
    // Within one node the stride has no effect, and it may not divide the node.
    const int stride = device_count_ <= devices_per_node_ ? 1 : device_count_ - ranks;
    calls.Add(Collective::kAllReduce, {2, stride}, message, 1);
  } else {
    // Profiles do not measure it from the first to the last stage. Each of two ranks sends half of
    // the message twice, which takes as long as one message between two stages.
    calls.Add(Collective::kSendReceive, {2, ranks}, message, 1);
  }
  return calls;
}

Seconds LayerTraffic::TiedTableSync(const LayerFootprint& footprint,
                                    int pipeline_parallel_degree) const {
  return TimeOf(TiedTableCollectives(footprint, pipeline_parallel_degree));
}

}  // namespace parplan
