#include "planner/cost/layer_traffic.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "planner/cost/tensor_parallel_traffic.h"
#include "planner/cost/traffic_parts.h"
#include "planner/model/layer_precision.h"

namespace parplan {

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

Seconds LayerTraffic::Exposed(Seconds compute, Seconds communication, bool overlaps) const {
  if (!overlaps) return communication;
  return OverlappedTime(compute, communication, overlap_slowdown_) - compute;
}

bool LayerTraffic::KeepsTableWhole(const LayerDefinition& definition) const {
  return runtime_.whole_untied_tables && definition.kind == LayerKind::kEmbedding &&
         !SharesTable(definition);
}

}  // namespace parplan
