#include "planner/cost/layer_traffic.h"

#include <algorithm>
#include <utility>

#include "planner/cost/tensor_parallel_traffic.h"
#include "planner/model/layer_matrices.h"

namespace parplan {
namespace {

// Returns the group of ranks with the same parameters: data- and context-parallel ones together.
GroupShape ReplicaGroup(const Strategy& strategy) {
  const bool tensor_inner = strategy.rank_order == RankOrder::kTensorInnermost;
  return {strategy.data_parallel_degree * strategy.context_parallel_degree,
          tensor_inner ? strategy.tensor_parallel_degree : 1};
}

}  // namespace

Seconds OverlappedTime(Seconds compute, Seconds communication, double slowdown) {
  return std::max(compute, communication) + std::min(compute, communication) * (slowdown - 1.0);
}

LayerTraffic::LayerTraffic(const PlanningProblem& problem, GroupIndex group,
                           CollectiveCosts collectives, double overlap_slowdown)
    : precision_(problem.model().precision()),
      runtime_(problem.rules().runtime),
      device_count_(problem.device_count()),
      devices_per_node_(problem.node_group(group).devices_per_node),
      overlap_slowdown_(overlap_slowdown),
      collectives_(std::move(collectives)) {
  const ModelSpec& model = problem.model();
  if (const LayerDefinition& head = model.layer(model.layer_count() - 1); head.tied_embedding) {
    tied_vocabulary_size_ = head.vocabulary_size;
  }
}

double LayerTraffic::OutputBytes(const LayerDefinition& definition, const Strategy& strategy,
                                 double samples) const {
  return samples * definition.sequence_length / strategy.context_parallel_degree *
         definition.hidden_size * ElementBytes();
}

double LayerTraffic::MessageBytes(const LayerDefinition& definition, const Strategy& strategy,
                                  double samples) const {
  if (definition.opaque.has_value() && definition.opaque->boundary_bytes_per_sample > 0) {
    return samples * static_cast<double>(definition.opaque->boundary_bytes_per_sample);
  }
  // A layer that predicts further tokens hands on its own hidden states and all before.
  const double message =
      OutputBytes(definition, strategy, samples) * (1 + definition.prediction_depth);
  return strategy.sequence_parallel ? message / strategy.tensor_parallel_degree : message;
}

// The traffic is exposed, since the next product waits for it, but for the part that the runtime
// hides behind the gradients of weights (Korthikanti et al., 4.2.2).
LayerTraffic::Exchange LayerTraffic::TensorParallel(const LayerDefinition& definition,
                                                    const Strategy& strategy, double samples,
                                                    Seconds hiding_backward) const {
  const int tensor = strategy.tensor_parallel_degree;
  if (tensor == 1 || KeepsTableWhole(definition)) return {};
  if (definition.kind == LayerKind::kOpaque) return OpaqueExchange(definition, strategy, samples);
  const double message = OutputBytes(definition, strategy, samples);
  const GroupShape group{tensor, strategy.tensor_stride()};
  const TensorParallelTraffic traffic = TrafficOf(definition, strategy.sequence_parallel, runtime_);
  const double inner_message = message / definition.hidden_size * traffic.inner_width;
  const auto time = [&](const PassTraffic& pass, const PassTraffic& inner) {
    Seconds sum;
    const auto add = [&](Collective collective, int count, double bytes) {
      if (count > 0) sum += collectives_.Time(collective, group, bytes) * count;
    };
    add(Collective::kAllReduce, pass.all_reduces, message);
    add(Collective::kAllGather, pass.gathers, message);
    add(Collective::kReduceScatter, pass.scatters, message);
    add(Collective::kAllReduce, inner.all_reduces, inner_message);
    add(Collective::kAllGather, inner.gathers, inner_message);
    add(Collective::kReduceScatter, inner.scatters, inner_message);
    return sum;
  };
  Exchange exchange = {time(traffic.forward, traffic.inner_forward),
                       time(traffic.backward, traffic.inner_backward)};
  if (definition.kind == LayerKind::kHead) {
    // The largest logit, the sum and the label's logit of every token, in 32 bits.
    const double words = 4.0 * samples * definition.sequence_length /
                         strategy.context_parallel_degree * (1 + definition.further_token_count);
    const auto reduce = [&](double bytes) {
      return collectives_.Time(Collective::kAllReduce, group, bytes);
    };
    if (runtime_.logits_in_backward_pass) {
      exchange.backward += reduce(words) + reduce(2.0 * words);
    } else {
      exchange.forward += reduce(words) * 3.0;
    }
  }
  if (runtime_.overlap_tensor_parallel && IsTransformer(definition.kind)) {
    // One all-reduce of each part; with sequence parallelism a gather and a scatter.
    const Seconds hidden = time(traffic.hidden, traffic.inner_hidden);
    const Seconds shade = hiding_backward * (strategy.sequence_parallel ? 2.0 : 1.0);
    exchange.backward =
        exchange.backward - hidden + OverlappedTime(shade, hidden, overlap_slowdown_) - shade;
  }
  return exchange;
}

// The exchanges of an opaque layer are given with it.
LayerTraffic::Exchange LayerTraffic::OpaqueExchange(const LayerDefinition& definition,
                                                    const Strategy& strategy,
                                                    double samples) const {
  const int tensor = strategy.tensor_parallel_degree;
  const OpaqueTensorDegree part = OpaquePart(definition, tensor);
  if (part.all_reduce_bytes_per_sample == 0) return {};
  const Seconds one =
      collectives_.Time(Collective::kAllReduce, {tensor, strategy.tensor_stride()},
                        samples * static_cast<double>(part.all_reduce_bytes_per_sample));
  return {one * part.forward_all_reduce_count, one * part.backward_all_reduce_count};
}

// After the projection every rank exchanges its tokens of the other heads for all tokens of its own
// heads, and after attention back: queries, keys, values and output, and the gradients of each
// (DeepSpeed-Ulysses, arXiv 2309.14509, section 3). No computation overlaps the exchange.
LayerTraffic::Exchange LayerTraffic::UlyssesExchange(const LayerDefinition& definition,
                                                     const Strategy& strategy,
                                                     double samples) const {
  const GroupShape group{strategy.context_parallel_degree, strategy.context_stride()};
  const AttentionWidths widths = AttentionWidthsOf(definition);
  const double tokens = samples * definition.sequence_length / strategy.context_parallel_degree;
  const auto time = [&](int64_t head_count, int64_t head_size) {
    const double bytes_a_head =
        tokens * head_size * ElementBytes() / strategy.tensor_parallel_degree;
    return collectives_.Time(Collective::kAllToAll, group, bytes_a_head * head_count);
  };
  const double attention_count = AttentionBlockCount(definition.kind);
  const int heads = definition.attention_head_count;
  const int key_value_heads = definition.key_value_head_count;
  const Seconds pass =
      (time(heads, widths.key_head) + time(heads, widths.value_head) +
       (time(key_value_heads, widths.key_head) + time(key_value_heads, widths.value_head))) *
      attention_count;
  return {pass, pass};
}

// In ring attention every rank receives the keys and values of all others, one after the other, and
// in the backward pass their gradients too. The ring is as fast as its slowest link. Keys and
// values travel while attention works on those already there, except for the last ones. All of them
// travel also where a window reads only some: rings of today's programs do not skip hops.
LayerTraffic::Exchange LayerTraffic::ContextParallel(const LayerDefinition& definition,
                                                     const Strategy& strategy, double samples,
                                                     const LayerPasses& passes) const {
  const int context = strategy.context_parallel_degree;
  if (context == 1 || !HasAttention(definition.kind)) return {};
  if (strategy.context_kind == ContextKind::kUlysses) {
    return UlyssesExchange(definition, strategy, samples);
  }
  const AttentionWidths widths = AttentionWidthsOf(definition);
  const double keys_and_values =
      samples * definition.sequence_length / context * (widths.key_head + widths.value_head) *
      std::max(1, definition.key_value_head_count / strategy.tensor_parallel_degree) *
      ElementBytes();
  const Seconds step = collectives_.Time(Collective::kSendReceive,
                                         {context, strategy.context_stride()}, keys_and_values);
  const double hops = context - 1;
  const double beside = hops / context;
  return {Exposed(passes.forward_attention * beside, step * hops, /*overlaps=*/true),
          Exposed(passes.backward_attention * beside, step * (2.0 * hops), /*overlaps=*/true)};
}

// Tokens go to their experts and come back, forward and backward.
LayerTraffic::Exchange LayerTraffic::ExpertParallel(const LayerDefinition& definition,
                                                    const Strategy& strategy,
                                                    double samples) const {
  const int expert = strategy.expert_parallel_degree;
  if (expert == 1 || definition.expert_count == 0) return {};
  double message = samples * definition.sequence_length / strategy.context_parallel_degree *
                   definition.hidden_size * definition.experts_per_token * ElementBytes();
  if (strategy.sequence_parallel) message /= strategy.tensor_parallel_degree;
  const GroupShape group{expert, ReplicaGroup(strategy).rank_stride};
  const Seconds both = collectives_.Time(Collective::kAllToAll, group, message) * 2.0;
  return {both, both};
}

Seconds LayerTraffic::Exposed(Seconds compute, Seconds communication, bool overlaps) const {
  if (!overlaps) return communication;
  return OverlappedTime(compute, communication, overlap_slowdown_) - compute;
}

// Layers smaller than a bucket share a message with others.
Seconds LayerTraffic::BucketTime(Collective collective, const GroupShape& group, double bytes,
                                 bool in_buckets) const {
  const double bucket = runtime_.gradient_bucket.as_double();
  if (!in_buckets || bytes >= bucket) return collectives_.Time(collective, group, bytes);
  return collectives_.Time(collective, group, bucket) * (bytes / bucket);
}

// Gradients are reduced once per step; sharded parameters are gathered for every pass.
LayerTraffic::Exchange LayerTraffic::DataParallel(const LayerFootprint& footprint,
                                                  const Strategy& strategy,
                                                  ShardingLevel level) const {
  const GroupShape replicas = ReplicaGroup(strategy);
  const int expert = strategy.expert_parallel_degree;
  struct Part {
    int64_t parameter_count;
    GroupShape group;
  };
  // Each expert is on fewer ranks than the rest. Both parts share the computation that hides them.
  const Part parts[] = {{footprint.parameter_count, replicas},
                        {footprint.expert_parameter_count,
                         {replicas.participant_count / expert, replicas.rank_stride * expert}}};
  const bool all_reduces =
      level == ShardingLevel::kNone ||
      (level == ShardingLevel::kOptimizer && runtime_.all_reduces_sharded_gradients);
  const bool in_buckets = level == ShardingLevel::kNone || level == ShardingLevel::kOptimizer;
  Exchange exchange;
  for (const Part& part : parts) {
    if (part.parameter_count == 0 || part.group.participant_count <= 1) continue;
    const auto count = static_cast<double>(part.parameter_count);
    const double gradient_bytes = TraitsOf(precision_).has_master_weights()
                                      ? runtime_.gradient_message_bytes
                                      : ElementBytes();
    exchange.backward +=
        BucketTime(all_reduces ? Collective::kAllReduce : Collective::kReduceScatter, part.group,
                   count * gradient_bytes, in_buckets);
    if (level == ShardingLevel::kNone) continue;
    exchange.forward +=
        BucketTime(Collective::kAllGather, part.group, count * ElementBytes(), in_buckets);
  }
  return exchange;
}

void LayerTraffic::AddDataParallel(LayerKind kind, const Exchange& exchange, ShardingLevel level,
                                   bool has_pipeline, Seconds forward, Seconds backward,
                                   LayerCost& cost) const {
  const Seconds gather = exchange.forward;
  const Seconds reduce = exchange.backward;
  const bool is_late =
      runtime_.overlaps_only_sharded_states && (has_pipeline || level == ShardingLevel::kNone);
  const bool overlaps_reduce = runtime_.overlap_gradient_sync && !is_late;
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
      cost.gradient_sync +=
          Exposed(backward, reduce, overlaps_reduce) + Exposed(forward, gather, overlaps_gather);
      return;
    case ShardingLevel::kGradients:
      // Gradients are sharded, so every micro-batch scatters its own; parameters are gathered once.
      in_backward = Exposed(backward, reduce, overlaps_scatter);
      cost.gradient_sync += Exposed(forward, gather, overlaps_gather);
      break;
    case ShardingLevel::kParameters: {
      // Parameters are gathered once per pass: recomputation uses those gathered for the backward
      // pass. Overlapping collectives share the computation that hides them.
      const bool reads_none = kind == LayerKind::kEmbedding && !runtime_.regathers_embedding;
      const Seconds again = reads_none ? Seconds() : gather;
      const Seconds hidden =
          (overlaps_gather ? again : Seconds()) + (overlaps_scatter ? reduce : Seconds());
      in_forward = Exposed(forward, gather, overlaps_gather);
      in_backward = Exposed(backward, hidden, /*overlaps=*/true) + (again + reduce - hidden);
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

bool LayerTraffic::KeepsTableWhole(const LayerDefinition& definition) const {
  return runtime_.whole_untied_tables && definition.kind == LayerKind::kEmbedding &&
         !SharesTable(definition);
}

// Both stages take part, each after its last backward pass.
Seconds LayerTraffic::TiedTableSync(const LayerFootprint& footprint,
                                    int pipeline_parallel_degree) const {
  const int ranks = device_count_ / pipeline_parallel_degree;
  const double bytes = TraitsOf(precision_).has_master_weights() ? runtime_.gradient_bytes : 4.0;
  const double message = static_cast<double>(footprint.largest_matrix_parameter_count) * bytes;
  if (collectives_.has_fabric()) {
    // Within one node the stride has no effect, and it may not divide the node.
    const int stride = device_count_ <= devices_per_node_ ? 1 : device_count_ - ranks;
    return collectives_.Time(Collective::kAllReduce, {2, stride}, message);
  }
  // Profiles do not measure it from the first to the last stage. Each of two ranks sends half of
  // the message twice, which takes as long as one message between two stages.
  return collectives_.Time(Collective::kSendReceive, {2, ranks}, message);
}

}  // namespace parplan
