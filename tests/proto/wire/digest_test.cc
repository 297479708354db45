#include "proto/wire/digest.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "proto/wire/model_wire.h"
#include "proto/wire/part_of_node.h"
#include "proto/wire/topology_wire.h"
#include "tests/proto/wire/small_profile.h"
#include "tests/support/sample_layers.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

Topology SmallTopology(const std::function<void(v1::ClusterTopology&)>& change = {}) {
  v1::ClusterTopology message;
  message.set_cluster("lab");
  v1::NodeGroup& group = *message.add_node_groups();
  group.set_node_group_id("a");
  group.set_device_kind("GPU \"40GB\"");
  group.set_node_count(2);
  group.add_node_names("n0");
  group.add_node_names("n1");
  group.set_devices_per_node(8);
  group.set_device_memory_bytes(42'949'672'960);
  group.set_reserved_memory_bytes(1024);
  v1::LinkTier& inner = *message.add_link_tiers();
  inner.set_tier_id("nvlink");
  inner.set_reach_device_count(8);
  v1::LinkTier& outer = *message.add_link_tiers();
  outer.set_tier_id("fabric");
  outer.set_reach_device_count(16);
  if (change) change(message);
  return TopologyFromProto(message).value();
}

ModelSpec SmallModel(const std::function<void(v1::ModelSpec&)>& change = {}) {
  v1::ModelSpec message;
  message.set_model_id("small");
  *message.add_layer_definitions() = SmallProfile().layer_definitions(0);
  v1::LayerDefinition& head = *message.add_layer_definitions();
  head.set_layer_definition_id("head");
  head.set_kind(v1::LAYER_KIND_HEAD);
  head.set_hidden_size(64);
  head.set_sequence_length(32);
  head.set_vocabulary_size(1000);
  v1::ModelLayerRun& decoders = *message.add_layer_runs();
  decoders.set_layer_definition_id("decoder");
  decoders.set_layer_count(3);
  v1::ModelLayerRun& heads = *message.add_layer_runs();
  heads.set_layer_definition_id("head");
  heads.set_layer_count(1);
  message.set_precision(v1::PRECISION_BF16);
  message.set_optimizer(v1::OPTIMIZER_ADAM);
  if (change) change(message);
  return ModelFromProto(message).value();
}

std::string SnapshotDigestOf(const v1::Profile& profile) {
  const v1::Profile* const pointer = &profile;
  return SnapshotOfNodes({&pointer, 1}, profile.device_kind(), profile.devices_per_node(),
                         "parplan")
      .value()
      .digest();
}

std::string Key(const std::function<void(PlanningRules&)>& change = {},
                const std::string& planner = "galvatron", int64_t batch = 64) {
  PlanningRules rules;
  if (change) change(rules);
  return PlanKey("model", "topology", "snapshot", batch, rules, planner, "0.1.0");
}

TEST(Sha256Hex, AgreesWithFips180) {
  EXPECT_EQ(Sha256Hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Sha256Hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(CanonicalText, IsWhatDigestHSays) {
  EXPECT_EQ(TopologyText(SmallTopology()),
            "parplan topology 1\n"
            "cluster \"lab\"\n"
            "node_group \"a\" \"GPU \\x2240GB\\x22\" 2 8 42949672960 1024\n"
            "node \"n0\"\n"
            "node \"n1\"\n"
            "link_tier \"nvlink\" 8\n"
            "link_tier \"fabric\" 16\n");
  const ModelSpec model = SmallModel();
  EXPECT_EQ(ModelText(model), "parplan model 1\nprecision 2\noptimizer 1\nlayers 3 " +
                                  LayerDigest(model.layer(0), Precision::kBf16) + " 32\nlayers 1 " +
                                  LayerDigest(model.layer(3), Precision::kBf16) + " 32\n");
}

// Computed from the documented texts by another program (Python's hashlib). A
// change of these breaks every stored key and digest. It needs a new version
// number in the first line of the text, not only a new value here.
TEST(Digest, GoldenValues) {
  EXPECT_EQ(TopologyDigest(SmallTopology()),
            "21f10cde9bdad6a258ee1c48101d96d7bd94cd7e9775faf6372a12b0f67027de");
  EXPECT_EQ(ModelDigest(SmallModel()),
            "1b166bc3723759ac7e00ca986063f6c32401258d358d7705e4454885592c82a5");
  EXPECT_EQ(LayerDigest(SmallModel().layer(0), Precision::kBf16),
            "89de393307725a65cdf2bc6f2230784754d257ad119ff22a061264150e942743");
  EXPECT_EQ(ProfileContentDigest(SmallProfile()),
            "313bf5b39b065634f855ece1d455029ca897a1611b8c6ce6c801184cf0fe72e1");
  EXPECT_EQ(SnapshotDigestOf(SmallProfile()),
            "59de5a570f3bf1216d99b0fc5fd224a1c6217def872d2e4ae2051c0e2f5820e7");
  EXPECT_EQ(Key(), "b3b3f203c569d5b74e4ea0e982f0c5e0faf134382cffe8bf8da10da0142186ab");
}

TEST(TopologyDigest, EveryFieldChangesIt) {
  const auto group = [](v1::ClusterTopology& t) { return t.mutable_node_groups(0); };
  const auto tier = [](v1::ClusterTopology& t) { return t.mutable_link_tiers(0); };
  const std::vector<std::function<void(v1::ClusterTopology&)>> changes = {
      [](auto&) {},
      [](auto& t) { t.set_cluster("lab2"); },
      [&](auto& t) { group(t)->set_node_group_id("b"); },
      [&](auto& t) { group(t)->set_device_kind("GPU"); },
      [&](auto& t) { group(t)->clear_node_names(); },
      [&](auto& t) { group(t)->mutable_node_names()->SwapElements(0, 1); },
      [&](auto& t) {
        group(t)->set_node_count(1);
        group(t)->mutable_node_names()->RemoveLast();
      },
      [&](auto& t) { group(t)->set_devices_per_node(7); },
      [&](auto& t) { group(t)->set_device_memory_bytes(42'949'672'961); },
      [&](auto& t) { group(t)->set_reserved_memory_bytes(0); },
      [&](auto& t) { tier(t)->set_tier_id("pcie"); },
      [&](auto& t) { tier(t)->set_reach_device_count(4); },
  };
  std::set<std::string> digests;
  for (const auto& change : changes) digests.insert(TopologyDigest(SmallTopology(change)));
  EXPECT_EQ(digests.size(), changes.size());
}

TEST(ModelDigest, EveryFieldButNamesChangesIt) {
  const auto decoder = [](v1::ModelSpec& m) { return m.mutable_layer_definitions(0); };
  // Another layer between the decoders and the head.
  const auto add_other = [&](v1::ModelSpec& m) {
    v1::LayerDefinition other = *decoder(m);
    other.set_layer_definition_id("other");
    other.set_feed_forward_size(1024);
    *m.add_layer_definitions() = other;
    v1::ModelLayerRun& run = *m.add_layer_runs();
    run.set_layer_definition_id("other");
    run.set_layer_count(1);
    m.mutable_layer_runs()->SwapElements(1, 2);
  };
  const std::vector<std::function<void(v1::ModelSpec&)>> changes = {
      [](auto&) {},
      [&](auto& m) { decoder(m)->set_kind(v1::LAYER_KIND_ENCODER); },
      [&](auto& m) { decoder(m)->set_hidden_size(128); },
      [&](auto& m) { decoder(m)->set_attention_head_count(8); },
      [&](auto& m) { decoder(m)->set_key_value_head_count(2); },
      [&](auto& m) { decoder(m)->set_head_size(8); },
      [&](auto& m) { decoder(m)->set_feed_forward_size(512); },
      [&](auto& m) { decoder(m)->set_feed_forward_kind(v1::FEED_FORWARD_KIND_SWIGLU); },
      [&](auto& m) { decoder(m)->set_sequence_length(64); },
      [&](auto& m) { decoder(m)->set_parameter_count(1); },
      [&](auto& m) { decoder(m)->set_attention_window(8); },
      [&](auto& m) { decoder(m)->set_attention_chunk_size(8); },
      [&](auto& m) {
        decoder(m)->set_feed_forward_kind(v1::FEED_FORWARD_KIND_NONE),
            decoder(m)->set_feed_forward_size(0);
      },
      [](auto& m) { m.mutable_layer_definitions(1)->set_vocabulary_size(1001); },
      [](auto& m) { m.mutable_layer_definitions(1)->set_tied_embedding(true); },
      [](auto& m) { m.mutable_layer_runs(0)->set_layer_count(4); },
      [&](auto& m) { add_other(m); },
      [&](auto& m) {
        add_other(m);
        m.mutable_layer_runs()->SwapElements(0, 1);
      },
      [](auto& m) { m.set_precision(v1::PRECISION_FP16); },
      [](auto& m) { m.set_optimizer(v1::OPTIMIZER_SGD); },
  };
  std::set<std::string> digests;
  for (const auto& change : changes) digests.insert(ModelDigest(SmallModel(change)));
  EXPECT_EQ(digests.size(), changes.size());
}

TEST(ModelDigest, NamesAndSpellingDoNotChangeIt) {
  const std::string digest = ModelDigest(SmallModel());
  EXPECT_EQ(digest, ModelDigest(SmallModel([](auto& m) { m.set_model_id("other"); })));
  EXPECT_EQ(digest, ModelDigest(SmallModel([](auto& m) {
              m.mutable_layer_definitions(0)->set_layer_definition_id("block");
              m.mutable_layer_runs(0)->set_layer_definition_id("block");
            })));
  EXPECT_EQ(digest, ModelDigest(SmallModel([](auto& m) {
              m.mutable_layer_runs(0)->set_layer_count(2);
              *m.add_layer_runs() = m.layer_runs(0);
              m.mutable_layer_runs(2)->set_layer_count(1);
              m.mutable_layer_runs()->SwapElements(1, 2);
            })))
      << "three layers as two runs";
  EXPECT_EQ(
      digest,
      ModelDigest(SmallModel([](auto& m) { m.mutable_layer_definitions()->SwapElements(0, 1); })));
  EXPECT_EQ(digest, ModelDigest(SmallModel([](auto& m) {
              m.mutable_layer_definitions(0)->set_key_value_head_count(4);
              m.mutable_layer_definitions(0)->set_head_size(16);
            })))
      << "defaults written out";
}

TEST(LayerDigest, IsEqualForTheSameLayerOnly) {
  const LayerDefinition layer = SmallModel().layer(0);
  LayerDefinition renamed = layer;
  renamed.layer_definition_id = "other";
  renamed.sequence_length = 4096;
  ASSERT_TRUE(SameLayer(layer, renamed));
  EXPECT_EQ(LayerDigest(layer, Precision::kBf16), LayerDigest(renamed, Precision::kBf16));
  EXPECT_NE(LayerDigest(layer, Precision::kBf16), LayerDigest(layer, Precision::kFp16));
}

// Definitions of each structure, and with one number of it changed.
TEST(LayerDigest, DependsOnEveryNumberOfAStructure) {
  std::vector<LayerDefinition> layers = LayersOfAllStructures();
  const size_t latent = 0, selective = 2, prediction = 6, opaque = 7;
  const auto change = [&layers](size_t index, auto&& break_it) {
    layers.push_back(layers[index]);
    break_it(layers.back());
  };
  change(latent, [](auto& l) { ++l.latent_attention->query_rank; });
  change(latent, [](auto& l) { ++l.latent_attention->key_value_rank; });
  change(latent, [](auto& l) { ++l.latent_attention->rotary_head_size; });
  change(latent, [](auto& l) { ++l.latent_attention->value_head_size; });
  change(selective, [](auto& l) { l.state_space->kind = StateSpaceKind::kDual; });
  change(selective, [](auto& l) { ++l.state_space->inner_size; });
  change(selective, [](auto& l) { ++l.state_space->state_size; });
  change(selective, [](auto& l) { ++l.state_space->head_count; });
  change(selective, [](auto& l) { ++l.state_space->group_count; });
  change(selective, [](auto& l) { ++l.state_space->time_step_rank; });
  change(selective, [](auto& l) { ++l.state_space->convolution_width; });
  change(selective, [](auto& l) { ++l.state_space->chunk_size; });
  change(prediction, [](auto& l) { ++l.prediction_depth; });
  change(prediction, [](auto& l) { ++l.further_token_count; });
  change(latent, [](auto& l) { l.wide_products = true; });
  change(latent, [](auto& l) { ++l.expert_latent_size; });
  change(latent, [](auto& l) { l.frozen = true; });
  change(latent, [](auto& l) { l.frozen = true, ++l.attention_adapter_rank; });
  change(latent, [](auto& l) { l.frozen = true, ++l.feed_forward_adapter_rank; });
  change(opaque, [](auto& l) { ++l.opaque->kept_bytes_per_sample; });
  change(opaque, [](auto& l) { ++l.opaque->boundary_bytes_per_sample; });
  change(opaque, [](auto& l) { l.opaque->tensor_degrees.clear(); });
  change(opaque, [](auto& l) { ++l.opaque->tensor_degrees[0].tensor_parallel_degree; });
  change(opaque, [](auto& l) { ++l.opaque->tensor_degrees[0].parameter_count; });
  change(opaque, [](auto& l) { ++l.opaque->tensor_degrees[0].kept_bytes_per_sample; });
  change(opaque, [](auto& l) { ++l.opaque->tensor_degrees[0].forward_all_reduce_count; });
  change(opaque, [](auto& l) { ++l.opaque->tensor_degrees[0].backward_all_reduce_count; });
  change(opaque, [](auto& l) { ++l.opaque->tensor_degrees[0].all_reduce_bytes_per_sample; });
  std::set<std::string> digests;
  for (const LayerDefinition& layer : layers) {
    digests.insert(LayerDigest(layer, Precision::kBf16));
  }
  EXPECT_EQ(digests.size(), layers.size());
}

TEST(ProfileContentDigest, EveryInputFieldChangesIt) {
  const std::vector<std::function<void(v1::Profile&)>> changes = {
      [](auto&) {},
      [](auto& p) { p.mutable_provenance()->set_agent("a"); },
      [](auto& p) { p.mutable_provenance()->set_source("a"); },
      [](auto& p) { p.mutable_provenance()->set_driver_version("a"); },
      [](auto& p) { p.mutable_provenance()->add_library_versions()->set_library("a"); },
      [](auto& p) { p.mutable_provenance()->add_library_versions()->set_version("a"); },
      [](auto& p) { p.mutable_provenance()->mutable_measure_time(); },
      [](auto& p) { p.mutable_provenance()->add_notes("a"); },
      [](auto& p) { p.set_device_kind("b"); },
      [](auto& p) { p.set_runtime_id("a"); },
      [](auto& p) { p.set_devices_per_node(4); },
      [](auto& p) { p.set_precision(v1::PRECISION_FP16); },
      [](auto& p) { p.mutable_layer_definitions(0)->set_layer_definition_id("b"); },
      [](auto& p) { p.mutable_layer_definitions(0)->set_sequence_length(64); },
      [](auto& p) { p.mutable_layer_timings(0)->set_layer_definition_id("b"); },
      [](auto& p) { p.mutable_layer_timings(0)->set_tensor_parallel_degree(2); },
      [](auto& p) { p.mutable_layer_timings(0)->set_micro_batch_size(4); },
      [](auto& p) { p.mutable_layer_timings(0)->set_sequence_length(32); },
      [](auto& p) { p.mutable_layer_timings(0)->mutable_forward_duration()->set_nanos(1); },
      [](auto& p) { p.mutable_layer_timings(0)->mutable_backward_duration(); },
      [](auto& p) { p.mutable_layer_timings(0)->mutable_forward_duration_p90(); },
      [](auto& p) { p.mutable_layer_timings(0)->set_sample_count(1); },
      [](auto& p) { p.mutable_layer_timings(0)->set_origin(v1::ORIGIN_MEASURED); },
      [](auto& p) { p.mutable_layer_memories(0)->set_sequence_parallel(true); },
      [](auto& p) { p.mutable_layer_memories(0)->set_parameter_count(1); },
      [](auto& p) { p.mutable_layer_memories(0)->set_activation_bytes_per_sample(1); },
      [](auto& p) { p.mutable_layer_memories(0)->set_checkpoint_bytes_per_sample(0); },
      [](auto& p) { p.mutable_collective_timings(0)->set_collective(v1::COLLECTIVE_BROADCAST); },
      [](auto& p) { p.mutable_collective_timings(0)->set_participant_count(4); },
      [](auto& p) { p.mutable_collective_timings(0)->set_rank_stride(4); },
      [](auto& p) { p.mutable_collective_timings(0)->set_message_size_bytes(4); },
      [](auto& p) { p.mutable_collective_timings(0)->mutable_median_duration()->set_nanos(1); },
      [](auto& p) { p.mutable_collective_timings(0)->mutable_p90_duration()->set_nanos(1); },
      [](auto& p) { p.mutable_collective_timings(0)->set_sample_count(4); },
      [](auto& p) { p.set_overlap_slowdown(1.3); },
      [](auto& p) { p.clear_overlap_slowdown(); },
      [](auto& p) { p.clear_context_memory_bytes(); },
      [](auto& p) { p.set_communicator_memory_bytes(0); },
      [](auto& p) { p.set_communicator_memory_bytes(1); },
  };
  std::set<std::string> digests;
  for (const auto& change : changes) {
    v1::Profile profile = SmallProfile();
    change(profile);
    digests.insert(ProfileContentDigest(profile));
  }
  EXPECT_EQ(digests.size(), changes.size());
}

TEST(ProfileContentDigest, OutputFieldsDoNotChangeIt) {
  v1::Profile profile = SmallProfile();
  profile.set_name("clusters/c/nodes/n/profiles/p");
  profile.set_digest("x");
  profile.mutable_create_time()->set_seconds(1);
  EXPECT_EQ(ProfileContentDigest(profile), ProfileContentDigest(SmallProfile()));
}

TEST(SnapshotDigest, MeasuredValuesChangeItAndProvenanceDoesNot) {
  const std::vector<std::function<void(v1::Profile&)>> changes = {
      [](auto&) {},
      [](auto& p) { p.set_device_kind("b"); },
      [](auto& p) { p.set_devices_per_node(4); },
      [](auto& p) { p.set_precision(v1::PRECISION_FP16); },
      [](auto& p) { p.mutable_layer_definitions(0)->set_hidden_size(128); },
      [](auto& p) { p.mutable_layer_timings(0)->mutable_forward_duration()->set_nanos(1); },
      [](auto& p) { p.mutable_layer_timings(0)->mutable_backward_duration()->set_nanos(1); },
      [](auto& p) { p.mutable_layer_timings(0)->set_origin(v1::ORIGIN_DERIVED); },
      [](auto& p) { p.mutable_layer_timings(0)->set_sequence_length(64); },
      [](auto& p) { p.mutable_layer_memories(0)->set_parameter_count(1); },
      [](auto& p) { p.mutable_layer_memories(0)->set_checkpoint_bytes_per_sample(0); },
      [](auto& p) { p.mutable_collective_timings(0)->mutable_median_duration()->set_nanos(1); },
      [](auto& p) { p.clear_collective_timings(); },
      [](auto& p) { p.clear_overlap_slowdown(); },
      [](auto& p) { p.clear_context_memory_bytes(); },
      [](auto& p) { p.set_communicator_memory_bytes(0); },
      [](auto& p) { p.set_communicator_memory_bytes(1); },
  };
  std::set<std::string> digests;
  for (const auto& change : changes) {
    v1::Profile profile = SmallProfile();
    change(profile);
    digests.insert(SnapshotDigestOf(profile));
  }
  EXPECT_EQ(digests.size(), changes.size());

  v1::Profile same = SmallProfile();
  same.mutable_provenance()->set_agent("other");
  same.mutable_layer_timings(0)->set_sequence_length(32);
  same.mutable_layer_timings(0)->set_origin(v1::ORIGIN_MEASURED);
  same.mutable_layer_timings(0)->set_sample_count(7);
  EXPECT_EQ(SnapshotDigestOf(same), SnapshotDigestOf(SmallProfile()));
}

TEST(PlanKey, EveryRuleChangesIt) {
  const PlanningRules rules;
  std::set<std::string> keys = {
      Key(),
      Key([](auto& r) { r.memory_headroom_ratio = 0.05000000000000001; }),
      Key([](auto& r) { r.memory_headroom_ratio = 0.05; }),
      Key([](auto& r) { r.runtime = *FindRuntime("megatron-core"); }),
      Key([](auto& r) { r.out_of_memory_risk = 0.02; }),
      Key([](auto& r) { r.max_tensor_parallel_degree = 1; }),
      Key([](auto& r) { r.max_pipeline_parallel_degree = 1; }),
      Key([](auto& r) { r.micro_batch_count = 1; }),
      Key([](auto& r) { r.schedule = Schedule::kOneForwardOneBackward; }),
      Key([](auto& r) { r.schedule = Schedule::kGpipe; }),
      Key([](auto& r) { r.dimensions = r.dimensions.Without(SearchDimension::kGpipe); }),
      Key([](auto& r) { r.target = Target::kMegatron; }),
      Key([](auto& r) { r.smallest_global_batch_size = 1; }),
      Key([](auto& r) { r.global_batch_size_step = 2; }),
      Key([](auto& r) { r.top_plan_count = 2; }),
      Key([](auto& r) { r.wants_memory_front = true; }),
      Key([](auto& r) { r.ilp_alpha_bytes_per_second = 0.0; }),
      Key([](auto& r) { r.ilp_alpha_bytes_per_second = 1e9; }),
      Key([](auto& r) { r.partitioner = Partitioner::kEven; }),
      Key([](auto& r) { r.partitioner = Partitioner::kGreedy; }),
      Key([](auto& r) { r.memory_granule = Bytes::Of(2 << 20); }),
      Key([](auto& r) { r.fused_layer_count = 2; }),
      Key([](auto& r) { r.allow_recompute = false; }),
      Key([](auto& r) { r.allow_sharded_data_parallel = false; }),
      Key([](auto& r) { r.allow_estimates = true; }),
      Key({}, "galvatron-base"),
      Key({}, "galvatron", 65),
      PlanKey("m", "topology", "snapshot", 64, rules, "galvatron", "0.1.0"),
      PlanKey("model", "t", "snapshot", 64, rules, "galvatron", "0.1.0"),
      PlanKey("model", "topology", "s", 64, rules, "galvatron", "0.1.0"),
      PlanKey("model", "topology", "snapshot", 64, rules, "galvatron", "0.1.1"),
      PlanKey("model", "topology", "snapshot", 64, rules, "galvatron", "0.1.0", "hardware"),
      PlanKey("model", "topology", "snapshot", 64, rules, "galvatron", "0.1.0", "", "calibration"),
  };
  EXPECT_EQ(keys.size(), 33u);
}

}  // namespace
}  // namespace parplan
