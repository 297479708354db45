#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "proto/wire/profile_wire.h"
#include "tests/proto/wire/random_values.h"
#include "tests/proto/wire/small_profile.h"
#include "tests/support/rejection.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

TEST(ValidateProfile, AcceptsValidProfiles) {
  EXPECT_OK(ValidateProfile(SmallProfile()));
  for (uint64_t seed = 0; seed < 100; ++seed) {
    EXPECT_OK(ValidateProfile(RandomValues(seed).Profile())) << "seed " << seed;
  }
}

TEST(ValidateProfile, NeedsNoPrecisionWithoutLayers) {
  v1::Profile profile = SmallProfile();
  profile.clear_layer_timings();
  profile.clear_layer_memories();
  profile.clear_precision();
  EXPECT_OK(ValidateProfile(profile));
}

TEST(ValidateProfile, NamesTheFieldThatBreaksARule) {
  struct Case {
    std::string field;
    std::function<void(v1::Profile&)> change;
  };
  const auto definition = [](v1::Profile& p) { return p.mutable_layer_definitions(0); };
  const auto timing = [](v1::Profile& p) { return p.mutable_layer_timings(0); };
  const auto memory = [](v1::Profile& p) { return p.mutable_layer_memories(0); };
  const auto collective = [](v1::Profile& p) { return p.mutable_collective_timings(0); };
  const auto optimizer = [](v1::Profile& p) {
    v1::OptimizerTiming* const added = p.add_optimizer_timings();
    added->set_optimizer(v1::OPTIMIZER_ADAM);
    added->set_parameter_count(1000);
    added->mutable_median_duration()->set_nanos(1000);
    return added;
  };
  v1::Profile with_optimizer = SmallProfile();
  optimizer(with_optimizer);
  EXPECT_OK(ValidateProfile(with_optimizer));
  const auto no_origin = static_cast<v1::Origin>(9);
  const std::vector<Case> cases = {
      {"provenance", [](auto& p) { p.clear_provenance(); }},
      {"provenance.agent", [](auto& p) { p.mutable_provenance()->clear_agent(); }},
      {"provenance.measure_time",
       [](auto& p) { p.mutable_provenance()->mutable_measure_time()->set_nanos(-1); }},
      {"device_kind", [](auto& p) { p.clear_device_kind(); }},
      {"devices_per_node", [](auto& p) { p.set_devices_per_node(0); }},
      {"precision", [](auto& p) { p.clear_precision(); }},
      {"precision", [](auto& p) { p.set_precision(static_cast<v1::Precision>(99)); }},
      {"layer_definitions[0].hidden_size", [&](auto& p) { definition(p)->set_hidden_size(0); }},
      {"layer_definitions[1].layer_definition_id",
       [&](auto& p) { *p.add_layer_definitions() = *definition(p); }},
      {"layer_timings[0].layer_definition_id",
       [&](auto& p) { timing(p)->set_layer_definition_id("other"); }},
      {"layer_timings[0].tensor_parallel_degree",
       [&](auto& p) { timing(p)->set_tensor_parallel_degree(0); }},
      {"layer_timings[0].micro_batch_size", [&](auto& p) { timing(p)->set_micro_batch_size(0); }},
      {"layer_timings[0].sequence_length", [&](auto& p) { timing(p)->set_sequence_length(-1); }},
      {"layer_timings[0].forward_duration", [&](auto& p) { timing(p)->clear_forward_duration(); }},
      {"layer_timings[0].forward_duration",
       [&](auto& p) { timing(p)->mutable_forward_duration()->set_nanos(0); }},
      {"layer_timings[0].forward_duration",
       [&](auto& p) { timing(p)->mutable_forward_duration()->set_nanos(-5); }},
      {"layer_timings[0].backward_duration",
       [&](auto& p) { timing(p)->mutable_backward_duration(); }},
      {"layer_timings[0].forward_duration_p90",
       [&](auto& p) { timing(p)->mutable_forward_duration_p90()->set_nanos(4'999'999); }},
      {"layer_timings[0].sample_count", [&](auto& p) { timing(p)->set_sample_count(-1); }},
      {"layer_timings[0].origin", [&](auto& p) { timing(p)->set_origin(no_origin); }},
      // The sequence length of the definition, written out, is the same key.
      {"layer_timings[1]",
       [&](auto& p) {
         *p.add_layer_timings() = *timing(p);
         p.mutable_layer_timings(1)->set_sequence_length(32);
       }},
      {"layer_memories[0].layer_definition_id",
       [&](auto& p) { memory(p)->clear_layer_definition_id(); }},
      {"layer_memories[0].tensor_parallel_degree",
       [&](auto& p) { memory(p)->set_tensor_parallel_degree(-1); }},
      {"layer_memories[0].sequence_length", [&](auto& p) { memory(p)->set_sequence_length(-1); }},
      {"layer_memories[0].parameter_count", [&](auto& p) { memory(p)->set_parameter_count(-1); }},
      {"layer_memories[0].activation_bytes_per_sample",
       [&](auto& p) { memory(p)->set_activation_bytes_per_sample(-1); }},
      {"layer_memories[0].activation_bytes_per_sample",
       [&](auto& p) { memory(p)->set_activation_bytes_per_sample(int64_t{1} << 45); }},
      {"layer_memories[0].parameter_count",
       [&](auto& p) { memory(p)->set_parameter_count(int64_t{1} << 60); }},
      {"context_memory_bytes", [](auto& p) { p.set_context_memory_bytes(int64_t{1} << 62); }},
      {"layer_timings[0].forward_duration",
       [](auto& p) { p.mutable_layer_timings(0)->mutable_forward_duration()->set_seconds(3601); }},
      {"layer_memories[0].checkpoint_bytes_per_sample",
       [&](auto& p) { memory(p)->set_checkpoint_bytes_per_sample(-1); }},
      {"layer_memories[0].origin", [&](auto& p) { memory(p)->set_origin(no_origin); }},
      {"layer_memories[1]", [&](auto& p) { *p.add_layer_memories() = *memory(p); }},
      {"collective_timings[0].collective", [&](auto& p) { collective(p)->clear_collective(); }},
      {"collective_timings[0].participant_count",
       [&](auto& p) { collective(p)->set_participant_count(1); }},
      {"collective_timings[0].participant_count",
       [&](auto& p) { collective(p)->set_collective(v1::COLLECTIVE_SEND_RECEIVE); }},
      {"collective_timings[0].rank_stride", [&](auto& p) { collective(p)->set_rank_stride(0); }},
      {"collective_timings[0].message_size_bytes",
       [&](auto& p) { collective(p)->set_message_size_bytes(0); }},
      {"collective_timings[0].median_duration",
       [&](auto& p) { collective(p)->clear_median_duration(); }},
      {"collective_timings[0].p90_duration",
       [&](auto& p) { collective(p)->mutable_p90_duration()->set_nanos(1); }},
      {"collective_timings[0].sample_count", [&](auto& p) { collective(p)->set_sample_count(-1); }},
      {"collective_timings[0].origin", [&](auto& p) { collective(p)->set_origin(no_origin); }},
      {"collective_timings[1]", [&](auto& p) { *p.add_collective_timings() = *collective(p); }},
      {"optimizer_timings[0].optimizer", [&](auto& p) { optimizer(p)->clear_optimizer(); }},
      {"optimizer_timings[0].parameter_count",
       [&](auto& p) { optimizer(p)->set_parameter_count(0); }},
      {"optimizer_timings[0].median_duration",
       [&](auto& p) { optimizer(p)->clear_median_duration(); }},
      {"optimizer_timings[0].p90_duration",
       [&](auto& p) { optimizer(p)->mutable_p90_duration()->set_nanos(1); }},
      {"optimizer_timings[0].sample_count", [&](auto& p) { optimizer(p)->set_sample_count(-1); }},
      {"optimizer_timings[0].origin", [&](auto& p) { optimizer(p)->set_origin(no_origin); }},
      {"optimizer_timings[1]",
       [&](auto& p) {
         optimizer(p);
         optimizer(p);
       }},
      {"overlap_slowdown", [](auto& p) { p.set_overlap_slowdown(0.9); }},
      {"overlap_slowdown", [](auto& p) { p.set_overlap_slowdown(std::nan("")); }},
      {"overlap_slowdown", [](auto& p) { p.set_overlap_slowdown(HUGE_VAL); }},
      {"context_memory_bytes", [](auto& p) { p.set_context_memory_bytes(-1); }},
      {"communicator_memory_bytes", [](auto& p) { p.set_communicator_memory_bytes(-1); }},
      {"communicator_memory_bytes",
       [](auto& p) {
         p.set_communicator_memory_bytes(1);
         p.clear_context_memory_bytes();
       }},
  };
  for (const Case& c : cases) {
    v1::Profile broken = SmallProfile();
    c.change(broken);
    EXPECT_EQ(Rejection(ValidateProfile(broken)), "PROFILE_INVALID " + c.field);
  }
}

