// The first experiments that a summary of Galvatron-BMW suggests (docs/papers.md 2.5), on estimated
// devices.
// These models were not measured here, so the claims are about plans under our own cost model, not
// about hours of training.

#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "planner/find_plan.h"
#include "planner/planners/galvatron/galvatron_search.h"
#include "proto/wire/hardware_library.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

template <typename T>
T Valid(absl::StatusOr<T> value) {
  PARPLAN_CHECK(value.ok());
  return *std::move(value);
}

struct Layers {
  LayerDefinition definition;
  int count = 1;
};

struct Experiment {
  std::string device = "rtx-titan";
  int node_count = 1;
  int device_count = 8;
  int64_t memory_gibibytes = 16;
  Precision precision = Precision::kFp32;
  std::vector<Layers> layers;
  int64_t largest_batch = 64;
};

PlanningProblem ProblemOf(const Experiment& experiment) {
  std::vector<LayerDefinition> definitions;
  std::vector<ModelLayerRun> runs;
  for (const Layers& layers : experiment.layers) {
    LayerDefinition raw = layers.definition;
    raw.layer_definition_id = "layer" + std::to_string(definitions.size());
    runs.push_back({static_cast<int>(definitions.size()), layers.count});
    definitions.push_back(Valid(LayerDefinition::Create(raw, "layer")));
  }
  auto model = std::make_shared<const ModelSpec>(Valid(
      ModelSpec::Create("experiment", definitions, runs, experiment.precision, Optimizer::kAdam)));
  const NodeGroup group{.node_group_id = "nodes",
                        .device_kind = experiment.device,
                        .node_count = experiment.node_count,
                        .devices_per_node = experiment.device_count / experiment.node_count,
                        .device_memory = Bytes::Of(experiment.memory_gibibytes << 30)};
  std::vector<LinkTier> tiers = {{"node", group.devices_per_node}};
  if (group.node_count > 1) tiers.push_back({"network", experiment.device_count});
  auto topology =
      std::make_shared<const Topology>(Valid(Topology::Create("experiment", {group}, tiers)));
  const HardwareLibrary& library = HardwareLibrary::BuiltIn();
  Knowledge knowledge;
  knowledge.groups.emplace_back().hardware = std::make_shared<const Hardware>(
      Hardware{*library.FindDevice(experiment.device),
               *library.DefaultFabricFor(experiment.device, group.devices_per_node,
                                         experiment.device_count)});
  PlanningRules rules{.allow_estimates = true};
  rules.smallest_global_batch_size = 8;
  rules.global_batch_size_step = 8;
  return Valid(
      PlanningProblem::Create(model, topology, knowledge, experiment.largest_batch, rules));
}

LayerDefinition Table(int vocabulary_size, int hidden_size, int sequence_length) {
  return {.kind = LayerKind::kEmbedding,
          .hidden_size = hidden_size,
          .sequence_length = sequence_length,
          .vocabulary_size = vocabulary_size};
}

LayerDefinition Head(int vocabulary_size, int hidden_size, int sequence_length) {
  LayerDefinition head = Table(vocabulary_size, hidden_size, sequence_length);
  head.kind = LayerKind::kHead;
  return head;
}

LayerDefinition Transformer(LayerKind kind, int hidden_size, int head_count, int sequence_length) {
  return {.kind = kind,
          .hidden_size = hidden_size,
          .attention_head_count = head_count,
          .feed_forward_size = 4 * hidden_size,
          .feed_forward_kind = FeedForwardKind::kGelu,
          .sequence_length = sequence_length};
}

Experiment BertHuge() {
  return {.layers = {{Table(30522, 1280, 512)},
                     {Transformer(LayerKind::kEncoder, 1280, 16, 512), 32},
                     {Head(30522, 1280, 512)}}};
}

