#include "planner/cost/layer_traffic.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "planner/cost/tensor_parallel_traffic.h"
#include "planner/model/layer_matrices.h"
#include "planner/model/layer_precision.h"

namespace parplan {
namespace {

// Numbers of experts and of tokens, as PyTorch's int64.
constexpr double kNumberBytes = 8.0;
// Gradients that are summed in 32 bits.
constexpr double kGradientBytes = 4.0;

// Returns the group of ranks with the same parameters: data- and context-parallel ones together.
GroupShape ReplicaGroup(const Strategy& strategy) {
  const bool tensor_inner = strategy.rank_order == RankOrder::kTensorInnermost;
  return {strategy.data_parallel_degree * strategy.context_parallel_degree,
          tensor_inner ? strategy.tensor_parallel_degree : 1};
}

// Returns how many of `rank_count` ranks a token's `experts` are on, on average, if it chooses each
// of them with equal probability.
double RanksOfToken(int experts, int rank_count) {
  return rank_count * (1.0 - std::pow(1.0 - 1.0 / rank_count, experts));
}

// Returns the exchanges with the experts of `group` that send a token once to a rank. A token
// leaves its node once for each other node that has some of its experts, and is handed on inside of
// that; backward the gradients come the same way. `message` has a copy of each token for each of
// its experts.
PassCollectives OnceARank(int experts_per_token, const GroupShape& group, int devices_per_node,
                          double message) {
  PassCollectives calls;
  const auto add = [&](const GroupShape& part, int target_count) {
    const double bytes =
        message * RanksOfToken(experts_per_token, target_count) / experts_per_token;
    calls.forward.Add(Collective::kAllToAll, part, bytes, 2);
    calls.backward.Add(Collective::kAllToAll, part, bytes, 2);
  };
  const int ranks = std::max(1, devices_per_node / group.rank_stride);
  if (group.participant_count <= ranks || group.participant_count % ranks != 0 ||
      devices_per_node % group.rank_stride != 0) {
    add(group, group.participant_count);
    return calls;
  }
  const int nodes = group.participant_count / ranks;
  add({nodes, group.rank_stride * ranks}, nodes);
  // Inside its node a token is handed on for each rank that it reaches there, on whichever node.
  if (ranks > 1) add({ranks, group.rank_stride}, group.participant_count);
  return calls;
}

}  // namespace

Seconds OverlappedTime(Seconds compute, Seconds communication, double slowdown) {
  return std::max(compute, communication) + std::min(compute, communication) * (slowdown - 1.0);
}

LayerTraffic::LayerTraffic(const PlanningProblem& problem, GroupIndex group,
                           CollectiveCosts collectives, double overlap_slowdown,
                           double expert_imbalance)
    : precision_(problem.model().precision()),
      runtime_(problem.rules().runtime),
      device_count_(problem.device_count()),
      devices_per_node_(problem.node_group(group).devices_per_node),
      overlap_slowdown_(overlap_slowdown),
      expert_imbalance_(expert_imbalance),
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

Seconds LayerTraffic::TimeOf(const CollectiveList& calls) const {
  Seconds sum;
  for (const LayerCollective& call : calls) {
    sum += collectives_.Time(call.collective, call.group, call.bytes) * call.count;
  }
  return sum;
}

LayerTraffic::Exchange LayerTraffic::ExchangeOf(const PassCollectives& calls) const {
  Exchange exchange;
  for (const LayerCollective& call : calls.forward) {
    const Seconds time = collectives_.Time(call.collective, call.group, call.bytes);
    exchange.forward += time * call.count;
    exchange.repeated += time * call.repeated;
  }
  exchange.backward = TimeOf(calls.backward);
  return exchange;
}

double LayerTraffic::GatheredShare(const LayerDefinition& definition) const {
  const std::optional<Quantisation> quantisation = QuantisationOf(definition, precision_);
  return quantisation.has_value() && quantisation->gathers_inputs
             ? quantisation->operand_bytes / ElementBytes()
             : 1.0;
}

PassCollectives LayerTraffic::TensorCollectives(const LayerDefinition& definition,
                                                const Strategy& strategy, double samples) const {
  PassCollectives calls;
  const int tensor = strategy.tensor_parallel_degree;
  if (tensor == 1 || KeepsTableWhole(definition)) return calls;
  const GroupShape group{tensor, strategy.tensor_stride()};
  if (definition.kind == LayerKind::kOpaque) {
    // Its exchanges are given with it.
    const OpaqueTensorDegree part = OpaquePart(definition, tensor);
    if (part.all_reduce_bytes_per_sample == 0) return calls;
    const double bytes = samples * static_cast<double>(part.all_reduce_bytes_per_sample);
    calls.forward.Add(Collective::kAllReduce, group, bytes, part.forward_all_reduce_count);
    calls.backward.Add(Collective::kAllReduce, group, bytes, part.backward_all_reduce_count);
    return calls;
  }
  const double message = OutputBytes(definition, strategy, samples);
  const TensorParallelTraffic traffic =
      TrafficOf(definition, strategy.sequence_parallel, runtime_,
                /*experts_apart=*/strategy.expert_tensor_parallel_degree > 0);
  const double inner_message = message / definition.hidden_size * traffic.inner_width;
  // The last exchange of a transformer layer is a sum.
  const double kept = IsTransformer(definition.kind) && !runtime_.repeats_last_sum ? 1.0 : 0.0;
  const double gathered = GatheredShare(definition);
  const auto add = [&](const PassTraffic& pass, double bytes, double not_repeated,
                       CollectiveList& list) {
    list.Add(Collective::kAllReduce, group, bytes, pass.all_reduces, not_repeated);
    list.Add(Collective::kAllGather, group, bytes * gathered, pass.gathers - pass.wide_gathers);
    list.Add(Collective::kAllGather, group, bytes, pass.wide_gathers);
    list.Add(Collective::kReduceScatter, group, bytes, pass.scatters, not_repeated);
  };
  add(traffic.forward, message, kept, calls.forward);
  add(traffic.inner_forward, inner_message, 0.0, calls.forward);
  add(traffic.backward, message, 0.0, calls.backward);
  add(traffic.inner_backward, inner_message, 0.0, calls.backward);
  const double tokens = samples * definition.sequence_length / strategy.context_parallel_degree;
  if (definition.kind == LayerKind::kHead) {
    // The largest logit, the sum and the label's logit of every token, in 32 bits.
    const double words = 4.0 * tokens * (1 + definition.further_token_count);
    if (runtime_.gathers_logits) {
      calls.forward.Add(Collective::kAllGather, group,
                        tokens * (1 + definition.further_token_count) * definition.vocabulary_size *
                            ElementBytes(),
                        1);
    } else if (runtime_.logits_in_backward_pass) {
      calls.backward.Add(Collective::kAllReduce, group, words, 1);
      calls.backward.Add(Collective::kAllReduce, group, 2.0 * words, 1);
    } else {
      calls.forward.Add(Collective::kAllReduce, group, words, 3);
    }
  }
  if (definition.has_experts() && runtime_.expert_exchange == ExpertExchange::kRows) {
    // Each rank has a summand of what the experts return, so also of the gradient of a weight.
    const double choices = tokens * definition.experts_per_token;
    const double weights = choices * ElementBytes();
    if (strategy.sequence_parallel) {
      calls.forward.Add(Collective::kAllGather, group, choices * kNumberBytes, 1);
      calls.forward.Add(Collective::kAllGather, group, weights, 1);
      calls.backward.Add(Collective::kReduceScatter, group, weights, 1);
    } else {
      calls.backward.Add(Collective::kAllReduce, group, weights, 1);
    }
  }
  return calls;
}

bool LayerTraffic::SplitsCollectives(const LayerDefinition& definition,
                                     const Strategy& strategy) const {
  return runtime_.tensor_parallel_overlap == TensorParallelOverlap::kProducts &&
         strategy.tensor_parallel_degree > 1 && strategy.sequence_parallel &&
         IsTransformer(definition.kind) && !definition.frozen && !definition.has_experts() &&
         !definition.latent_attention.has_value() && !definition.state_space.has_value() &&
         definition.prediction_depth == 0;
}

// The traffic is exposed, since the next product waits for it, but for the part that the runtime
// hides behind the gradients of weights (Korthikanti et al., 4.2.2) or splits.
LayerTraffic::Exchange LayerTraffic::TensorParallel(const LayerDefinition& definition,
                                                    const Strategy& strategy, double samples,
                                                    const LayerPasses& passes) const {
  Exchange exchange = ExchangeOf(TensorCollectives(definition, strategy, samples));
  const int tensor = strategy.tensor_parallel_degree;
  if (SplitsCollectives(definition, strategy)) {
    // A product begins with the part of its own rank, or ends with it: of as many parts as ranks
    // all but one run beside a message.
    const double beside = (tensor - 1.0) / tensor;
    const auto exposed = [this](Seconds shade, Seconds moving) {
      return OverlappedTime(shade, moving, overlap_slowdown_) - shade;
    };
    const Seconds forward = passes.splitting_forward * beside;
    exchange.forward = exposed(forward, exchange.forward);
    exchange.repeated = exposed(forward, exchange.repeated);
    exchange.backward = exposed(passes.hiding_backward * 2.0 + passes.splitting_backward * beside,
                                exchange.backward);
    return exchange;
  }
  if (tensor > 1 && runtime_.tensor_parallel_overlap != TensorParallelOverlap::kNone &&
      IsTransformer(definition.kind)) {
    // One all-reduce of each part; with sequence parallelism a gather and a scatter.
    const TensorParallelTraffic traffic =
        TrafficOf(definition, strategy.sequence_parallel, runtime_,
                  /*experts_apart=*/strategy.expert_tensor_parallel_degree > 0);
    const GroupShape group{tensor, strategy.tensor_stride()};
    const double message = OutputBytes(definition, strategy, samples);
    CollectiveList calls;
    for (const auto& [pass, bytes] :
         {std::pair(traffic.hidden, message),
          std::pair(traffic.inner_hidden,
                    message / definition.hidden_size * traffic.inner_width)}) {
      calls.Add(Collective::kAllReduce, group, bytes, pass.all_reduces);
      calls.Add(Collective::kAllGather, group, bytes * GatheredShare(definition),
                pass.gathers - pass.wide_gathers);
      calls.Add(Collective::kAllGather, group, bytes, pass.wide_gathers);
      calls.Add(Collective::kReduceScatter, group, bytes, pass.scatters);
    }
    const Seconds hidden = TimeOf(calls);
    const Seconds shade = passes.hiding_backward * (strategy.sequence_parallel ? 2.0 : 1.0);
    exchange.backward =
        exchange.backward - hidden + OverlappedTime(shade, hidden, overlap_slowdown_) - shade;
  }
  return exchange;
}

// After the projection every rank exchanges its tokens of the other heads for all tokens of its own
// heads, and after attention back: queries, keys, values and output, and the gradients of each
// (DeepSpeed-Ulysses, arXiv 2309.14509, section 3). No computation overlaps the exchange.
void LayerTraffic::AddHeadExchange(const LayerDefinition& definition, const Strategy& strategy,
                                   double samples, PassCollectives& calls) const {
  const GroupShape group{strategy.head_exchange_degree(), strategy.context_stride()};
  const AttentionWidths widths = AttentionWidthsOf(definition);
  const double tokens = samples * definition.sequence_length / strategy.context_parallel_degree;
  const double attention_count = AttentionBlockCount(definition.kind);
  const auto add = [&](int64_t head_count, int64_t head_size) {
    const double bytes_a_head =
        tokens * head_size * ElementBytes() / strategy.tensor_parallel_degree;
    for (CollectiveList* list : {&calls.forward, &calls.backward}) {
      list->Add(Collective::kAllToAll, group, bytes_a_head * head_count, attention_count);
    }
  };
  const int heads = definition.attention_head_count;
  const int key_value_heads = definition.key_value_head_count;
  add(heads, widths.key_head);
  add(heads, widths.value_head);
  add(key_value_heads, widths.key_head);
  add(key_value_heads, widths.value_head);
}

// In ring attention every rank receives the keys and values of all others, one after the other, and
// in the backward pass their gradients too, in a message of its own. The ring is as fast as its
// slowest link. Keys and values travel while attention works on those already there, except for the
// last ones. All of them travel also where a window reads only some: rings of today's programs do
// not skip hops.
PassCollectives LayerTraffic::RingCollectives(const LayerDefinition& definition,
                                              const Strategy& strategy, double samples) const {
  PassCollectives calls;
  const int exchange = strategy.context_exchange_degree;
  const int ring = strategy.context_parallel_degree / exchange;
  const GroupShape group{ring, strategy.context_stride() * exchange};
  const AttentionWidths widths = AttentionWidthsOf(definition);
  const int heads =
      std::max(1, definition.key_value_head_count / (strategy.tensor_parallel_degree * exchange));
  const double elements =
      samples * definition.sequence_length / ring * (widths.key_head + widths.value_head) * heads;
  const double keys_and_values = elements * ElementBytes();
  const double gradients =
      runtime_.widens_ring_gradients ? elements * kGradientBytes : keys_and_values;
  // A decoder with cross-attention has two rings, one for each of its attentions.
  const double hops = (ring - 1) * AttentionBlockCount(definition.kind);
  calls.forward.Add(Collective::kSendReceive, group, keys_and_values, hops);
  if (gradients == keys_and_values) {
    calls.backward.Add(Collective::kSendReceive, group, keys_and_values, 2.0 * hops);
  } else {
    calls.backward.Add(Collective::kSendReceive, group, keys_and_values, hops);
    calls.backward.Add(Collective::kSendReceive, group, gradients, hops);
  }
  return calls;
}

// Keys and values of all tokens are gathered before attention in both passes, and the sums of their
// gradients are divided behind it (Transformer Engine, AttnFuncWithCPAndKVAllGather). Attention
// waits for all of it.
PassCollectives LayerTraffic::GatherCollectives(const LayerDefinition& definition,
                                                const Strategy& strategy, double samples) const {
  PassCollectives calls;
  const GroupShape group{strategy.context_parallel_degree, strategy.context_stride()};
  const AttentionWidths widths = AttentionWidthsOf(definition);
  const int heads = std::max(1, definition.key_value_head_count / strategy.tensor_parallel_degree);
  const double attention_count = AttentionBlockCount(definition.kind);
  for (const int64_t width : {widths.key_head, widths.value_head}) {
    const double all =
        samples * definition.sequence_length * static_cast<double>(width) * heads * ElementBytes();
    calls.forward.Add(Collective::kAllGather, group, all, attention_count);
    calls.backward.Add(Collective::kAllGather, group, all, attention_count);
    calls.backward.Add(Collective::kReduceScatter, group, all, attention_count);
  }
  return calls;
}

PassCollectives LayerTraffic::ContextCollectives(const LayerDefinition& definition,
                                                 const Strategy& strategy, double samples) const {
  if (strategy.context_parallel_degree == 1 || !HasAttention(definition.kind)) return {};
  PassCollectives calls;
  switch (strategy.context_kind) {
    case ContextKind::kUlysses:
      break;
    case ContextKind::kAllGather:
      return GatherCollectives(definition, strategy, samples);
    case ContextKind::kRing:
      calls = RingCollectives(definition, strategy, samples);
      break;
  }
  AddHeadExchange(definition, strategy, samples, calls);
  return calls;
}

LayerTraffic::Exchange LayerTraffic::ContextParallel(const LayerDefinition& definition,
                                                     const Strategy& strategy, double samples,
                                                     const LayerPasses& passes) const {
  const int context = strategy.context_parallel_degree;
  if (context == 1 || strategy.context_kind != ContextKind::kRing ||
      !HasAttention(definition.kind)) {
    return ExchangeOf(ContextCollectives(definition, strategy, samples));
  }
  Exchange exchange = ExchangeOf(RingCollectives(definition, strategy, samples));
  const double ring = static_cast<double>(context) / strategy.context_exchange_degree;
  const double beside = (ring - 1.0) / ring;
  exchange.forward = Exposed(passes.forward_attention * beside, exchange.forward,
                             /*overlaps=*/true);
  exchange.backward = Exposed(passes.backward_attention * beside, exchange.backward,
                              /*overlaps=*/true);
  if (strategy.context_exchange_degree > 1) {
    PassCollectives calls;
    AddHeadExchange(definition, strategy, samples, calls);
    const Exchange around = ExchangeOf(calls);
    exchange.forward += around.forward;
    exchange.backward += around.backward;
  }
  exchange.repeated = exchange.forward;
  return exchange;
}

// Repeated attention, also by selective recomputation, needs the keys and values of other ranks
// again. Ulysses keeps them as attention reads them, unless the operators before are repeated.
bool LayerTraffic::RepeatsContext(const Strategy& strategy,
                                  const Recomputation& recomputation) const {
  if (recomputation.level == RecomputeLevel::kFull) return true;
  if (recomputation.level != RecomputeLevel::kSelective &&
      !recomputation.modules.has(RecomputeModule::kCoreAttention)) {
    return false;
  }
  if (runtime_.selective_recompute == SelectiveRecompute::kOperators) return true;
  return strategy.context_kind != ContextKind::kUlysses && runtime_.RepeatsCoreAttention();
}

// Tokens go to their experts and come back, forward and backward. Ranks that share an expert gather
// the tokens of all of them, and sum up what comes out, if the layer's tensor-parallel ranks do not
// do so already.
PassCollectives LayerTraffic::ExpertCollectives(const LayerDefinition& definition,
                                                const Strategy& strategy, double samples) const {
  PassCollectives calls;
  const int expert = strategy.expert_parallel_degree;
  const int own_tensor = strategy.expert_tensor_parallel_degree;
  if (own_tensor > 1 && definition.has_experts()) {
    // Behind their dispatch: a copy of a token for each of its experts (Megatron Core,
    // token_dispatcher.py, MoEAlltoAllTokenDispatcher).
    const double output = OutputBytes(definition, strategy, samples);
    const double token = definition.expert_latent_size > 0
                             ? output * definition.expert_latent_size / definition.hidden_size
                             : output;
    const double gathered = token * definition.experts_per_token * expert_imbalance_ * own_tensor /
                            strategy.tensor_parallel_degree;
    for (CollectiveList* const list : {&calls.forward, &calls.backward}) {
      list->Add(Collective::kAllGather, {own_tensor, 1}, gathered, 1);
      list->Add(Collective::kReduceScatter, {own_tensor, 1}, gathered, 1);
    }
  }
  if (expert == 1 || definition.expert_count == 0) return calls;
  const GroupShape group{expert, own_tensor > 0 ? own_tensor : ReplicaGroup(strategy).rank_stride};
  double message = samples * definition.sequence_length / strategy.context_parallel_degree *
                   definition.expert_width() * definition.experts_per_token * ElementBytes() *
                   expert_imbalance_;
  if (runtime_.expert_exchange == ExpertExchange::kOnceARank) {
    return OnceARank(
        definition.experts_per_token, group, devices_per_node_,
        strategy.sequence_parallel ? message / strategy.tensor_parallel_degree : message);
  }
  if (runtime_.expert_exchange == ExpertExchange::kRows) {
    const double choices = samples * definition.sequence_length / strategy.context_parallel_degree *
                           definition.experts_per_token;
    calls.forward.Add(Collective::kAllToAll, group, expert * kNumberBytes, 1);
    calls.forward.Add(Collective::kAllToAll, group, choices * kNumberBytes, 1);
  } else if (strategy.sequence_parallel) {
    message /= strategy.tensor_parallel_degree;
  }
  calls.forward.Add(Collective::kAllToAll, group, message, 2);
  calls.backward.Add(Collective::kAllToAll, group, message, 2);
  return calls;
}

LayerTraffic::Exchange LayerTraffic::ExpertParallel(const LayerDefinition& definition,
                                                    const Strategy& strategy, double samples,
                                                    const LayerPasses& passes) const {
  Exchange exchange = ExchangeOf(ExpertCollectives(definition, strategy, samples));
  if (!runtime_.overlap_expert_exchange) return exchange;
  exchange.forward = Exposed(passes.forward, exchange.forward, /*overlaps=*/true);
  exchange.backward = Exposed(passes.backward, exchange.backward, /*overlaps=*/true);
  exchange.repeated = exchange.forward;
  return exchange;
}

Seconds LayerTraffic::Exposed(Seconds compute, Seconds communication, bool overlaps) const {
  if (!overlaps) return communication;
  return OverlappedTime(compute, communication, overlap_slowdown_) - compute;
}

// Layers smaller than a bucket share a message with others.
void LayerTraffic::AddBuckets(Collective collective, const GroupShape& group, double bytes,
                              bool in_buckets, CollectiveList& calls) const {
  const double bucket = runtime_.gradient_bucket.as_double();
  if (!in_buckets || bytes >= bucket) {
    calls.Add(collective, group, bytes, 1);
  } else {
    calls.Add(collective, group, bucket, bytes / bucket);
  }
}

// Gradients are reduced once per step; sharded parameters are gathered for every pass.
PassCollectives LayerTraffic::DataCollectives(const LayerFootprint& footprint,
                                              const Strategy& strategy, ShardingLevel level) const {
  PassCollectives calls;
  if (runtime_.shards_tied_ends_as_one && footprint.kind == LayerKind::kHead &&
      footprint.borrowed_parameter_count > 0 && level != ShardingLevel::kNone) {
    return calls;
  }
  const GroupShape replicas = ReplicaGroup(strategy);
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
    AddBuckets(all_reduces ? Collective::kAllReduce : Collective::kReduceScatter, part.group,
               count * gradient_bytes, in_buckets, calls.backward);
    if (level == ShardingLevel::kNone) continue;
    AddBuckets(Collective::kAllGather, part.group, weight_bytes(part), in_buckets, calls.forward);
  }
  if (!is_frozen || level != ShardingLevel::kParameters) return calls;
  const Part frozen[] = {
      {footprint.frozen_parameter_count, footprint.quantised_parameter_count, replicas},
      {footprint.frozen_expert_parameter_count, footprint.quantised_expert_parameter_count,
       expert_replicas}};
  for (const Part& part : frozen) {
    if (part.parameter_count == 0 || part.group.participant_count <= 1) continue;
    calls.forward.Add(Collective::kAllGather, part.group, weight_bytes(part), 1);
  }
  return calls;
}

LayerTraffic::Exchange LayerTraffic::DataParallel(const LayerFootprint& footprint,
                                                  const Strategy& strategy,
                                                  ShardingLevel level) const {
  return ExchangeOf(DataCollectives(footprint, strategy, level));
}

// Ranks of sequence parallelism see some tokens each, so each has a part of the gradients of what
// they all have.
CollectiveList LayerTraffic::PartialGradientCollectives(const LayerDefinition& definition,
                                                        const Strategy& strategy) const {
  CollectiveList calls;
  if (!runtime_.sums_partial_gradients || !strategy.sequence_parallel) return calls;
  int64_t whole = int64_t{NormCount(definition)} * definition.hidden_size;
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

void LayerTraffic::AddDataParallel(LayerKind kind, const Exchange& exchange, ShardingLevel level,
                                   bool has_pipeline, Seconds forward, Seconds backward,
                                   LayerCost& cost) const {
  const Seconds gather = exchange.forward;
  const Seconds reduce = exchange.backward;
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