TEST(ValidateProfile, PutsItsCallersFieldInFront) {
  v1::Profile profile = SmallProfile();
  profile.mutable_layer_timings(0)->clear_forward_duration();
  EXPECT_EQ(Rejection(ValidateProfile(profile, "profiles[2]")),
            "PROFILE_INVALID profiles[2].layer_timings[0].forward_duration");
}

TEST(ValidateProfile, ListsTenBrokenRulesAndCountsTheRest) {
  v1::Profile profile = SmallProfile();
  for (int i = 1; i <= 14; ++i) {
    v1::LayerTiming& timing = *profile.add_layer_timings();
    timing = profile.layer_timings(0);
    timing.set_micro_batch_size(100 + i);
    timing.clear_forward_duration();
  }
  const absl::Status status = ValidateProfile(profile);
  const std::vector<std::string> lines =
      absl::StrSplit(std::string(status.message().data(), status.message().size()), '\n');
  ASSERT_EQ(lines.size(), 11u);
  EXPECT_EQ(lines[0], "layer_timings[1].forward_duration: required");
  EXPECT_EQ(lines[9], "layer_timings[10].forward_duration: required");
  EXPECT_EQ(lines[10], "and 4 more");
  EXPECT_EQ(Rejection(status), "PROFILE_INVALID layer_timings[1].forward_duration");
}

}  // namespace
}  // namespace parplan
