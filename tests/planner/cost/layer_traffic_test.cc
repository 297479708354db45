#include "planner/cost/layer_traffic.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "planner/cost/tensor_parallel_traffic.h"
#include "planner/model/coefficients.h"
#include "tests/planner/cost/small_problem.h"
#include "tests/support/estimated_problem.h"
#include "tests/support/valid.h"

namespace parplan {
namespace {

TEST(OverlappedTime, IsTheClosedFormOfThePaper) {
  EXPECT_DOUBLE_EQ(OverlappedTime(Seconds::Of(4.583), Seconds::Of(29.005), 1.3).value(),
                   29.005 + 0.3 * 4.583);
  EXPECT_EQ(OverlappedTime(Seconds::Of(2), Seconds(), 1.3), Seconds::Of(2));
}

// The decoder of the small problem: 2 tokens, hidden size 4, bf16.
TEST(LayerTraffic, MessagesAreTheOutputThatARankHas) {
  const CostModel costs = SmallCosts();
  const GroupCosts& group = costs.group(kFirstGroup);
  const LayerTraffic& traffic = group.traffic();
  const LayerDefinition& decoder = group.layer_source(kDecoder).definition();
  Strategy strategy = Degrees(2, 1);
  EXPECT_EQ(traffic.OutputBytes(decoder, strategy, 3.0), 3.0 * 16);
  EXPECT_EQ(traffic.MessageBytes(decoder, strategy, 3.0), 3.0 * 16);
  strategy.sequence_parallel = true;
  EXPECT_EQ(traffic.MessageBytes(decoder, strategy, 3.0), 3.0 * 8);
}

TEST(LayerTraffic, RanksThatShareNothingExchangeNothing) {
  const CostModel costs = SmallCosts();
  const GroupCosts& group = costs.group(kFirstGroup);
  const LayerTraffic& traffic = group.traffic();
  const LayerSource& source = group.layer_source(kDecoder);
  const Strategy alone = Degrees(1, 1);
  const LayerTraffic::DataExchange data =
      traffic.DataParallel(source.Footprint(alone, 1), alone, ShardingLevel::kNone);
  EXPECT_EQ(data.between_groups, Seconds());
  for (const LayerTraffic::Exchange& exchange :
       {traffic.TensorParallel(source.definition(), alone, 1.0, LayerPasses()),
        traffic.ContextParallel(source.definition(), alone, 1.0, LayerPasses()),
        traffic.ExpertParallel(source.definition(), alone, 1.0, LayerPasses()),
        LayerTraffic::Exchange(data)}) {
    EXPECT_EQ(exchange.forward, Seconds());
    EXPECT_EQ(exchange.backward, Seconds());
  }
}

// Eight A100 with layers of `precision`, changed by `change`.
template <typename Change>
CostModel QuantisedCosts(const RuntimeTraits& runtime, Precision precision, int expert_count,
                         const Change& change) {
  EstimatedOptions options;
  options.device_count = 8;
  options.decoder_count = 2;
  options.hidden_size = 1024;
  options.attention_head_count = 16;
  options.expert_count = expert_count;
  options.global_batch_size = 8;
  options.rules.runtime = runtime;
  const PlanningProblem plain = EstimatedProblem(options);
  std::vector<LayerDefinition> definitions = plain.model().layer_definitions();
  change(definitions[1]);
  const absl::StatusOr<ModelSpec> model = ModelSpec::Create(
      "quantised", definitions, plain.model().layer_runs(), precision, Optimizer::kAdam);
  Hardware hardware = *plain.hardware(kFirstGroup);
  hardware.device.matrix_flops_8_bit = 2.0 * hardware.device.matrix_flops_16_bit;
  const absl::StatusOr<PlanningProblem> problem = PlanningProblem::Create(
      std::make_shared<const ModelSpec>(*model), std::make_shared<const Topology>(plain.topology()),
      Knowledge{{{.hardware = std::make_shared<const Hardware>(hardware)}}},
      options.global_batch_size, options.rules);
  return *CostModel::Create(*problem);
}

// Eight A100 whose decoders are changed by `change`.
template <typename Change>
CostModel OverlappingCosts(TensorParallelOverlap overlap, const Change& change) {
  RuntimeTraits runtime = *FindRuntime("megatron-core");
  runtime.tensor_parallel_overlap = overlap;
  return QuantisedCosts(runtime, Precision::kBf16, 0, change);
}

// Products of 8 ms on four ranks: three of four parts, 6 ms, run beside the exchange. The gradients
// of the weights of maps split by columns, and as long those of their inputs, do as a whole.
TEST(LayerTraffic, SplitCollectivesAreWorkedByHand) {
  const CostModel costs =
      OverlappingCosts(TensorParallelOverlap::kProducts, [](LayerDefinition&) {});
  const GroupCosts& group = costs.group(kFirstGroup);
  const LayerTraffic& traffic = group.traffic();
  const LayerDefinition& decoder = group.layer_source(1).definition();
  const double slowdown = Coefficients("ampere")[Coefficient::kContention];
  Strategy strategy = Degrees(4, 2);
  strategy.sequence_parallel = true;
  const auto exposed = [&](double shade, double moving) {
    return std::max(shade, moving) + (slowdown - 1.0) * std::min(shade, moving) - shade;
  };
  // From messages that products hide to those that take longer.
  for (const double samples : {1.0, 64.0, 4096.0}) {
    LayerPasses passes;
    passes.splitting_forward = Seconds::Milliseconds(8);
    passes.splitting_backward = Seconds::Milliseconds(4);
    passes.hiding_backward = Seconds::Milliseconds(3);
    const PassCollectives calls = traffic.TensorCollectives(decoder, strategy, samples);
    const LayerTraffic::Exchange exchange =
        traffic.TensorParallel(decoder, strategy, samples, passes);
    const double forward = traffic.TimeOf(calls.forward).value();
    const double backward = traffic.TimeOf(calls.backward).value();
    EXPECT_NEAR(exchange.forward.value(), exposed(6e-3, forward), 1e-9 * forward);
    EXPECT_NEAR(exchange.backward.value(), exposed(2.0 * 3e-3 + 3e-3, backward), 1e-9 * backward);
    EXPECT_LE(exchange.repeated, exchange.forward);
    const LayerTraffic::Exchange alone =
        traffic.TensorParallel(decoder, strategy, samples, LayerPasses());
    EXPECT_EQ(alone.forward.value(), forward);
    EXPECT_EQ(alone.backward.value(), backward);
  }
}

TEST(LayerTraffic, MoreOverlapOfTensorParallelismIsNeverSlower) {
  using Overlap = TensorParallelOverlap;
  const auto cost = [](Overlap overlap, const auto& change, bool sequence_parallel) {
    const CostModel costs = OverlappingCosts(overlap, change);
    Strategy strategy = Degrees(4, 2);
    strategy.sequence_parallel = sequence_parallel;
    const LayerCost layer = costs.group(kFirstGroup).CostOfLayer(1, strategy, 8, 1);
    return layer.time[TimeItemKind::kTensorParallel];
  };
  const auto dense = [](LayerDefinition&) {};
  EXPECT_LT(cost(Overlap::kWeightGradients, dense, true), cost(Overlap::kNone, dense, true));
  EXPECT_LT(cost(Overlap::kProducts, dense, true), cost(Overlap::kWeightGradients, dense, true));
  // User buffers need sequence parallelism.
  EXPECT_EQ(cost(Overlap::kProducts, dense, false), cost(Overlap::kWeightGradients, dense, false));
  const auto frozen = [](LayerDefinition& layer) { layer.frozen = true; };
  EXPECT_EQ(cost(Overlap::kProducts, frozen, true), cost(Overlap::kWeightGradients, frozen, true));
}

// The decoder of the estimated problem: 1024 tokens of 16 heads of 64, keys and values, bf16. In a
// ring of four a rank has 256 tokens; forward there are three hops, backward three with keys and
// values and three with their gradients, which `parplan.torch` sums in 32 bits. Decoders with
// cross-attention have two rings.
TEST(LayerTraffic, GradientsInARingAreAsWideAsTheirSums) {
  Strategy strategy{.data_parallel_degree = 2};
  strategy.context_parallel_degree = 4;
  const double bytes = 3.0 * 256 * 2 * 1024 * 2;
  for (const auto& [runtime_id, widening] :
       {std::pair("megatron-core", 1.0), std::pair("torch", 2.0)}) {
    const PlanningProblem problem =
        EstimatedProblem({.device_count = 8,
                          .hidden_size = 1024,
                          .attention_head_count = 16,
                          .sequence_length = 1024,
                          .rules = {.allow_estimates = true, .runtime = *FindRuntime(runtime_id)}});
    const CostModel costs = Valid(CostModel::Create(problem));
    const GroupCosts& group = costs.group(kFirstGroup);
    LayerDefinition definition = group.layer_source(kDecoder).definition();
    for (const auto& [kind, rings] :
         {std::pair(LayerKind::kDecoder, 1.0), std::pair(LayerKind::kCrossDecoder, 2.0)}) {
      definition.kind = kind;
      const PassCollectives calls =
          group.traffic().ContextCollectives(definition, strategy, /*samples=*/3.0);
      const auto sum = [](const CollectiveList& list, double size) {
        double count = 0.0;
        for (const LayerCollective& call : list) {
          if (call.bytes == size) count += call.count;
        }
        return count;
      };
      const double hops = 3.0 * rings;
      EXPECT_EQ(sum(calls.forward, bytes), hops) << runtime_id;
      EXPECT_EQ(sum(calls.backward, bytes), widening == 1.0 ? 2.0 * hops : hops) << runtime_id;
      EXPECT_EQ(sum(calls.backward, 2.0 * bytes), widening == 1.0 ? 0.0 : hops) << runtime_id;
    }
  }
}

// Attention and feed-forward part each end with one sum, and begin with one in the backward pass;
// sequence parallelism has a scatter and a gather for each, and gathers each input once more.
TEST(TrafficOf, ADecoderHasTwoParts) {
  const CostModel costs = SmallCosts();
  const LayerDefinition& decoder = costs.group(kFirstGroup).layer_source(kDecoder).definition();
  const RuntimeTraits runtime;
  const TensorParallelTraffic whole = TrafficOf(decoder, /*sequence_parallel=*/false, runtime);
  EXPECT_EQ(whole.forward.all_reduces, 2);
  EXPECT_EQ(whole.backward.all_reduces, 2);
  EXPECT_EQ(whole.forward.gathers + whole.forward.scatters, 0);
  const TensorParallelTraffic split = TrafficOf(decoder, /*sequence_parallel=*/true, runtime);
  EXPECT_EQ(split.forward.all_reduces + split.backward.all_reduces, 0);
  EXPECT_EQ(split.forward.gathers, 2);
  EXPECT_EQ(split.forward.scatters, 2);
  EXPECT_EQ(split.backward.gathers, 4);
  EXPECT_EQ(split.backward.scatters, 2);
}

// Only the gradients of weights read the inputs again. A head's product has none left to gather.
TEST(TrafficOf, FrozenPartsGatherNoInputAgain) {
  LayerDefinition decoder = SmallCosts().group(kFirstGroup).layer_source(kDecoder).definition();
  const RuntimeTraits& runtime = *FindRuntime("megatron-core");
  decoder.frozen = true;
  EXPECT_EQ(TrafficOf(decoder, true, runtime).backward.gathers, 2);
  decoder.attention_adapter_rank = 2;
  EXPECT_EQ(TrafficOf(decoder, true, runtime).backward.gathers, 3);
  decoder.feed_forward_adapter_rank = 2;
  EXPECT_EQ(TrafficOf(decoder, true, runtime).backward.gathers, 4);
  EXPECT_EQ(TrafficOf(decoder, true, runtime).backward.scatters, 2);
  LayerDefinition head = decoder;
  head.kind = LayerKind::kHead;
  EXPECT_EQ(TrafficOf(head, true, runtime).backward.gathers, 0);
  EXPECT_EQ(TrafficOf(head, true, RuntimeTraits()).backward.gathers, 1);
}

// parplan.torch keeps what it gathered.
TEST(TrafficOf, TorchGathersNoInputAgain) {
  const CostModel costs = SmallCosts();
  const LayerDefinition& decoder = costs.group(kFirstGroup).layer_source(kDecoder).definition();
  const RuntimeTraits& runtime = *FindRuntime("torch");
  const TensorParallelTraffic split = TrafficOf(decoder, /*sequence_parallel=*/true, runtime);
  EXPECT_EQ(split.forward.gathers, 2);
  EXPECT_EQ(split.backward.gathers, 2);
  EXPECT_EQ(split.backward.scatters, 2);
}

// Sixteen A100 with a mixture of eight experts, two for each token.
CostModel ExpertCosts(const RuntimeTraits& runtime, double expert_imbalance = 1.0) {
  EstimatedOptions options;
  options.device_count = 16;
  options.decoder_count = 4;
  options.hidden_size = 1024;
  options.attention_head_count = 16;
  options.expert_count = 16;
  options.global_batch_size = 32;
  options.rules.runtime = runtime;
  const PlanningProblem plain = EstimatedProblem(options);
  Calibration::Content content;
  content.provenance.agent = "test";
  content.coefficient_values = {{Coefficient::kExpertImbalance, {}, expert_imbalance}};
  const absl::StatusOr<PlanningProblem> problem = PlanningProblem::Create(
      std::make_shared<const ModelSpec>(plain.model()),
      std::make_shared<const Topology>(plain.topology()),
      Knowledge{{{.hardware = std::make_shared<const Hardware>(*plain.hardware(kFirstGroup))}},
                std::make_shared<const Calibration>(*Calibration::Create(std::move(content)))},
      options.global_batch_size, options.rules);
  return *CostModel::Create(*problem);
}

LayerCost ExpertLayer(const RuntimeTraits& runtime, double expert_imbalance = 1.0) {
  const CostModel costs = ExpertCosts(runtime, expert_imbalance);
  Strategy strategy = Degrees(1, 16);
  strategy.expert_parallel_degree = 8;
  return costs.group(kFirstGroup).CostOfLayer(1, strategy, 32, 1);
}

// Two of eight ranks have a token's experts, but both experts are on one rank for one token in
// eight: 8 (1 - (7/8)^2) = 1.875 ranks. Sixteen ranks on two nodes: 2 (1 - 1/4) = 1.5 nodes,
// in which it is handed on to 16 (1 - (15/16)^2) = 1.9375 ranks.
TEST(LayerTraffic, ATokenTravelsOnceToANodeAndOnceToARank) {
  RuntimeTraits runtime;
  const CostModel each = ExpertCosts(runtime);
  runtime.expert_exchange = ExpertExchange::kOnceARank;
  const CostModel once = ExpertCosts(runtime);
  const auto calls = [](const CostModel& costs, int expert) {
    Strategy strategy = Degrees(1, 16);
    strategy.expert_parallel_degree = expert;
    const GroupCosts& group = costs.group(kFirstGroup);
    return group.traffic()
        .ExpertCollectives(group.layer_source(1).definition(), strategy, 2.0)
        .forward;
  };
  const double all = calls(each, 8).begin()->bytes;
  EXPECT_DOUBLE_EQ(calls(once, 8).begin()->bytes / all, 1.875 / 2.0);
  const CollectiveList two_nodes = calls(once, 16);
  const LayerCollective* const between = two_nodes.begin();
  EXPECT_EQ(between->group, (GroupShape{2, 8}));
  EXPECT_DOUBLE_EQ(between->bytes / all, 1.5 / 2.0);
  const LayerCollective* const inside = between + 1;
  EXPECT_EQ(inside->group, (GroupShape{8, 1}));
  EXPECT_DOUBLE_EQ(inside->bytes / all, 1.9375 / 2.0);
}

double GatheredBytes(const CollectiveList& calls) {
  double bytes = 0.0;
  for (const LayerCollective& call : calls) {
    if (call.collective == Collective::kAllGather) bytes += call.bytes * call.count;
  }
  return bytes;
}

// Experts that a recipe leaves in 16 bits are gathered in 16 bits, those it quantises in 8.
TEST(LayerTraffic, WideExpertsAreGatheredWide) {
  const auto gathered = [](Precision precision, bool is_wide) {
    const CostModel costs =
        QuantisedCosts(*FindRuntime("torchtitan"), precision, 16,
                       [&](LayerDefinition& layer) { layer.wide_products = is_wide; });
    const GroupCosts& group = costs.group(kFirstGroup);
    const Strategy strategy = Degrees(1, 8);
    return GatheredBytes(group.traffic()
                             .DataCollectives(group.layer_source(1).Footprint(strategy, 1),
                                              strategy, ShardingLevel::kParameters)
                             .forward);
  };
  const double bf16 = gathered(Precision::kBf16, false);
  EXPECT_EQ(gathered(Precision::kFp8Current, true), bf16);
  EXPECT_LT(gathered(Precision::kFp8Current, false), 0.51 * bf16);
  EXPECT_EQ(gathered(Precision::kFp8Rowwise, false), bf16);
}

// Each of eight ranks has an expert that no other rank has: the gather of a frozen layer is that of
// a trained one.
TEST(LayerTraffic, FrozenExpertsAreGatheredByTheRanksThatHaveThem) {
  for (const int expert : {1, 4, 8}) {
    const auto gathered = [expert](bool is_frozen) {
      const CostModel costs =
          QuantisedCosts(*FindRuntime("torchtitan"), Precision::kFp8Current, 8,
                         [&](LayerDefinition& layer) { layer.frozen = is_frozen; });
      const GroupCosts& group = costs.group(kFirstGroup);
      Strategy strategy = Degrees(1, 8);
      strategy.expert_parallel_degree = expert;
      return GatheredBytes(group.traffic()
                               .DataCollectives(group.layer_source(1).Footprint(strategy, 1),
                                                strategy, ShardingLevel::kParameters)
                               .forward);
    };
    EXPECT_DOUBLE_EQ(gathered(true), gathered(false)) << expert;
  }
}

// Inputs of quantised maps travel in 8 bits, and once more if their module is made again; not the
// tokens of experts, and with scales of rows none.
TEST(LayerTraffic, OnlyInputsOfQuantisedMapsAreGatheredNarrow) {
  const auto gathered = [](Precision precision, int expert_count, bool again) {
    const CostModel costs = QuantisedCosts(*FindRuntime("megatron-core"), precision, expert_count,
                                           [](LayerDefinition&) {});
    const GroupCosts& group = costs.group(kFirstGroup);
    const LayerDefinition& layer = group.layer_source(1).definition();
    Strategy strategy = Degrees(8, 1);
    strategy.sequence_parallel = true;
    if (!again) return GatheredBytes(group.traffic().TensorCollectives(layer, strategy, 1).forward);
    const RecomputeModule module =
        expert_count > 0 ? RecomputeModule::kExperts : RecomputeModule::kFeedForward;
    return GatheredBytes(group.traffic().ModuleCollectives(
        layer, strategy, 1, *RecomputeModules::Create({module}, "modules")));
  };
  for (const int expert_count : {0, 16}) {
    const double narrow_share = expert_count > 0 ? 0.75 : 0.5;
    EXPECT_DOUBLE_EQ(gathered(Precision::kFp8Current, expert_count, false),
                     narrow_share * gathered(Precision::kBf16, expert_count, false));
    EXPECT_EQ(gathered(Precision::kFp8Rowwise, expert_count, false),
              gathered(Precision::kBf16, expert_count, false));
    EXPECT_DOUBLE_EQ(
        gathered(Precision::kFp8Current, expert_count, true),
        (expert_count > 0 ? 1.0 : 0.5) * gathered(Precision::kBf16, expert_count, true));
  }
}

TEST(LayerTraffic, ExchangesThatOverlapAreNeverSlower) {
  RuntimeTraits runtime;
  // Otherwise a pass takes as long as the host launches its kernels.
  runtime.eager = false;
  const LayerCost exposed = ExpertLayer(runtime);
  runtime.overlap_expert_exchange = true;
  const LayerCost hidden = ExpertLayer(runtime);
  EXPECT_LT(hidden.forward, exposed.forward);
  EXPECT_LT(hidden.backward, exposed.backward);
  EXPECT_EQ(hidden.time[TimeItemKind::kForwardCompute],
            exposed.time[TimeItemKind::kForwardCompute]);
}

TEST(LayerTraffic, MoreImbalanceIsNeverFaster) {
  Seconds last;
  for (const double imbalance : {1.0, 1.05, 1.3, 2.0, 4.0}) {
    const LayerCost cost = ExpertLayer(RuntimeTraits(), imbalance);
    EXPECT_GT(cost.forward + cost.backward, last) << imbalance;
    last = cost.forward + cost.backward;
  }
}

TEST(LayerTraffic, AKernelForEachExpertIsNeverFaster) {
  RuntimeTraits runtime;
  const LayerCost grouped = ExpertLayer(runtime);
  runtime.launches_each_expert = true;
  EXPECT_GE(ExpertLayer(runtime).forward, grouped.forward);
}

}  // namespace
}  // namespace parplan
