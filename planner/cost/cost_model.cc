#include "planner/cost/cost_model.h"

#include <algorithm>
#include <cstdint>

#include "planner/base/check.h"
#include "planner/cost/optimizer_step.h"

namespace parplan {
namespace {

// Collectives of one layer over its tensor-parallel group, each over the
// activations of the micro-batch, as numbers of all-reduces. With sequence
// parallelism each is a reduce-scatter and an all-gather instead.
struct TensorParallelTraffic {
  // Half all-reduces: an all-gather or a reduce-scatter.
  int forward_halves = 0;
  int backward_halves = 0;
};

// Megatron-LM: the attention and the feed-forward part each end in one
// all-reduce, and begin with one in the backward pass, where sequence parallelism
// gathers their inputs once more for the gradients of the weights. A table split by
// rows sums once; a head split by classes sums the gradient of its input once.
TensorParallelTraffic TrafficOf(LayerKind kind, bool sequence_parallel) {
  switch (kind) {
    case LayerKind::kEncoder:
    case LayerKind::kDecoder:
      return sequence_parallel ? TensorParallelTraffic{4, 6} : TensorParallelTraffic{4, 4};
    case LayerKind::kCrossDecoder:
      return sequence_parallel ? TensorParallelTraffic{6, 9} : TensorParallelTraffic{6, 6};
    case LayerKind::kEmbedding:
    case LayerKind::kPatchEmbedding:
      return sequence_parallel ? TensorParallelTraffic{1, 1} : TensorParallelTraffic{2, 0};
    case LayerKind::kHead:
      return sequence_parallel ? TensorParallelTraffic{1, 1} : TensorParallelTraffic{0, 2};
  }
  return {};
}

// Ranks that hold the same parameters: data- and context-parallel ones together.
GroupShape ReplicaGroup(const Strategy& strategy) {
  const bool tensor_inner = strategy.rank_order == RankOrder::kTensorInnermost;
  return {strategy.data_parallel_degree * strategy.context_parallel_degree,
          tensor_inner ? strategy.tensor_parallel_degree : 1};
}

}  // namespace

Seconds OverlappedTime(Seconds compute, Seconds communication, double slowdown) {
  return std::max(compute, communication) + std::min(compute, communication) * (slowdown - 1.0);
}

// Exposed, since the next matrix waits for it; but for what hides behind the gradients
// of weights where the runtime does so (Korthikanti et al., 4.2.2).
CostModel::Exchange CostModel::TensorParallel(const LayerDefinition& definition,
                                              const Strategy& strategy, double samples,
                                              Seconds hiding_backward) const {
  const int tensor = strategy.tensor_parallel_degree;
  if (tensor == 1) return {};
  const double message = samples * definition.sequence_length /
                         strategy.context_parallel_degree * definition.hidden_size *
                         ElementBytes();
  const GroupShape group{tensor, strategy.tensor_stride()};
  const Seconds half = strategy.sequence_parallel
                           ? (collectives_.Time(Collective::kAllGather, group, message) +
                              collectives_.Time(Collective::kReduceScatter, group, message)) *
                                 0.5
                           : collectives_.Time(Collective::kAllReduce, group, message) * 0.5;
  const TensorParallelTraffic traffic = TrafficOf(definition.kind, strategy.sequence_parallel);
  Exchange exchange = {half * traffic.forward_halves, half * traffic.backward_halves};
  if (definition.kind == LayerKind::kHead) {
    // The largest logit, their sum and the label's, of every token, in 32 bits.
    const double tokens =
        samples * definition.sequence_length / strategy.context_parallel_degree;
    exchange.forward += collectives_.Time(Collective::kAllReduce, group, 4.0 * tokens) * 3.0;
  }
  if (runtime_.overlap_tensor_parallel && IsTransformer(definition.kind)) {
    // Two all-reduces; with sequence parallelism two gathers and two scatters.
    const Seconds hidden = half * 4.0;
    const Seconds shade = hiding_backward * (strategy.sequence_parallel ? 2.0 : 1.0);
    exchange.backward = exchange.backward - hidden +
                        OverlappedTime(shade, hidden, overlap_slowdown_) - shade;
  }
  return exchange;
}

// Ring attention: every rank sees the keys and values of all others, one after the
// other, and in the backward pass their gradients too.
CostModel::Exchange CostModel::ContextParallel(const LayerDefinition& definition,
                                               const Strategy& strategy, double samples) const {
  const int context = strategy.context_parallel_degree;
  if (context == 1 || !IsTransformer(definition.kind)) return {};
  const double keys_and_values =
      2.0 * samples * definition.sequence_length / context * definition.head_size *
      std::max(1, definition.key_value_head_count / strategy.tensor_parallel_degree) *
      ElementBytes();
  const GroupShape next{2, strategy.tensor_stride() * strategy.tensor_parallel_degree};
  const Seconds step = collectives_.Time(Collective::kSendReceive, next, keys_and_values);
  return {step * (context - 1), step * (2.0 * (context - 1))};
}

// Tokens go to their experts and come back, forward and backward.
CostModel::Exchange CostModel::ExpertParallel(const LayerDefinition& definition,
                                              const Strategy& strategy, double samples) const {
  const int expert = strategy.expert_parallel_degree;
  if (expert == 1 || definition.expert_count == 0) return {};
  double message = samples * definition.sequence_length / strategy.context_parallel_degree *
                   definition.hidden_size * definition.experts_per_token * ElementBytes();
  if (strategy.sequence_parallel) message /= strategy.tensor_parallel_degree;
  const GroupShape group{expert, ReplicaGroup(strategy).rank_stride};
  const Seconds both = collectives_.Time(Collective::kAllToAll, group, message) * 2.0;
  return {both, both};
}

// Gradients are made equal once a step, parameters that are sharded are gathered for
// every pass.
void CostModel::AddDataParallel(double parameter_count, const GroupShape& group,
                                ShardingLevel level, Seconds forward, Seconds backward,
                                LayerCost& cost) const {
  if (group.participant_count == 1 || parameter_count == 0.0) return;
  const double whole = parameter_count * ElementBytes();
  const double gradients = precision_ == Precision::kFp32
                               ? whole
                               : parameter_count * runtime_.gradient_message_bytes;
  const auto gather = [&] { return collectives_.Time(Collective::kAllGather, group, whole); };
  const auto scatter = [&] {
    return collectives_.Time(Collective::kReduceScatter, group, gradients);
  };
  const auto exposed = [this](Seconds compute, Seconds communication, bool overlaps) {
    if (!overlaps) return communication;
    return OverlappedTime(compute, communication, overlap_slowdown_) - compute;
  };
  Seconds per_pass;
  switch (level) {
    case ShardingLevel::kNone: {
      // Gradients that travel behind the last pass travel together.
      const double bucket = runtime_.gradient_bucket.as_double();
      const bool together = !runtime_.overlap_gradient_sync && gradients < bucket;
      const Seconds all_reduce =
          together ? collectives_.Time(Collective::kAllReduce, group, bucket) *
                         (gradients / bucket)
                   : collectives_.Time(Collective::kAllReduce, group, gradients);
      cost.gradient_sync += exposed(backward, all_reduce, runtime_.overlap_gradient_sync);
      return;
    }
    case ShardingLevel::kOptimizer:
      if (runtime_.overlap_gradient_sync == runtime_.overlap_parameter_gather) {
        const Seconds exchange = runtime_.all_reduces_sharded_gradients
                                     ? collectives_.Time(Collective::kAllReduce, group, gradients)
                                     : scatter();
        cost.gradient_sync +=
            exposed(backward, gather() + exchange, runtime_.overlap_gradient_sync);
      } else {
        cost.gradient_sync += exposed(backward, scatter(), runtime_.overlap_gradient_sync) +
                              exposed(forward, gather(), runtime_.overlap_parameter_gather);
      }
      return;
    case ShardingLevel::kGradients:
      // Gradients are kept in parts, so every micro-batch scatters its own; the
      // parameters are gathered once, after the optimizer's step.
      per_pass = exposed(backward, scatter(), runtime_.overlap_gradient_sync);
      cost.gradient_sync += gather();
      cost.backward += per_pass;
      break;
    case ShardingLevel::kParameters: {
      const Seconds in_forward =
          exposed(forward, gather(), runtime_.overlap_parameter_gather);
      const Seconds in_backward =
          exposed(backward, gather() + scatter(),
                  runtime_.overlap_parameter_gather && runtime_.overlap_gradient_sync);
      cost.forward += in_forward;
      cost.backward += in_backward;
      per_pass = in_forward + in_backward;
      break;
    }
  }
  cost.time[TimeItemKind::kShardedDataParallel] += per_pass;
}

Seconds CostModel::TiedTableSync(const LayerFootprint& footprint,
                                 int pipeline_parallel_degree) const {
  // Measured links are between groups of a strategy, not between first and last stage.
  if (!collectives_.has_fabric()) return Seconds();
  const int ranks = device_count_ / pipeline_parallel_degree;
  const double bytes = precision_ == Precision::kFp32 ? 4.0 : runtime_.gradient_bytes;
  return collectives_.Time(Collective::kAllReduce, {2, device_count_ - ranks},
                           static_cast<double>(footprint.largest_matrix_parameter_count) * bytes);
}

LayerCost CostModel::CostOfLayer(int definition_index, const Strategy& strategy,
                                 int64_t micro_batch_size, int pipeline_parallel_degree) const {
  const LayerSource& layer = layers_[definition_index];
  const LayerDefinition& definition = layer.definition();
  const int data = strategy.data_parallel_degree;
  PARPLAN_CHECK(micro_batch_size % data == 0);
  const double samples = static_cast<double>(micro_batch_size / data);

  LayerCost cost;
  const LayerPasses passes = layer.Passes(strategy, samples);
  const Seconds busy_backward = passes.backward + passes.recompute;
  cost.time[TimeItemKind::kForwardCompute] = passes.forward;
  cost.time[TimeItemKind::kBackwardCompute] = passes.backward;
  cost.time[TimeItemKind::kRecompute] = passes.recompute;

  const bool recomputes_all =
      strategy.recompute_level == RecomputeLevel::kFull && IsTransformer(definition.kind);
  const Exchange tensor =
      TensorParallel(definition, strategy, samples, passes.hiding_backward);
  const Exchange expert = ExpertParallel(definition, strategy, samples);
  Exchange context = ContextParallel(definition, strategy, samples);
  // Keys and values travel while attention works on those that are there.
  context.forward = OverlappedTime(passes.forward, context.forward, overlap_slowdown_) -
                    passes.forward;
  context.backward = OverlappedTime(passes.backward, context.backward, overlap_slowdown_) -
                     passes.backward;
  const auto add = [&](const Exchange& exchange, TimeItemKind kind) {
    const Seconds again = recomputes_all ? exchange.forward : Seconds();
    cost.time[kind] = exchange.forward + exchange.backward + again;
    cost.forward += exchange.forward;
    cost.backward += exchange.backward + again;
  };
  add(tensor, TimeItemKind::kTensorParallel);
  add(context, TimeItemKind::kContextParallel);
  add(expert, TimeItemKind::kExpertParallel);
  // The device waits where the host is slower, or for every kernel where the host waits
  // for it.
  const auto waits = [this](Seconds device, Seconds host) {
    return runtime_.blocking_launches ? host : std::max(Seconds(), host - device);
  };
  const Seconds forward_wait = waits(cost.forward + passes.forward, passes.forward_host);
  const Seconds backward_wait = waits(cost.backward + busy_backward, passes.backward_host);
  cost.time[TimeItemKind::kLaunch] = forward_wait + backward_wait;
  cost.forward += passes.forward + forward_wait;
  cost.backward += busy_backward + backward_wait;

  const LayerFootprint footprint = layer.Footprint(strategy, pipeline_parallel_degree);
  const GroupShape replicas = ReplicaGroup(strategy);
  AddDataParallel(static_cast<double>(footprint.parameter_count), replicas,
                  strategy.sharding_level, passes.forward, busy_backward, cost);
  if (footprint.expert_parameter_count > 0) {
    const int expert_degree = strategy.expert_parallel_degree;
    AddDataParallel(static_cast<double>(footprint.expert_parameter_count),
                    {replicas.participant_count / expert_degree,
                     replicas.rank_stride * expert_degree},
                    strategy.sharding_level, passes.forward, busy_backward, cost);
  }
  if (definition.tied_embedding && pipeline_parallel_degree > 1) {
    cost.gradient_sync += TiedTableSync(footprint, pipeline_parallel_degree);
  }
  if (device_.has_value()) {
    cost.optimizer_step = OptimizerStepTime(
        static_cast<double>(footprint.parameter_count + footprint.expert_parameter_count),
        strategy.sharding_level, replicas.participant_count, precision_, optimizer_, runtime_,
        *device_, coefficients_);
  }

  cost.memory =
      MemoryOfLayer(footprint, precision_, optimizer_, runtime_, strategy, samples);
  if (pipeline_parallel_degree > 1) {
    cost.message = Bytes::Ceil(MessageBytes(definition, strategy, samples));
  }
  return cost;
}

Seconds CostModel::TransitionTime(int definition_index, const Strategy& from, const Strategy& to,
                                  int64_t micro_batch_size) const {
  const bool same_layout = from.tensor_parallel_degree == to.tensor_parallel_degree &&
                           from.data_parallel_degree == to.data_parallel_degree &&
                           from.rank_order == to.rank_order;
  if (same_layout) return Seconds();
  const LayerDefinition& definition = layers_[definition_index].definition();
  // All ranks of a tensor-parallel group need the activations of its samples,
  // of which each holds a part.
  const auto gather = [&](const Strategy& strategy) {
    const double samples = static_cast<double>(micro_batch_size / strategy.data_parallel_degree);
    const double message = samples * definition.sequence_length * definition.hidden_size *
                           static_cast<double>(BytesPerElement(precision_));
    return collectives_.Time(Collective::kAllGather,
                             {strategy.tensor_parallel_degree, strategy.tensor_stride()}, message);
  };
  // Widening the group gathers activations in the forward pass, narrowing it
  // gathers their gradients in the backward pass; the other way ranks keep a
  // slice. Equal degrees on other ranks gather both ways.
  if (from.tensor_parallel_degree < to.tensor_parallel_degree) return gather(to);
  if (from.tensor_parallel_degree > to.tensor_parallel_degree) return gather(from);
  return gather(from) + gather(to);
}

double CostModel::MessageBytes(const LayerDefinition& definition, const Strategy& strategy,
                               double samples) const {
  const double message = samples * definition.sequence_length /
                         strategy.context_parallel_degree * definition.hidden_size *
                         ElementBytes();
  return strategy.sequence_parallel ? message / strategy.tensor_parallel_degree : message;
}

Seconds CostModel::SendTime(int definition_index, const Strategy& from, const Strategy& to,
                            int rank_count, int64_t micro_batch_size) const {
  const LayerDefinition& definition = layers_[definition_index].definition();
  const double samples = static_cast<double>(micro_batch_size / from.data_parallel_degree);
  const GroupShape pair{2, rank_count};
  const double message = MessageBytes(definition, from, samples);
  const Seconds reshard = TransitionTime(definition_index, from, to, micro_batch_size) * 0.5;
  const int tensor = from.tensor_parallel_degree;
  if (!runtime_.scattered_pipeline_messages || from.sequence_parallel || tensor == 1) {
    return collectives_.Time(Collective::kSendReceive, pair, message) + reshard;
  }
  return collectives_.Time(Collective::kSendReceive, pair, message / tensor) +
         collectives_.Time(Collective::kAllGather, {tensor, from.tensor_stride()}, message) +
         reshard;
}

}  // namespace parplan
