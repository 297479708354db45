#include "tests/proto/wire/random_values.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "planner/model/layer_definition.h"
#include "planner/model/precision.h"
#include "planner/model/runtime_traits.h"
#include "planner/model/search_space.h"
#include "planner/model/strategy_fields.h"
#include "proto/wire/duration_wire.h"
#include "proto/wire/rules_wire.h"

namespace parplan {

static_assert(kStrategyFieldCount == 13, "draw the new field");

int64_t RandomValues::Integer(int64_t min, int64_t max) {
  return min + static_cast<int64_t>(engine_() % static_cast<uint64_t>(max - min + 1));
}

double RandomValues::Ratio() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }

std::string RandomValues::Id() { return absl::StrCat("id-", Integer(0, 1'000'000'000)); }

google::protobuf::Duration RandomValues::Time() {
  google::protobuf::Duration duration;
  duration.set_seconds(Flag() ? 0 : Integer(0, 3'000));
  duration.set_nanos(static_cast<int>(Integer(1, 999'999'999)));
  return duration;
}

v1::ClusterTopology RandomValues::Topology() {
  v1::ClusterTopology topology;
  topology.set_cluster(Id());
  int device_count = 0;
  const int64_t group_count = Integer(1, 3);
  const bool named = Flag();
  for (int i = 0; i < group_count; ++i) {
    v1::NodeGroup& group = *topology.add_node_groups();
    group.set_node_group_id(absl::StrCat("group-", i));
    group.set_device_kind(absl::StrCat("Device ", Integer(0, 9), " \"quoted\""));
    group.set_node_count(static_cast<int>(Integer(1, 5)));
    for (int node = 0; named && node < group.node_count(); ++node) {
      group.add_node_names(absl::StrCat("node-", i, "-", node));
    }
    group.set_devices_per_node(static_cast<int>(Integer(1, 8)));
    group.set_device_memory_bytes(Integer(int64_t{1} << 30, int64_t{1} << 37));
    group.set_reserved_memory_bytes(Integer(0, group.device_memory_bytes() / 2));
    device_count += group.node_count() * group.devices_per_node();
  }
  int reach = 1;
  for (int i = 0; reach < device_count; ++i) {
    v1::LinkTier& tier = *topology.add_link_tiers();
    tier.set_tier_id(absl::StrCat("tier-", i));
    reach = std::min<int>(device_count, reach + static_cast<int>(Integer(1, 30)));
    tier.set_reach_device_count(reach);
  }
  if (topology.link_tiers().empty()) {
    topology.add_link_tiers()->set_tier_id("alone");
    topology.mutable_link_tiers(0)->set_reach_device_count(1);
  }
  return topology;
}

void RandomValues::AddAttention(v1::LayerDefinition& definition) {
  const int heads = static_cast<int>(Integer(1, 8)) * 4;
  definition.set_hidden_size(heads * static_cast<int>(Integer(1, 128)));
  definition.set_attention_head_count(heads);
  if (Flag()) definition.set_head_size(static_cast<int>(Integer(2, 128)));
  if (Flag()) definition.set_attention_window(static_cast<int>(Integer(1, 8192)));
  if (definition.attention_window() == 0 && Flag()) {
    definition.set_attention_chunk_size(static_cast<int>(Integer(1, 8192)));
  }
  if (definition.kind() != v1::LAYER_KIND_DECODER || definition.head_size() == 0 || Flag()) {
    if (Flag()) definition.set_key_value_head_count(heads / 4);
    return;
  }
  v1::LatentAttention& latent = *definition.mutable_latent_attention();
  latent.set_query_rank(static_cast<int>(Integer(0, 64)));
  latent.set_key_value_rank(static_cast<int>(Integer(1, 64)));
  latent.set_rotary_head_size(static_cast<int>(Integer(0, definition.head_size() - 1)));
  latent.set_value_head_size(static_cast<int>(Integer(1, 64)));
}

void RandomValues::AddStateSpace(v1::LayerDefinition& definition) {
  v1::StateSpace& space = *definition.mutable_state_space();
  space.set_kind(static_cast<v1::StateSpaceKind>(Integer(1, 3)));
  space.set_state_size(static_cast<int>(Integer(1, 256)));
  space.set_convolution_width(static_cast<int>(Integer(1, 8)));
  if (space.kind() == v1::STATE_SPACE_KIND_SELECTIVE) {
    space.set_inner_size(static_cast<int>(Integer(1, 4096)));
    space.set_time_step_rank(static_cast<int>(Integer(1, 256)));
    return;
  }
  space.set_group_count(static_cast<int>(Integer(1, 8)));
  space.set_head_count(space.group_count() * static_cast<int>(Integer(1, 8)));
  space.set_inner_size(space.head_count() * static_cast<int>(Integer(1, 64)));
  space.set_chunk_size(static_cast<int>(Integer(1, 512)));
}

void RandomValues::AddOpaque(v1::LayerDefinition& definition) {
  v1::OpaqueLayer& opaque = *definition.mutable_opaque();
  opaque.set_kept_bytes_per_sample(Integer(0, int64_t{1} << 40));
  if (Flag()) opaque.set_boundary_bytes_per_sample(Integer(0, int64_t{1} << 40));
  for (int degree = 2; degree <= 1 << Integer(0, 3); degree *= 2) {
    v1::OpaqueTensorDegree& part = *opaque.add_tensor_degrees();
    part.set_tensor_parallel_degree(degree);
    part.set_parameter_count(Integer(0, 1'000'000'000));
    part.set_kept_bytes_per_sample(Integer(0, int64_t{1} << 40));
    part.set_forward_all_reduce_count(static_cast<int>(Integer(0, 4)));
    part.set_backward_all_reduce_count(static_cast<int>(Integer(0, 4)));
    part.set_all_reduce_bytes_per_sample(Integer(0, int64_t{1} << 30));
  }
}

void RandomValues::AddFeedForward(v1::LayerDefinition& definition) {
  if (definition.kind() != v1::LAYER_KIND_FEED_FORWARD && Flag() && Flag()) {
    definition.set_feed_forward_kind(v1::FEED_FORWARD_KIND_NONE);
    return;
  }
  definition.set_feed_forward_size(static_cast<int>(Integer(1, 20'000)));
  definition.set_feed_forward_kind(static_cast<v1::FeedForwardKind>(Integer(1, 2)));
}

v1::LayerDefinition RandomValues::LayerDefinition(const std::string& id) {
  v1::LayerDefinition definition;
  definition.set_layer_definition_id(id);
  definition.set_kind(static_cast<v1::LayerKind>(Integer(1, kLayerKindCount)));
  definition.set_hidden_size(static_cast<int>(Integer(1, 4096)));
  definition.set_sequence_length(static_cast<int>(Integer(1, 8192)));
  switch (definition.kind()) {
    case v1::LAYER_KIND_DECODER:
    case v1::LAYER_KIND_ENCODER:
    case v1::LAYER_KIND_CROSS_DECODER:
      AddAttention(definition);
      AddFeedForward(definition);
      break;
    case v1::LAYER_KIND_STATE_SPACE:
      AddStateSpace(definition);
      AddFeedForward(definition);
      break;
    case v1::LAYER_KIND_FEED_FORWARD:
      AddFeedForward(definition);
      break;
    case v1::LAYER_KIND_OPAQUE:
      AddOpaque(definition);
      break;
    default:
      definition.set_vocabulary_size(static_cast<int>(Integer(1, 100'000)));
      if (definition.kind() == v1::LAYER_KIND_HEAD) definition.set_tied_embedding(Flag());
  }
  if (Flag()) definition.set_parameter_count(Integer(1, 1'000'000'000));
  return definition;
}

v1::ModelSpec RandomValues::Model() {
  v1::ModelSpec model;
  model.set_model_id(absl::StrCat("Model_", Integer(0, 999), ".x"));
  const int64_t definition_count = Integer(1, 4);
  for (int i = 0; i < definition_count; ++i) {
    *model.add_layer_definitions() = LayerDefinition(absl::StrCat("layer_", i));
  }
  // Every definition is used. A model begins with its tables and ends with its heads.
  std::vector<int64_t> order;
  for (int64_t i = 0; i < definition_count + Integer(0, 3); ++i) {
    order.push_back(i % definition_count);
  }
  const auto place = [&model](int64_t index) {
    const v1::LayerKind kind = model.layer_definitions(static_cast<int>(index)).kind();
    if (kind == v1::LAYER_KIND_EMBEDDING || kind == v1::LAYER_KIND_PATCH_EMBEDDING) return 0;
    return kind == v1::LAYER_KIND_HEAD ? 2 : 1;
  };
  std::stable_sort(order.begin(), order.end(),
                   [&place](int64_t a, int64_t b) { return place(a) < place(b); });
  for (const int64_t index : order) {
    v1::ModelLayerRun& run = *model.add_layer_runs();
    run.set_layer_definition_id(absl::StrCat("layer_", index));
    run.set_layer_count(static_cast<int>(Integer(1, 40)));
  }
  model.set_precision(static_cast<v1::Precision>(Integer(1, kPrecisionCount)));
  model.set_optimizer(static_cast<v1::Optimizer>(Integer(1, 2)));
  return model;
}

std::string RandomValues::SpaceText() {
  std::string text = Flag() ? "all" : "none";
  for (int64_t i = Integer(0, 6); i > 0; --i) {
    const auto dimension = static_cast<SearchDimension>(Integer(0, kSearchDimensionCount - 1));
    absl::StrAppend(&text, Flag() ? ",-" : ",", SearchDimensionName(dimension));
  }
  return text;
}

v1::PlanningOptions RandomValues::Options() {
  v1::PlanningOptions options;
  if (Flag()) options.set_planner(Id());
  if (Flag()) options.set_memory_headroom_ratio(Ratio());
  options.set_max_tensor_parallel_degree(static_cast<int>(Integer(0, 8)));
  options.set_max_pipeline_parallel_degree(static_cast<int>(Integer(0, 8)));
  options.set_micro_batch_count(Integer(0, 8));
  options.set_schedule(static_cast<v1::Schedule>(Integer(0, kScheduleCount)));
  options.set_disable_recompute(Flag());
  options.set_disable_sharded_data_parallel(Flag());
  options.set_allow_estimates(Flag());
  if (Flag()) *options.mutable_search_time_limit() = Time();
  options.set_max_state_count(Integer(0, 1'000'000));
  if (Flag()) options.set_wanted_gap_ratio(Ratio());
  options.set_compare_baselines(Flag());
  if (Flag()) {
    const absl::Span<const RuntimeTraits> runtimes = KnownRuntimes();
    options.set_runtime_id(
        runtimes[Integer(0, static_cast<int64_t>(runtimes.size()) - 1)].runtime_id);
  }
  if (Flag()) options.set_out_of_memory_probability(1e-6 + 0.49 * Ratio());
  if (Flag()) options.set_space(SpaceText());
  if (Flag()) {
    const absl::Span<const TargetLimits> targets = KnownTargets();
    options.set_target(
        std::string(targets[Integer(0, static_cast<int64_t>(targets.size()) - 1)].name));
  }
  options.set_smallest_global_batch_size(Integer(0, 64));
  options.set_global_batch_size_step(Integer(0, 16));
  options.set_top_plan_count(static_cast<int>(Integer(0, 10)));
  options.set_wants_memory_front(Flag());
  if (Flag()) options.set_ilp_alpha_bytes_per_second(1e12 * Ratio());
  if (Flag()) options.set_partitioner(Flag() ? "even" : "greedy");
  if (Flag()) options.set_memory_granule_bytes(Integer(1 << 20, int64_t{1} << 30));
  if (Flag()) options.set_fused_layer_count(static_cast<int>(Integer(1, 16)));
  const bool is_default_planner = options.planner().empty() || options.planner() == kDefaultPlanner;
  if (is_default_planner && !options.wants_memory_front()) options.set_wants_robust_plan(Flag());
  return options;
}

v1::Profile RandomValues::Profile() {
  v1::Profile profile;
  profile.mutable_provenance()->set_agent("random 1.0");
  profile.mutable_provenance()->mutable_measure_time()->set_seconds(Integer(0, 2'000'000'000));
  profile.set_device_kind("Device");
  profile.set_runtime_id("torch");
  profile.set_devices_per_node(8);
  profile.set_precision(static_cast<v1::Precision>(Integer(1, kPrecisionCount)));
  const int64_t definition_count = Integer(1, 3);
  for (int i = 0; i < definition_count; ++i) {
    const std::string id = absl::StrCat("layer_", i);
    *profile.add_layer_definitions() = LayerDefinition(id);
    // Distinct keys by construction: the degree or the sequence length rises.
    for (int degree = 1; degree <= 1 << Integer(0, 3); degree *= 2) {
      for (int micro_batch = 1; micro_batch <= Integer(1, 4); ++micro_batch) {
        v1::LayerTiming& timing = *profile.add_layer_timings();
        timing.set_layer_definition_id(id);
        timing.set_tensor_parallel_degree(degree);
        timing.set_micro_batch_size(micro_batch);
        *timing.mutable_forward_duration() = Time();
        if (Flag()) *timing.mutable_backward_duration() = Time();
        if (Flag()) *timing.mutable_forward_duration_p90() = timing.forward_duration();
        timing.set_sample_count(static_cast<int>(Integer(0, 100)));
        timing.set_origin(static_cast<v1::Origin>(Integer(0, 3)));
      }
      v1::LayerMemory& memory = *profile.add_layer_memories();
      memory.set_layer_definition_id(id);
      memory.set_tensor_parallel_degree(degree);
      memory.set_sequence_parallel(Flag());
      memory.set_parameter_count(Integer(1, 1'000'000'000));
      memory.set_activation_bytes_per_sample(Integer(1, 1'000'000'000));
      if (Flag()) memory.set_checkpoint_bytes_per_sample(Integer(1, 1'000'000));
      memory.set_origin(static_cast<v1::Origin>(Integer(0, 3)));
    }
  }
  for (int64_t size = 1024; size <= (1 << 20); size *= 4) {
    v1::CollectiveTiming& timing = *profile.add_collective_timings();
    timing.set_collective(static_cast<v1::Collective>(Integer(1, 6)));
    timing.set_participant_count(2);
    timing.set_rank_stride(static_cast<int>(Integer(1, 4)));
    timing.set_message_size_bytes(size);
    *timing.mutable_median_duration() = Time();
    timing.set_origin(static_cast<v1::Origin>(Integer(0, 3)));
  }
  if (Flag()) profile.set_overlap_slowdown(1 + Ratio());
  if (Flag()) profile.set_context_memory_bytes(Integer(0, int64_t{1} << 32));
  if (profile.has_context_memory_bytes() && Flag()) {
    profile.set_communicator_memory_bytes(Integer(0, int64_t{1} << 32));
  }
  return profile;
}

Strategy RandomValues::StrategyOf(int rank_count) {
  Strategy strategy;
  strategy.tensor_parallel_degree = rank_count >> Integer(0, 2);
  if (strategy.tensor_parallel_degree < 1) strategy.tensor_parallel_degree = 1;
  strategy.data_parallel_degree = rank_count / strategy.tensor_parallel_degree;
  if (Flag() && strategy.data_parallel_degree % 2 == 0) {
    const int context = strategy.data_parallel_degree % 4 == 0 ? 4 : 2;
    strategy.context_parallel_degree = context;
    strategy.data_parallel_degree /= context;
    strategy.context_kind = static_cast<ContextKind>(Integer(1, 3));
    if (context == 4 && strategy.context_kind == ContextKind::kRing && Flag()) {
      strategy.context_exchange_degree = 2;
    }
  }
  if (Flag()) {
    strategy.expert_parallel_degree =
        strategy.data_parallel_degree * strategy.context_parallel_degree;
  }
  if (Flag() && strategy.tensor_parallel_degree % 2 == 0) {
    strategy.expert_tensor_parallel_degree = strategy.tensor_parallel_degree / 2;
  }
  strategy.rank_order = static_cast<RankOrder>(Integer(1, 2));
  strategy.sharding_level = static_cast<ShardingLevel>(Integer(1, 4));
  if (strategy.replica_count() % 4 == 0 && strategy.sharding_level != ShardingLevel::kNone &&
      Flag()) {
    strategy.sharding_degree = strategy.replica_count() / 2;
    if (!strategy.has_experts_in_groups()) strategy.sharding_degree = 0;
  }
  strategy.recompute_level = static_cast<RecomputeLevel>(Integer(1, 4));
  if (strategy.recompute_level == RecomputeLevel::kModules) {
    std::vector<RecomputeModule> modules = {static_cast<RecomputeModule>(Integer(2, 7))};
    if (Flag()) modules.push_back(RecomputeModule::kCoreAttention);
    strategy.recompute_modules = *RecomputeModules::Create(modules, "recompute_modules");
  }
  strategy.sequence_parallel = strategy.tensor_parallel_degree > 1 && Flag();
  return strategy;
}

Plan RandomValues::PlanOf(int layer_count) {
  Plan plan;
  const int stage_count = static_cast<int>(Integer(1, std::min(4, layer_count)));
  const int rank_count = 1 << Integer(0, 4);
  plan.micro_batch_count = Integer(1, 16);
  plan.global_batch_size = plan.micro_batch_count * Integer(1, 64);
  plan.schedule = static_cast<Schedule>(Integer(1, kScheduleCount));
  if (plan.schedule == Schedule::kInterleaved && stage_count == 4 && Flag()) {
    plan.virtual_stage_count = 2;
  }
  const int depth = stage_count / plan.virtual_stage_count;
  // Two groups, of which the last is no smaller than the pipeline, or one.
  if (plan.virtual_stage_count > 1 && plan.micro_batch_count > 2 * depth && Flag()) {
    plan.micro_batch_group_size = Flag() ? plan.micro_batch_count - depth : plan.micro_batch_count;
  }
  plan.device_count = depth * rank_count;
  int next_layer = 0;
  for (int i = 0; i < stage_count; ++i) {
    StagePlan stage;
    stage.first_rank = i % depth * rank_count;
    stage.rank_count = rank_count;
    if (i > 0 && i + 1 < stage_count && Integer(0, 3) == 0) {
      plan.stages.push_back(stage);
      continue;
    }
    const int end =
        i + 1 == stage_count ? layer_count : next_layer + (layer_count - next_layer) / 2;
    while (next_layer < std::max(end, i + 1)) {
      StageLayerRun run;
      run.first_layer_index = next_layer;
      run.layer_count = static_cast<int>(Integer(1, std::max(end, i + 1) - next_layer));
      run.strategy = StrategyOf(rank_count);
      next_layer += run.layer_count;
      stage.layer_runs.push_back(run);
    }
    plan.stages.push_back(stage);
  }
  return plan;
}

Prediction RandomValues::PredictionOf(int stage_count) {
  const auto time = [this] { return *SecondsFromProto(Time(), "time"); };
  Prediction prediction;
  prediction.step = time();
  prediction.samples_per_second = 1000 * Ratio();
  prediction.usable_memory = Bytes::Of(Integer(0, int64_t{1} << 36));
  for (int i = 0; i < stage_count; ++i) {
    StagePrediction stage;
    stage.forward = time();
    stage.backward = time();
    stage.gradient_sync = time();
    stage.optimizer_step = time();
    stage.send = time();
    stage.idle_ratio = Ratio();
    stage.in_flight_micro_batch_count = Integer(1, 64);
    for (Bytes& size : stage.memory.size) size = Bytes::Of(Integer(0, int64_t{1} << 34));
    for (Seconds& duration : stage.time.duration) duration = time();
    prediction.peak_memory = std::max(prediction.peak_memory, stage.peak_memory());
    prediction.stages.push_back(stage);
  }
  prediction.step_lower = time();
  prediction.step_upper = prediction.step_lower + time();
  prediction.peak_memory_lower = Bytes::Of(Integer(0, int64_t{1} << 36));
  prediction.peak_memory_upper =
      prediction.peak_memory_lower + Bytes::Of(Integer(0, int64_t{1} << 36));
  prediction.range_basis = Id();
  prediction.bottleneck = static_cast<Bottleneck>(Integer(1, 5));
  prediction.bottleneck_text = Id();
  prediction.confidence = static_cast<Confidence>(Integer(1, 3));
  for (int64_t i = Integer(0, 3); i > 0; --i) prediction.estimated_items.push_back(Id());
  return prediction;
}

SearchSummary RandomValues::Summary() {
  SearchSummary summary;
  summary.termination = static_cast<Termination>(Integer(1, 2));
  summary.limit = static_cast<SearchLimit>(Integer(0, 4));
  summary.bound = *SecondsFromProto(Time(), "bound");
  summary.gap_ratio = Ratio();
  summary.expanded_state_count = Integer(0, 1'000'000'000'000);
  summary.pruned_state_count = Integer(0, 1'000'000'000'000);
  summary.candidate_count = Integer(0, 1'000'000);
  return summary;
}

}  // namespace parplan
