// The part of `LayerTraffic` that is about context-parallel ranks.

#include "planner/cost/layer_traffic.h"

#include <algorithm>
#include <cstdint>

#include "planner/cost/traffic_parts.h"
#include "planner/model/layer_matrices.h"

namespace parplan {

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
  if (recomputation.level == RecomputeLevel::kSelective &&
      runtime_.selective_recompute == SelectiveRecompute::kOperators) {
    return true;
  }
  return strategy.context_kind != ContextKind::kUlysses && runtime_.RepeatsCoreAttention();
}

}  // namespace parplan