// 512 tokens in, 4 tokens out: the second half of the layers is light.
Experiment T5With4Tokens() {
  return {.layers = {{Table(32128, 1024, 512)},
                     {Transformer(LayerKind::kEncoder, 1024, 16, 512), 16},
                     {Transformer(LayerKind::kCrossDecoder, 1024, 16, 4), 16},
                     {Head(32128, 1024, 4)}}};
}

Experiment SwinHuge() {
  Experiment swin;
  const int counts[] = {2, 2, 26, 2};
  for (int kind = 0; kind < 4; ++kind) {
    // Attention is within windows of 49 tokens; as many samples as windows would have the
    // same work, which a layer of the whole sequence overstates.
    swin.layers.push_back(
        {Transformer(LayerKind::kEncoder, 320 << kind, 8 << kind, 3136 >> (2 * kind)),
         counts[kind]});
  }
  return swin;
}

// Llama-7B with a vocabulary of 128k: the head is a heavy last stage.
Experiment LlamaWith128kVocabulary() {
  LayerDefinition decoder = Transformer(LayerKind::kDecoder, 4096, 32, 2048);
  decoder.feed_forward_size = 11008;
  decoder.feed_forward_kind = FeedForwardKind::kSwiglu;
  return {.device = "a100-sxm-40gb",
          .memory_gibibytes = 40,
          .precision = Precision::kBf16,
          .layers = {{Table(128256, 4096, 2048)}, {decoder, 32}, {Head(128256, 4096, 2048)}},
          .largest_batch = 32};
}

PlanFound Search(const PlanningProblem& problem, GalvatronVariant variant) {
  const absl::StatusOr<CostModel> costs = CostModel::Create(problem);
  PARPLAN_CHECK(costs.ok());
  std::optional<PlanningResult> result = SearchGalvatron(problem, *costs, variant, {});
  PARPLAN_CHECK(result && std::holds_alternative<PlanFound>(*result));
  return std::get<PlanFound>(*std::move(result));
}

void PrintPlan(const char* title, const PlanFound& found) {
  std::printf("%s: %.3f samples/s, batch %lld in %lld micro-batches, %.2f GiB, %s\n", title,
              found.prediction.samples_per_second,
              static_cast<long long>(found.plan.global_batch_size),
              static_cast<long long>(found.plan.micro_batch_count),
              found.prediction.peak_memory.as_double() / (1 << 30), PlanGist(found.plan).c_str());
  for (const std::string& note : found.notes) std::printf("  %s\n", note.c_str());
}

TEST(GalvatronExperiments, BaseBeatsPureAndHybridBaselinesOnBertHuge) {
  const PlanningProblem problem = ProblemOf(BertHuge());
  const PlanFound base = Search(problem, GalvatronVariant::kGalvatronBase);
  PrintPlan("galvatron-base, BERT-Huge-32", base);
  int fitting_count = 0;
  for (const std::string planner : {"dp", "sdp", "tp", "pp", "dp+tp", "dp+pp", "deepspeed-3d"}) {
    // Each at its own best batch.
    double best = 0.0;
    for (int64_t batch : problem.GlobalBatchSizes()) {
      const absl::StatusOr<PlanningResult> result =
          FindPlan(problem.WithGlobalBatchSize(batch), planner);
      if (!result.ok() || !std::holds_alternative<PlanFound>(*result)) continue;
      best = std::max(best, std::get<PlanFound>(*result).prediction.samples_per_second);
    }
    std::printf("  %-12s %.3f samples/s\n", planner.c_str(), best);
    if (best > 0.0) ++fitting_count;
    EXPECT_GT(base.prediction.samples_per_second, best) << planner;
  }
  EXPECT_GE(fitting_count, 4);
}

// Samples a second; 0 if nothing fits.
double Rate(const PlanningProblem& problem, const std::string& planner) {
  const absl::StatusOr<PlanningResult> result = FindPlan(problem, planner);
  if (!result.ok() || !std::holds_alternative<PlanFound>(*result)) return 0.0;
  return std::get<PlanFound>(*result).prediction.samples_per_second;
}

