#include "planner/cost/layer_source.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "planner/cost/activation_tensors.h"
#include "planner/cost/slowest_device.h"
#include "planner/model/measured_runtime.h"
#include "tests/planner/cost/hardware_of_tests.h"

namespace parplan {
namespace {

constexpr int kDevices = 8;

// A decoder and a head with a tied table, on eight devices.
struct World {
  LayerDefinition decoder = TestDecoder(1024, 16, 512);
  LayerDefinition head;
  // Measurements of the decoder; the other layers have none.
  std::vector<LayerTimingPoint> timings;
  std::vector<LayerMemoryPoint> memories;
  bool measured_head = false;
  bool has_hardware = true;
  std::vector<CoefficientValue> coefficients;
  PlanningRules rules = {.allow_estimates = true};

  World() {
    head.layer_definition_id = "head";
    head.kind = LayerKind::kHead;
    head.hidden_size = 1024;
    head.sequence_length = 512;
    head.vocabulary_size = 12800;
    head.tied_embedding = true;
    head = *LayerDefinition::Create(head, "head");
  }

  PlanningProblem Problem() const {
    LayerDefinition embedding = head;
    embedding.layer_definition_id = "embedding";
    embedding.kind = LayerKind::kEmbedding;
    embedding.tied_embedding = false;
    embedding.parameter_count = 0;
    embedding = *LayerDefinition::Create(embedding, "embedding");
    const auto model = std::make_shared<const ModelSpec>(
        *ModelSpec::Create("model", {embedding, decoder, head}, {{0, 1}, {1, 8}, {2, 1}},
                           Precision::kBf16, Optimizer::kAdam));
    NodeGroup group{.node_group_id = "nodes",
                    .device_kind = "a100",
                    .node_count = 1,
                    .devices_per_node = kDevices,
                    .device_memory = Bytes::Of(80'000'000'000)};
    const auto topology = std::make_shared<const Topology>(
        *Topology::Create("cluster", {group}, {{"node", kDevices}}));
    ProfileSnapshot::Content content;
    content.digest = "profile";
    content.device_kind = "a100";
    content.devices_per_node = kDevices;
    if (!timings.empty() || !memories.empty()) {
      content.layers.push_back({decoder, Precision::kBf16, timings, memories});
    }
    if (measured_head) {
      content.layers.push_back(
          {head,
           Precision::kBf16,
           {{1, 1, 512, Seconds::Milliseconds(1), Seconds::Milliseconds(2), Origin::kMeasured}},
           {{1, false, 512, 1024, Bytes::Of(100), Bytes::Of(50), Origin::kMeasured}}});
    }
    Knowledge knowledge;
    GroupKnowledge& known = knowledge.groups.emplace_back();
    known.profile =
        std::make_shared<const ProfileSnapshot>(*ProfileSnapshot::Create(std::move(content)));
    if (has_hardware) {
      known.hardware = std::make_shared<const Hardware>(Hardware{TestDevice(), TestFabric(8)});
    }
    Calibration::Content calibration;
    calibration.provenance.agent = "test 1";
    calibration.coefficient_values = coefficients;
    knowledge.calibration =
        std::make_shared<const Calibration>(*Calibration::Create(std::move(calibration)));
    return *PlanningProblem::Create(model, topology, knowledge, 64, rules);
  }

  LayerSource Resolve(const LayerDefinition& definition, ResolutionNotes& notes) const {
    LayerNeeds needs;
    needs.tensor_parallel_degrees = {1, 2};
    needs.allow_estimates = rules.allow_estimates;
    return LayerSource::Resolve(Problem(), kFirstGroup, definition, needs, notes);
  }
  LayerSource Resolve(const LayerDefinition& definition) const {
    ResolutionNotes notes;
    return Resolve(definition, notes);
  }
};

LayerTimingPoint Timing(int degree, int samples, double forward_ms, double backward_ms) {
  return {degree,
          samples,
          512,
          Seconds::Milliseconds(forward_ms),
          Seconds::Milliseconds(backward_ms),
          Origin::kMeasured};
}

World MeasuredWorld() {
  World world;
  for (const int degree : {1, 2}) {
    for (const int samples : {1, 4}) {
      world.timings.push_back(
          Timing(degree, samples, 4.0 * samples / degree, 8.0 * samples / degree));
    }
    world.memories.push_back({degree, false, 512, 1000 / degree, Bytes::Of(6000 / degree),
                              Bytes::Of(600), Origin::kMeasured});
  }
  return world;
}

Strategy Recomputing(RecomputeLevel level) {
  Strategy strategy;
  strategy.recompute_level = level;
  return strategy;
}

TEST(LayerSource, TakesWhatWasMeasuredBeforeTheory) {
  const World world = MeasuredWorld();
  ResolutionNotes notes;
  const LayerSource source = world.Resolve(world.decoder, notes);
  EXPECT_TRUE(source.measured());
  EXPECT_TRUE(notes.estimated.empty());
  const LayerPasses passes = source.Passes(Strategy(), 4);
  EXPECT_DOUBLE_EQ(passes.forward.milliseconds(), 16.0);
  EXPECT_DOUBLE_EQ(passes.backward.milliseconds(), 32.0);
  // The stopwatch saw what the host does.
  EXPECT_EQ(passes.forward_host, Seconds());
  EXPECT_EQ(passes.backward_host, Seconds());
  const LayerFootprint footprint = source.Footprint(Strategy(), 1);
  EXPECT_EQ(footprint.parameter_count, 1000);
  EXPECT_DOUBLE_EQ(footprint.activations.Kept(RecomputeLevel::kNone), 6000.0);
  EXPECT_DOUBLE_EQ(footprint.activations.Kept(RecomputeLevel::kFull), 600.0);
  // Its own gradients were there when memory was measured.
  EXPECT_DOUBLE_EQ(footprint.activations.backward, 0.0);
}

TEST(LayerSource, TakesTheoryWhereNothingWasMeasuredAndSaysSo) {
  const World world;
  ResolutionNotes notes;
  const LayerSource source = world.Resolve(world.decoder, notes);
  EXPECT_FALSE(source.measured());
  EXPECT_EQ(notes.estimated,
            (std::vector<std::string>{"layer `decoder`: time and memory from its definition and "
                                      "the data sheet of the device"}));
  Coefficients coefficients("ampere");
  const AnalyticLayer analytic(world.decoder, Precision::kBf16, world.rules.runtime, TestDevice(),
                               coefficients);
  const AnalyticTimes times = analytic.Times({}, 3);
  const double slowest = SlowestDeviceFactor(kDevices, coefficients);
  const LayerPasses passes = source.Passes(Strategy(), 3);
  EXPECT_DOUBLE_EQ(passes.forward.value(), times.forward.device.value() * slowest);
  EXPECT_DOUBLE_EQ(passes.backward.value(), times.backward.device.value() * slowest);
  // The host is as fast on every node.
  EXPECT_EQ(passes.forward_host, times.forward.host);
}

TEST(LayerSource, WithoutEstimatesAsksForMeasurements) {
  World world;
  world.rules.allow_estimates = false;
  ResolutionNotes notes;
  world.Resolve(world.decoder, notes);
  EXPECT_FALSE(notes.missing.empty());
}

TEST(LayerSource, MixesItemByItem) {
  World world = MeasuredWorld();
  world.memories.clear();
  ResolutionNotes notes;
  const LayerSource source = world.Resolve(world.decoder, notes);
  EXPECT_TRUE(source.measured());
  EXPECT_FALSE(notes.estimated.empty());
  EXPECT_DOUBLE_EQ(source.Passes(Strategy(), 1).forward.milliseconds(), 4.0);
  const LayerFootprint theory =
      FootprintOf(world.decoder, Precision::kBf16, world.rules.runtime, Strategy(), false);
  EXPECT_EQ(source.Footprint(Strategy(), 1).parameter_count, theory.parameter_count);
}

TEST(LayerSource, ScalesTheoryToTheDegreeThatWasMeasured) {
  World world = MeasuredWorld();
  std::erase_if(world.timings,
                [](const LayerTimingPoint& point) { return point.tensor_parallel_degree == 2; });
  const LayerSource source = world.Resolve(world.decoder);
  const LayerSource theory = World().Resolve(world.decoder);
  Strategy wide;
  wide.tensor_parallel_degree = 2;
  const auto longest = [](const LayerPasses& passes) {
    return std::max(passes.forward, passes.forward_host);
  };
  // By the geometric mean of both points.
  const double measured_over_theory =
      std::sqrt(Seconds::Milliseconds(4) / longest(theory.Passes(Strategy(), 1)) *
                (Seconds::Milliseconds(16) / longest(theory.Passes(Strategy(), 4))));
  EXPECT_NEAR(source.Passes(wide, 1).forward / longest(theory.Passes(wide, 1)),
              measured_over_theory, 1e-9 * measured_over_theory);
}

TEST(LayerSource, RecomputesAsMuchAsTheLevelSays) {
  World measured = MeasuredWorld();
  World theory;
  measured.rules.runtime.attention_kernel = AttentionKernel::kUnfused;
  theory.rules.runtime.attention_kernel = AttentionKernel::kUnfused;
  for (const World& world : {theory, measured}) {
    const LayerSource source = world.Resolve(world.decoder);
    const LayerPasses none = source.Passes(Recomputing(RecomputeLevel::kNone), 4);
    const LayerPasses selective = source.Passes(Recomputing(RecomputeLevel::kSelective), 4);
    const LayerPasses full = source.Passes(Recomputing(RecomputeLevel::kFull), 4);
    EXPECT_EQ(none.recompute, Seconds());
    EXPECT_GT(selective.recompute, Seconds());
    EXPECT_LT(selective.recompute, full.recompute);
    EXPECT_EQ(full.recompute, full.forward);
    EXPECT_EQ(full.backward, none.backward);
  }
  // 24 h^2 s for matrices and 2 h s^2 for causal attention: s / (12 h + s) of the work.
  measured.has_hardware = false;
  const LayerSource source = measured.Resolve(measured.decoder);
  const LayerPasses selective = source.Passes(Recomputing(RecomputeLevel::kSelective), 1);
  EXPECT_NEAR(selective.recompute / selective.forward, 512.0 / (12 * 1024 + 512), 1e-9);
  // A table has nothing to recompute.
  World with_head;
  with_head.measured_head = true;
  for (const World& world : {World(), with_head}) {
    EXPECT_EQ(world.Resolve(world.head).Passes(Recomputing(RecomputeLevel::kFull), 1).recompute,
              Seconds());
  }
}

TEST(LayerSource, SharesTokensWithContextParallelRanks) {
  Strategy strategy;
  strategy.context_parallel_degree = 4;
  World unknown_device = MeasuredWorld();
  unknown_device.has_hardware = false;
  const LayerPasses quarter = unknown_device.Resolve(unknown_device.decoder).Passes(strategy, 4);
  EXPECT_DOUBLE_EQ(quarter.forward.milliseconds(), 4.0);
  EXPECT_DOUBLE_EQ(quarter.backward.milliseconds(), 8.0);
  // Theory knows that small pieces are worked on less well.
  const World world = MeasuredWorld();
  const LayerSource source = world.Resolve(world.decoder);
  const LayerSource theory = World().Resolve(world.decoder);
  const LayerPasses share = source.Passes(strategy, 4);
  EXPECT_NEAR(share.forward.milliseconds() / 16.0,
              theory.Passes(strategy, 4).forward / theory.Passes(Strategy(), 4).forward, 1e-12);
  EXPECT_GT(share.forward.milliseconds(), 4.0);
  EXPECT_DOUBLE_EQ(source.Footprint(strategy, 1).activations.Kept(RecomputeLevel::kNone), 1500.0);
  EXPECT_EQ(source.Footprint(strategy, 1).parameter_count, 1000);
}

TEST(LayerSource, SpreadsMeasuredExpertsOverExpertParallelRanks) {
  World world;
  world.decoder.expert_count = 8;
  world.decoder.experts_per_token = 2;
  world.decoder.expert_feed_forward_size = 1024;
  world.decoder.parameter_count = 0;
  world.decoder = *LayerDefinition::Create(world.decoder, "decoder");
  const int64_t experts = int64_t{8} * 2 * 1024 * 1024;
  const int64_t rest = 5'000'000;
  world.timings = {Timing(1, 1, 4, 8)};
  world.memories = {
      {1, false, 512, experts + rest, Bytes::Of(6000), Bytes::Of(600), Origin::kMeasured}};
  const LayerSource source = world.Resolve(world.decoder);
  Strategy strategy;
  strategy.data_parallel_degree = 4;
  EXPECT_EQ(source.Footprint(strategy, 1).expert_parameter_count, experts);
  EXPECT_EQ(source.Footprint(strategy, 1).parameter_count, rest);
  strategy.expert_parallel_degree = 4;
  EXPECT_EQ(source.Footprint(strategy, 1).expert_parameter_count, experts / 4);
  EXPECT_EQ(source.Footprint(strategy, 1).parameter_count, rest);
}

TEST(LayerSource, GivesATiedHeadItsOwnTableWithSeveralStages) {
  World measured;
  measured.measured_head = true;
  for (const World& world : {World(), measured}) {
    const LayerSource source = world.Resolve(world.head);
    EXPECT_EQ(source.Footprint(Strategy(), 1).parameter_count, 1024);
    EXPECT_EQ(source.Footprint(Strategy(), 2).parameter_count, 1024 + 12800 * 1024);
    EXPECT_EQ(source.Footprint(Strategy(), 2).largest_matrix_parameter_count, 12800 * 1024);
  }
}

// The modules of `fsdp`, `deepspeed` and `accelerate` are measured by the runtime `torch`, whose
// profiles hold what autograd saves: gradients inside a layer come in addition, and of the loss all
// but the logarithms of probabilities, 4 bytes a logit. Other profiles hold both.
TEST(LayerSource, AddsGradientsToWhatAutogradSaves) {
  World world = MeasuredWorld();
  world.measured_head = true;
  World theory;
  for (const char* const runtime :
       {"torch", "torch-compile", "fsdp", "deepspeed", "accelerate", "megatron-core", "parplan"}) {
    world.rules.runtime = theory.rules.runtime = *FindRuntime(runtime);
    const bool saves =
        MeasuredRuntime(runtime) == "torch" || runtime == std::string("torch-compile");
    const ActivationBytes decoder = world.Resolve(world.decoder).Footprint({}, 1).activations;
    EXPECT_DOUBLE_EQ(decoder.Kept(RecomputeLevel::kNone), 6000.0) << runtime;
    EXPECT_DOUBLE_EQ(
        decoder.backward,
        saves ? theory.Resolve(theory.decoder).Footprint({}, 1).activations.backward : 0.0)
        << runtime;
    const double logits = theory.Resolve(theory.head).Footprint({}, 1).activations.logits;
    const double elements = 512.0 * PaddedVocabularySize(12800, world.rules.runtime, 1);
    EXPECT_DOUBLE_EQ(world.Resolve(world.head).Footprint({}, 1).activations.logits,
                     saves ? logits - 4.0 * elements : 0.0)
        << runtime;
  }
}

TEST(LayerSource, AppliesTheFactorsOfACalibration) {
  const World plain;
  World calibrated;
  const CalibrationScope decoders{.layer_kind = LayerKind::kDecoder};
  calibrated.coefficients = {
      {.coefficient = Coefficient::kTimeFactor, .scope = decoders, .value = 1.25},
      {.coefficient = Coefficient::kActivationFactor, .scope = decoders, .value = 1.5}};
  const LayerSource before = plain.Resolve(plain.decoder);
  const LayerSource after = calibrated.Resolve(plain.decoder);
  const auto forward = [](const LayerSource& source) {
    return source.Passes(Strategy(), 4).forward.value();
  };
  EXPECT_NEAR(forward(after), 1.25 * forward(before), 1e-12);
  EXPECT_EQ(after.Passes(Strategy(), 4).forward_host, before.Passes(Strategy(), 4).forward_host);
  const ActivationBytes small = before.Footprint(Strategy(), 1).activations;
  const ActivationBytes large = after.Footprint(Strategy(), 1).activations;
  EXPECT_DOUBLE_EQ(large.layer, 1.5 * small.layer);
  // The layer's input is what it is.
  EXPECT_DOUBLE_EQ(large.checkpoint, small.checkpoint);
  // Other kinds keep theirs.
  EXPECT_EQ(forward(calibrated.Resolve(plain.head)), forward(plain.Resolve(plain.head)));
  World measured = MeasuredWorld();
  measured.coefficients = calibrated.coefficients;
  EXPECT_DOUBLE_EQ(forward(measured.Resolve(measured.decoder)), 1.25 * 0.016);
}

}  // namespace
}  // namespace parplan
