// The part of `LayerTraffic` that is about expert-parallel ranks.

#include "planner/cost/layer_traffic.h"

#include <algorithm>
#include <cmath>

#include "planner/cost/traffic_parts.h"

namespace parplan {
namespace {

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

}  // namespace parplan
