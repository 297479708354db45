#include "tests/support/random_problem.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "planner/cost/cost_model.h"
#include "planner/model/search_space.h"
#include "tests/support/brute_force_menus.h"
#include "tests/support/brute_force_plans.h"
#include "tests/support/brute_force_space.h"
#include "tests/support/estimated_problem.h"
#include "tests/support/synthetic_problem.h"
#include "tests/support/valid.h"

namespace parplan {
namespace {

class Dice {
 public:
  explicit Dice(uint64_t seed) : random_(seed) {}
  // A whole number from `low` to `high`.
  int Number(int low, int high) {
    return low + static_cast<int>(random_() % static_cast<uint64_t>(high - low + 1));
  }
  bool Once(int in) { return Number(1, in) == 1; }
  template <typename T>
  T Of(std::initializer_list<T> choices) {
    return *std::next(choices.begin(), Number(0, static_cast<int>(choices.size()) - 1));
  }

 private:
  std::mt19937_64 random_;
};

// How 1 to 8 devices stand in nodes.
struct Devices {
  int count = 1;
  int per_node = 1;
};

Devices DrawDevices(Dice& dice, int max_device_count) {
  Devices devices;
  do {
    devices.count = dice.Of({1, 2, 2, 3, 4, 4, 4, 5, 6, 6, 8, 8, 8});
  } while (devices.count > max_device_count);
  do {
    devices.per_node = dice.Number(1, devices.count);
  } while (devices.count % devices.per_node != 0 || (devices.per_node == 1 && !dice.Once(4)));
  return devices;
}

// Transformer layers, between an embedding and a head.
int DrawLayerCount(Dice& dice, const RandomProblemShape& shape) {
  return std::max(1, shape.max_layer_count - 2 - dice.Of({0, 0, 1, 1, 2}));
}

DimensionSet DrawDimensions(Dice& dice) {
  // Only one target recomputes modules, and few layers have experts; both multiply plans. The tests
  // of these dimensions open them.
  DimensionSet dimensions = DimensionSet::All()
                                .Without(SearchDimension::kModuleRecompute)
                                .Without(SearchDimension::kExpertTensor)
                                .Without(SearchDimension::kZeroBubble)
                                .Without(SearchDimension::kHybridSharding);
  for (int i = 0; i < kSearchDimensionCount; ++i) {
    const auto dimension = static_cast<SearchDimension>(i);
    // Never closed: it matters only where two others are, and the problems of seeds stay what they
    // were before it.
    if (dimension == SearchDimension::kBlockRecompute) continue;

    // Only one target has it, and it multiplies the plans of that one.
    if (dimension == SearchDimension::kGroupSize) continue;
    if (dimension == SearchDimension::kModuleRecompute) continue;
    if (dimension == SearchDimension::kExpertTensor) continue;
    // The law of tests/planner/planners/exact/zero_bubble_search_test.cc opens it.
    if (dimension == SearchDimension::kZeroBubble) continue;
    if (dimension == SearchDimension::kHybridSharding) continue;
    const bool is_basic =
        dimension == SearchDimension::kPipeline || dimension == SearchDimension::kUnevenStages ||
        dimension == SearchDimension::kTensor || dimension == SearchDimension::kPerLayer;
    if (dice.Once(is_basic ? 6 : 3)) dimensions = dimensions.Without(dimension);
  }
  return dimensions;
}

PlanningRules DrawRules(Dice& dice, const Devices& devices, int64_t batch) {
  PlanningRules rules;
  rules.dimensions = DrawDimensions(dice);
  if (dice.Once(4)) {
    rules.target = dice.Of({Target::kMegatron, Target::kDeepSpeed, Target::kGalvatron,
                            Target::kTorchtitan, Target::kFsdp2, Target::kAccelerate});
  }
  // Also across nodes, which the default does not allow.
  if (dice.Once(2)) rules.max_tensor_parallel_degree = devices.count;
  if (dice.Once(8)) rules.max_pipeline_parallel_degree = dice.Number(1, 4);
  if (dice.Once(8)) rules.allow_recompute = false;
  if (dice.Once(8)) rules.allow_sharded_data_parallel = false;
  // The last one is `megatron-core` with parameters in 8 bits, which bf16 does not have.
  const std::vector<RuntimeTraits> runtimes(KnownRuntimes().begin(), KnownRuntimes().end() - 1);
  rules.runtime = runtimes[dice.Number(0, static_cast<int>(runtimes.size()) - 1)];
  if (dice.Once(3)) rules.runtime.attention_kernel = AttentionKernel::kUnfused;
  if (dice.Once(3)) rules.runtime.blocking_pipeline_messages = dice.Once(2);
  if (dice.Once(4)) rules.runtime.expandable_segments = true;
  if (dice.Once(6)) {
    rules.schedule = dice.Of({Schedule::kOneForwardOneBackward, Schedule::kGpipe});
    rules.dimensions = rules.dimensions.With(SearchDimension::kGpipe);
    if (rules.schedule == Schedule::kGpipe && rules.target != Target::kGalvatron) {
      rules.target = Target::kParplan;
    }
  }
  if (dice.Once(6)) {
    rules.smallest_global_batch_size = std::max<int64_t>(1, batch - dice.Number(1, 4));
    rules.global_batch_size_step = dice.Number(1, 2);
  } else if (dice.Once(5)) {
    do {
      rules.micro_batch_count = dice.Number(1, static_cast<int>(batch));
    } while (batch % rules.micro_batch_count != 0);
  }
  return rules;
}

// Messages between stages of any size that divides the devices; the synthetic profile has
// those of powers of two.
void AddMissingPairs(int device_count, ProfileSnapshot::Content& content) {
  for (int stride = 1; stride < device_count; ++stride) {
    if (device_count % stride != 0 || (device_count % 2 == 0 && device_count / 2 % stride == 0)) {
      continue;
    }
    for (int64_t bytes : {int64_t{1} << 16, int64_t{1} << 24, int64_t{1} << 30}) {
      content.collectives.push_back(
          {.collective = Collective::kSendReceive,
           .participant_count = 2,
           .rank_stride = stride,
           .message_size = Bytes::Of(bytes),
           .duration = Seconds::Of(20e-6 + static_cast<double>(bytes) / 50e9)});
    }
  }
}

// With measurements of every shape.
PlanningProblem Measured(Dice& dice, const RandomProblemShape& shape) {
  const Devices devices = DrawDevices(dice, shape.max_device_count);
  SyntheticOptions options;
  options.device_count = devices.count;
  options.devices_per_node = devices.per_node;
  options.decoder_count = DrawLayerCount(dice, shape);
  options.hidden_size = dice.Of({256, 512, 1024});
  options.attention_head_count = dice.Of({2, 4, 8});
  options.vocabulary_size = dice.Of({1000, 8000, 32000});
  options.sequence_length = dice.Of({128, 256});
  options.sequence_parallel = dice.Once(2);
  options.link_speed = dice.Of({0.1, 1.0, 10.0});
  options.global_batch_size = dice.Of({1, 2, 4, 6, 8, 12});
  options.rules = DrawRules(dice, devices, options.global_batch_size);
  ProfileSnapshot::Content content = SyntheticProfileContent(options);
  AddMissingPairs(devices.count, content);
  return Valid(PlanningProblem::Create(SyntheticModel(options), SyntheticTopology(options),
                                       {{{std::make_shared<const ProfileSnapshot>(
                                           Valid(ProfileSnapshot::Create(std::move(content))))}}},
                                       options.global_batch_size, options.rules));
}

std::vector<LayerDefinition> DrawDefinitions(Dice& dice) {
  LayerDefinition embedding{.layer_definition_id = "embedding",
                            .kind = LayerKind::kEmbedding,
                            .hidden_size = dice.Of({512, 768, 1536, 2048}),
                            .sequence_length = dice.Of({512, 1024, 510, 768}),
                            .vocabulary_size = dice.Of({1000, 16000, 64000})};
  LayerDefinition decoder{.layer_definition_id = "decoder",
                          .kind = LayerKind::kDecoder,
                          .hidden_size = embedding.hidden_size,
                          .attention_head_count = dice.Of({4, 8, 16}),
                          .feed_forward_size = 4 * embedding.hidden_size,
                          .feed_forward_kind = FeedForwardKind::kGelu,
                          .sequence_length = embedding.sequence_length};
  if (embedding.hidden_size % 3 == 0) decoder.attention_head_count = dice.Of({6, 12});
  if (dice.Once(3)) decoder.key_value_head_count = decoder.attention_head_count / 2;
  LayerDefinition other = decoder;
  other.layer_definition_id = "other";
  if (dice.Once(2)) {
    other.feed_forward_size = 12 * embedding.hidden_size;
  } else {
    other.expert_count = dice.Of({2, 4});
    other.experts_per_token = 1;
    other.expert_feed_forward_size = embedding.hidden_size;
  }
  LayerDefinition head = embedding;
  head.layer_definition_id = "head";
  head.kind = LayerKind::kHead;
  head.tied_embedding = dice.Once(2);
  std::vector<LayerDefinition> definitions;
  for (const LayerDefinition& raw : {embedding, decoder, other, head}) {
    definitions.push_back(Valid(LayerDefinition::Create(raw, "definition")));
  }
  return definitions;
}

// From data sheets.
PlanningProblem Estimated(Dice& dice, const RandomProblemShape& shape) {
  const Devices devices = DrawDevices(dice, shape.max_device_count);
  std::vector<LayerDefinition> definitions = DrawDefinitions(dice);
  std::vector<ModelLayerRun> runs = {{0, 1}};
  // Some models have only one kind of layer.
  const bool has_other = dice.Once(2);
  for (int left = DrawLayerCount(dice, shape); left > 0;) {
    const int count = dice.Number(1, left);
    runs.push_back({has_other ? dice.Number(1, 2) : 1, count});
    left -= count;
  }
  runs.push_back({3, 1});
  // Definitions that nothing uses.
  std::vector<LayerDefinition> used;
  for (ModelLayerRun& run : runs) {
    const LayerDefinition& definition = definitions[run.definition_index];
    const auto known = std::find(used.begin(), used.end(), definition);
    run.definition_index = static_cast<int>(known - used.begin());
    if (known == used.end()) used.push_back(definition);
  }
  NodeGroup group{.node_group_id = "nodes",
                  .device_kind = "a100-sxm-80gb",
                  .node_count = devices.count / devices.per_node,
                  .devices_per_node = devices.per_node,
                  .device_memory = Bytes::Of(int64_t{80} << 30)};
  std::vector<LinkTier> tiers = {{"node", devices.per_node}};
  if (group.node_count > 1) tiers.push_back({"network", devices.count});
  Knowledge knowledge;
  knowledge.groups.emplace_back().hardware = std::make_shared<const Hardware>(
      EightA100Nodes(dice.Of({0.1, 1.0}), dice.Of({0.1, 1.0, 10.0}), dice.Of({0.1, 1.0})));
  const int64_t batch = dice.Of({1, 2, 4, 6, 8, 12});
  PlanningRules rules = DrawRules(dice, devices, batch);
  rules.allow_estimates = true;
  return Valid(PlanningProblem::Create(
      std::make_shared<const ModelSpec>(Valid(ModelSpec::Create(
          "random", std::move(used), std::move(runs), Precision::kBf16, Optimizer::kAdam))),
      std::make_shared<const Topology>(Valid(Topology::Create("random", {group}, tiers))),
      std::move(knowledge), batch, rules));
}

bool IsSmall(const PlanningProblem& problem, const CostModel& costs,
             const RandomProblemShape& shape) {
  for (const PlanShape& part : ShapesOf(problem)) {
    int strategy_count = 0;
    for (int definition : problem.model().definition_of_layer()) {
      strategy_count = std::max(
          strategy_count, static_cast<int>(StrategiesOf(problem, costs, definition, part).size()));
    }
    if (strategy_count > shape.max_strategy_count) return false;
  }
  return PlanCount(problem, costs) <= shape.max_plan_count;
}

}  // namespace

PlanningProblem RandomProblem(uint64_t seed, const RandomProblemShape& shape) {
  Dice dice(seed);
  while (true) {
    PlanningProblem problem = dice.Once(2) ? Measured(dice, shape) : Estimated(dice, shape);
    const CostModel costs = Valid(CostModel::Create(problem));
    while (!IsSmall(problem, costs, shape)) {
      PlanningRules rules = problem.rules();
      // All up to block recomputation, as above.
      const auto dimension = static_cast<SearchDimension>(
          dice.Number(0, static_cast<int>(SearchDimension::kBlockRecompute)));
      const bool is_bound = dimension == SearchDimension::kGpipe && rules.schedule.has_value();
      const bool is_basic = dimension == SearchDimension::kPipeline ||
                            dimension == SearchDimension::kUnevenStages ||
                            dimension == SearchDimension::kInterleaved;
      if (is_bound || (is_basic && !dice.Once(6))) continue;
      rules.dimensions = rules.dimensions.Without(dimension);
      problem = problem.WithRules(rules);
    }
    if (!shape.memory_binds) return problem;
    const Bytes least = EveryStage(problem.WithUsableMemory(Bytes()), costs).smallest_usable_memory;
    // Few problems have no or hardly any plans.
    if (PlanCount(problem, costs) < 20.0 && !dice.Once(20)) continue;
    if (least == Bytes::Max()) return problem;
    const double factor = dice.Of({0.98, 1.0, 1.01, 1.05, 1.1, 1.2, 1.4, 1.8, 2.5, 6.0});
    return problem.WithUsableMemory(Bytes::Ceil(least.as_double() * factor));
  }
}

}  // namespace parplan