// Compares `galvatron-bmw` with `galvatron-base` under even and under greedy stages, which shows
// what the bi-objective partition gains, and with `dp+pp`, which must not be ahead.
void CompareWithBase(const std::string& title, const PlanningProblem& problem,
                     bool must_gain_over_even) {
  for (const Partitioner partitioner : {Partitioner::kEven, Partitioner::kGreedy}) {
    PlanningRules rules = problem.rules();
    rules.partitioner = partitioner;
    const PlanningProblem asked = problem.WithRules(rules);
    const double base = Rate(asked, "galvatron-base");
    const PlanFound bmw = Search(asked, GalvatronVariant::kGalvatronBmw);
    std::printf("%s, %s stages: base %.2f, bmw %.2f samples/s\n", title.c_str(),
                std::string(PartitionerName(partitioner)).c_str(), base,
                bmw.prediction.samples_per_second);
    PrintPlan("  bmw", bmw);
    EXPECT_GE(bmw.prediction.samples_per_second, base);
    if (must_gain_over_even && partitioner == Partitioner::kEven) {
      EXPECT_GT(bmw.prediction.samples_per_second, base * 1.01);
    }
  }
  const PlanFound best = Search(problem, GalvatronVariant::kGalvatronBmw);
  const double rival = Rate(problem, "dp+pp");
  std::printf("%s, best stages: dp+pp %.2f, bmw %.2f samples/s\n", title.c_str(), rival,
              best.prediction.samples_per_second);
  PrintPlan("  bmw", best);
  EXPECT_GE(best.prediction.samples_per_second, rival);
}

// Data parallelism, pipelines and recomputation: where tensor parallelism and sharding are
// there too, one stage is the fastest plan on these nodes and nothing is left to balance.
PlanningProblem OfPipelines(const Experiment& experiment) {
  const PlanningProblem problem = ProblemOf(experiment);
  PlanningRules rules = problem.rules();
  rules.dimensions = rules.dimensions.Without(SearchDimension::kTensor)
                         .Without(SearchDimension::kOptimizerSharding)
                         .Without(SearchDimension::kGradientSharding)
                         .Without(SearchDimension::kParameterSharding);
  return problem.WithRules(rules);
}

TEST(GalvatronExperiments, AdjustmentBeatsEvenStagesOnT5With4Tokens) {
  Experiment experiment = T5With4Tokens();
  for (int64_t gibibytes : {8, 12, 16}) {
    experiment.memory_gibibytes = gibibytes;
    CompareWithBase("T5-512/4-32, pipelines, " + std::to_string(gibibytes) + " GiB",
                    OfPipelines(experiment), /*must_gain_over_even=*/true);
  }
  CompareWithBase("T5-512/4-32, whole tree, 16 GiB", ProblemOf(experiment),
                  /*must_gain_over_even=*/false);
}

TEST(GalvatronExperiments, AdjustmentBeatsEvenStagesOnFourKindsOfSwin) {
  Experiment experiment = SwinHuge();
  for (int64_t gibibytes : {8, 12, 16}) {
    experiment.memory_gibibytes = gibibytes;
    CompareWithBase("Swin-Huge-32, pipelines, " + std::to_string(gibibytes) + " GiB",
                    OfPipelines(experiment), /*must_gain_over_even=*/true);
  }
  experiment.memory_gibibytes = 12;
  CompareWithBase("Swin-Huge-32, whole tree, 12 GiB", ProblemOf(experiment),
                  /*must_gain_over_even=*/false);
}

TEST(GalvatronExperiments, AdjustmentIsNeverBehindWithAHeavyHead) {
  const Experiment experiment = LlamaWith128kVocabulary();
  CompareWithBase("Llama-7B with 128k tokens, pipelines", OfPipelines(experiment),
                  /*must_gain_over_even=*/false);
  CompareWithBase("Llama-7B with 128k tokens, whole tree", ProblemOf(experiment),
                  /*must_gain_over_even=*/false);
}

}  // namespace
}  // namespace parplan
