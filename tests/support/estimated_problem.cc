#include "tests/support/estimated_problem.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/valid.h"

namespace parplan {
namespace {

LayerDefinition Definition(LayerDefinition raw, const EstimatedOptions& options) {
  raw.hidden_size = options.hidden_size;
  raw.sequence_length = options.sequence_length;
  return Valid(LayerDefinition::Create(std::move(raw), "layer"));
}

ModelSpec Model(const EstimatedOptions& options) {
  LayerDefinition embedding;
  embedding.layer_definition_id = "embedding";
  embedding.kind = LayerKind::kEmbedding;
  embedding.vocabulary_size = options.vocabulary_size;
  LayerDefinition decoder;
  decoder.layer_definition_id = "decoder";
  decoder.kind = LayerKind::kDecoder;
  decoder.attention_head_count = options.attention_head_count;
  decoder.feed_forward_size = 4 * options.hidden_size;
  decoder.feed_forward_kind = FeedForwardKind::kGelu;
  if (options.expert_count > 0) {
    decoder.expert_count = options.expert_count;
    decoder.experts_per_token = std::min(2, options.expert_count);
    decoder.expert_feed_forward_size = options.hidden_size;
  }
  LayerDefinition head;
  head.layer_definition_id = "head";
  head.kind = LayerKind::kHead;
  head.vocabulary_size = options.vocabulary_size;
  head.tied_embedding = options.tied_embedding;
  return Valid(ModelSpec::Create(
      "estimated",
      {Definition(embedding, options), Definition(decoder, options), Definition(head, options)},
      {{0, 1}, {1, options.decoder_count}, {2, 1}}, Precision::kBf16, Optimizer::kAdam));
}

}  // namespace

Hardware EightA100Nodes(double device_speed, double link_speed, double network_speed) {
  Hardware hardware;
  hardware.device = {.device_id = "a100-sxm-80gb",
                     .device_family = "ampere",
                     .matrix_flops_16_bit = 312e12 * device_speed,
                     .matrix_flops_fp32 = 156e12 * device_speed,
                     .vector_flops_fp32 = 19.5e12 * device_speed,
                     .memory = Bytes::Of(int64_t{80} << 30),
                     .memory_bytes_per_second = 2.039e12 * device_speed,
                     .last_level_cache = Bytes::Of(int64_t{40} << 20),
                     .multiprocessor_count = 108};
  hardware.fabric = {.fabric_id = "nvlink-3+hdr-8x200",
                     .intra_node = {.link_id = "nvlink-3",
                                    .bytes_per_second_per_device = 300e9 * link_speed,
                                    .latency = Seconds::Of(2e-6)},
                     .inter_node = {.link_id = "hdr-8x200",
                                    .bytes_per_second_per_device = 25e9 * link_speed,
                                    .bytes_per_second_per_node = 200e9 * link_speed,
                                    .latency = Seconds::Of(5e-6)}};
  hardware.fabric.inter_node.bytes_per_second_per_device *= network_speed;
  hardware.fabric.inter_node.bytes_per_second_per_node *= network_speed;
  return hardware;
}

PlanningProblem EstimatedProblem(const EstimatedOptions& options) {
  const int per_node = std::min(options.devices_per_node, options.device_count);
  NodeGroup group{.node_group_id = "nodes",
                  .device_kind = "a100-sxm-80gb",
                  .node_count = options.device_count / per_node,
                  .devices_per_node = per_node,
                  .device_memory = Bytes::Of(int64_t{80} << 30)};
  std::vector<LinkTier> tiers = {{"node", per_node}};
  if (group.node_count > 1) tiers.push_back({"network", options.device_count});
  Knowledge knowledge;
  knowledge.groups.emplace_back().hardware = std::make_shared<const Hardware>(
      EightA100Nodes(options.device_speed, options.link_speed, options.network_speed));
  return Valid(PlanningProblem::Create(
      std::make_shared<const ModelSpec>(Model(options)),
      std::make_shared<const Topology>(Valid(Topology::Create("estimated", {group}, tiers))),
      std::move(knowledge), options.global_batch_size, options.rules));
}

PlanningProblem EstimatedProblemOf(const LayerDefinition& layer, int layer_count, int device_count,
                                   int64_t global_batch_size) {
  const PlanningProblem base =
      EstimatedProblem({.device_count = device_count, .global_batch_size = global_batch_size});
  LayerDefinition embedding = base.model().layer(0);
  LayerDefinition head = base.model().layer(base.model().layer_count() - 1);
  for (LayerDefinition* const table : {&embedding, &head}) {
    table->hidden_size = layer.hidden_size;
    table->sequence_length = layer.sequence_length;
    table->parameter_count = 0;
    table->tied_embedding = false;
    *table = Valid(LayerDefinition::Create(*table, "table"));
  }
  Knowledge knowledge;
  knowledge.groups.emplace_back().hardware = std::make_shared<const Hardware>(EightA100Nodes());
  return Valid(PlanningProblem::Create(
      std::make_shared<const ModelSpec>(
          Valid(ModelSpec::Create("m", {embedding, layer, head}, {{0, 1}, {1, layer_count}, {2, 1}},
                                  Precision::kBf16, Optimizer::kAdam))),
      std::make_shared<const Topology>(base.topology()), std::move(knowledge), global_batch_size,
      base.rules()));
}

PlanningProblem JoinedProblem(const PlanningProblem& first, const PlanningProblem& joined) {
  std::vector<NodeGroup> groups;
  Knowledge knowledge;
  for (const PlanningProblem* problem : {&first, &joined}) {
    groups.push_back(problem->node_group(kFirstGroup));
    knowledge.groups.push_back(
        {.profile = std::make_shared<const ProfileSnapshot>(problem->profile(kFirstGroup)),
         .hardware = std::make_shared<const Hardware>(*problem->hardware(kFirstGroup))});
  }
  groups.back().node_group_id = "joined";
  const int device_count = first.device_count() + joined.device_count();
  return Valid(PlanningProblem::Create(
      std::make_shared<const ModelSpec>(first.model()),
      std::make_shared<const Topology>(
          Valid(Topology::Create("joined", groups, {{"network", device_count}}))),
      std::move(knowledge), first.global_batch_size(), first.rules()));
}

Plan PlanOf(const PlanningProblem& problem, const UniformPlan& uniform) {
  Plan plan;
  plan.device_count = problem.device_count();
  plan.global_batch_size = problem.global_batch_size();
  plan.micro_batch_count = uniform.micro_batch_count;
  plan.schedule = uniform.virtual_stage_count > 1
                      ? Schedule::kInterleaved
                      : problem.rules().schedule.value_or(Schedule::kOneForwardOneBackward);
  plan.virtual_stage_count = uniform.virtual_stage_count;
  const int depth = uniform.pipeline_parallel_degree;
  const int stage_count = depth * uniform.virtual_stage_count;
  const int decoders = problem.model().layer_count() - 2;
  Strategy plain = uniform.strategy;
  plain.set_recomputation(RecomputeLevel::kNone);
  plain.expert_parallel_degree = 1;
  int next = 0;
  for (int index = 0; index < stage_count; ++index) {
    StagePlan stage;
    stage.rank_count = problem.device_count() / depth;
    stage.first_rank = stage.rank_count * (index % depth);
    if (index == 0) {
      stage.layer_runs.push_back({0, 1, plain});
      next = 1;
    }
    const int end = 1 + static_cast<int>(int64_t{decoders} * (index + 1) / stage_count);
    if (end > next) stage.layer_runs.push_back({next, end - next, uniform.strategy});
    next = end;
    if (index + 1 == stage_count) stage.layer_runs.push_back({next, 1, plain});
    plan.stages.push_back(std::move(stage));
  }
  return plan;
}

}  // namespace parplan
