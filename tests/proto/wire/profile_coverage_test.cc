#include "proto/wire/profile_coverage.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "google/protobuf/duration.pb.h"
#include "proto/wire/part_of_node.h"
#include "proto/wire/profile_wire.h"
#include "tests/proto/wire/small_profile.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

// Draws profiles that measure a few things each, under a few runtimes and releases. Most measure
// what one of eight others did, with other values.
class ProfileSource {
 public:
  explicit ProfileSource(unsigned seed) : random_(seed) {
    for (int i = 0; i < 8; ++i) known_.push_back(DrawShape());
  }

  v1::Profile Next() {
    v1::Profile profile = Draw(6) == 0 ? DrawShape() : known_[static_cast<size_t>(Draw(8))];
    const auto draw_duration = [this] {
      google::protobuf::Duration duration;
      duration.set_nanos(1 + Draw(1000));
      return duration;
    };
    for (v1::LayerTiming& timing : *profile.mutable_layer_timings()) {
      *timing.mutable_forward_duration() = draw_duration();
      if (Draw(2) == 0) *timing.mutable_backward_duration() = draw_duration();
    }
    for (v1::LayerMemory& memory : *profile.mutable_layer_memories()) {
      memory.set_activation_bytes_per_sample(1000 + Draw(1000));
      if (Draw(2) == 0) memory.set_checkpoint_bytes_per_sample(64 + Draw(10));
    }
    for (v1::CollectiveTiming& timing : *profile.mutable_collective_timings()) {
      *timing.mutable_median_duration() = draw_duration();
      if (Draw(4) == 0) timing.set_origin(v1::ORIGIN_DERIVED);
    }
    for (v1::OptimizerTiming& timing : *profile.mutable_optimizer_timings()) {
      *timing.mutable_median_duration() = draw_duration();
    }
    if (profile.has_overlap_slowdown()) profile.set_overlap_slowdown(1.0 + 0.01 * Draw(50));
    if (profile.has_context_memory_bytes()) profile.set_context_memory_bytes(1000 + Draw(50));
    if (profile.has_communicator_memory_bytes()) {
      profile.set_communicator_memory_bytes(1000 + Draw(50));
    }
    return profile;
  }

 private:
  int Draw(int below) { return std::uniform_int_distribution<int>(0, below - 1)(random_); }

  v1::Profile DrawShape() {
    v1::Profile profile = SmallProfile();
    profile.set_devices_per_node(Draw(8) == 0 ? 4 : 8);
    if (Draw(10) == 0) profile.set_precision(v1::PRECISION_FP32);
    if (Draw(3) > 0) profile.set_runtime_id(Draw(3) > 0 ? "parplan" : "torch");
    for (const char* const name : {"nccl", "cuda", "linux"}) {
      if (Draw(2) == 0) continue;
      v1::LibraryVersion& library = *profile.mutable_provenance()->add_library_versions();
      library.set_library(name);
      library.set_version(Draw(5) == 0 ? "2" : "1");
    }
    v1::LayerTiming timing = profile.layer_timings(0);
    profile.clear_layer_timings();
    for (int batch = 1; batch <= 2; ++batch) {
      if (Draw(3) == 0) continue;
      timing.set_micro_batch_size(batch);
      *profile.add_layer_timings() = timing;
    }
    if (Draw(4) == 0) profile.clear_layer_memories();
    profile.mutable_layer_definitions(0)->set_hidden_size(Draw(3) == 0 ? 128 : 64);
    profile.mutable_collective_timings(0)->set_message_size_bytes(1 << (10 + Draw(3)));
    if (Draw(2) == 0) {
      v1::OptimizerTiming& optimizer = *profile.add_optimizer_timings();
      optimizer.set_optimizer(v1::OPTIMIZER_ADAM);
      optimizer.set_parameter_count(1000 + Draw(2));
    }
    if (Draw(2) == 0) profile.clear_overlap_slowdown();
    if (Draw(2) == 0) {
      profile.clear_context_memory_bytes();
    } else if (profile.has_overlap_slowdown()) {
      profile.set_communicator_memory_bytes(1000);
    }
    return profile;
  }

  std::mt19937 random_;
  std::vector<v1::Profile> known_;
};

absl::StatusOr<ProfileSnapshot> Merge(const std::vector<const v1::Profile*>& newest_first,
                                      const std::string& runtime, int size) {
  return SnapshotOfNodes(newest_first, "GPU", size, runtime);
}

TEST(ProfileCoverage, TheNewestOfEachCoverageMakeTheSnapshotOfAll) {
  int dropped_count = 0;
  int snapshot_count = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    ProfileSource source(seed);
    std::vector<v1::Profile> profiles;
    for (int i = 0; i < 40; ++i) {
      profiles.push_back(source.Next());
      ASSERT_OK(ValidateProfile(profiles.back()));
    }
    std::vector<const v1::Profile*> all;
    std::vector<const v1::Profile*> newest;
    std::set<std::string> coverages;
    for (const v1::Profile& profile : profiles) {
      all.push_back(&profile);
      if (coverages.insert(ProfileCoverage(profile)).second) newest.push_back(&profile);
    }
    dropped_count += static_cast<int>(all.size() - newest.size());
    for (const char* const runtime : {"parplan", "fsdp"}) {
      for (const int size : {8, 4, 2, 3}) {
        const auto whole = Merge(all, runtime, size);
        const auto fewer = Merge(newest, runtime, size);
        ASSERT_EQ(whole.status(), fewer.status());
        if (!whole.ok()) continue;
        ++snapshot_count;
        ASSERT_EQ(whole->digest(), fewer->digest()) << "seed " << seed << " " << runtime << size;
      }
    }
  }
  EXPECT_GT(dropped_count, 3000);
  EXPECT_GT(snapshot_count, 1000);
}

TEST(ProfileCoverage, ValuesAndOriginsDoNotMatter) {
  v1::Profile profile = SmallProfile();
  profile.set_communicator_memory_bytes(3);
  v1::Profile other = profile;
  other.set_name("clusters/c/nodes/n/profiles/p");
  other.set_digest("digest");
  other.mutable_create_time()->set_seconds(7);
  other.mutable_provenance()->set_agent("another");
  other.mutable_provenance()->add_notes("note");
  other.mutable_layer_timings(0)->mutable_backward_duration()->set_nanos(9);
  other.mutable_layer_timings(0)->set_origin(v1::ORIGIN_DERIVED);
  other.mutable_layer_memories(0)->set_parameter_count(5);
  other.mutable_layer_memories(0)->set_checkpoint_bytes_per_sample(5);
  other.mutable_collective_timings(0)->set_sample_count(5);
  other.set_overlap_slowdown(1.9);
  other.set_context_memory_bytes(5);
  other.set_communicator_memory_bytes(5);
  EXPECT_EQ(ProfileCoverage(other), ProfileCoverage(profile));
}

TEST(ProfileCoverage, EverythingElseMatters) {
  std::vector<v1::Profile> profiles(13, SmallProfile());
  profiles[1].set_device_kind("other");
  profiles[2].set_devices_per_node(4);
  profiles[3].set_precision(v1::PRECISION_FP16);
  profiles[4].set_runtime_id("torch");
  profiles[5].clear_overlap_slowdown();
  profiles[6].clear_context_memory_bytes();
  profiles[7].mutable_layer_definitions(0)->set_hidden_size(128);
  profiles[8].mutable_layer_timings(0)->set_micro_batch_size(1);
  profiles[9].mutable_layer_memories(0)->set_sequence_parallel(true);
  profiles[10].mutable_collective_timings(0)->set_rank_stride(2);
  profiles[11].add_optimizer_timings()->set_parameter_count(7);
  profiles[12].set_communicator_memory_bytes(7);
  // Releases are compared within a runtime.
  profiles.push_back(profiles[4]);
  v1::LibraryVersion& library = *profiles.back().mutable_provenance()->add_library_versions();
  library.set_library("nccl");
  library.set_version("2");
  std::set<std::string> coverages;
  for (const v1::Profile& profile : profiles) {
    EXPECT_EQ(ProfileCoverage(profile).size(), 64u);
    coverages.insert(ProfileCoverage(profile));
  }
  EXPECT_EQ(coverages.size(), profiles.size());
}

// Returns the shape of a profile as the store keeps it.
std::string ShapeOf(const v1::Profile& profile) {
  const std::optional<std::string> shape = StoredProfileShape(profile.SerializeAsString());
  EXPECT_TRUE(shape.has_value());
  return shape.value_or("");
}

TEST(StoredProfileShape, EqualShapesHaveEqualCoverages) {
  size_t profile_count = 0;
  size_t shape_count = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    ProfileSource source(seed);
    std::map<std::string, std::string> coverage_of_shape;
    for (int i = 0; i < 40; ++i) {
      const v1::Profile profile = source.Next();
      const std::string coverage = ProfileCoverage(profile);
      const auto [entry, is_new] = coverage_of_shape.emplace(ShapeOf(profile), coverage);
      ASSERT_EQ(entry->second, coverage) << "seed " << seed;
      ++profile_count;
    }
    shape_count += coverage_of_shape.size();
  }
  EXPECT_LT(2 * shape_count, profile_count);
}

TEST(StoredProfileShape, ValuesOriginsAndNodesDoNotMatter) {
  v1::Profile profile = SmallProfile();
  profile.set_communicator_memory_bytes(3);
  profile.mutable_provenance()->set_agent("one");
  profile.add_optimizer_timings()->set_parameter_count(7);
  v1::Profile other = profile;
  other.set_name("clusters/c/nodes/n/profiles/p");
  other.set_digest("digest");
  other.mutable_create_time()->set_seconds(7);
  other.mutable_provenance()->set_agent("another");
  other.mutable_provenance()->set_driver_version("another");
  other.mutable_provenance()->mutable_measure_time()->set_seconds(9);
  other.mutable_provenance()->add_notes("note");
  v1::LayerTiming& timing = *other.mutable_layer_timings(0);
  timing.mutable_forward_duration()->set_seconds(9);
  timing.mutable_backward_duration()->set_nanos(9);
  timing.mutable_forward_duration_p90()->set_seconds(9);
  timing.set_sample_count(1 << 20);
  timing.set_origin(v1::ORIGIN_DERIVED);
  v1::LayerMemory& memory = *other.mutable_layer_memories(0);
  memory.set_parameter_count(1LL << 40);
  memory.set_activation_bytes_per_sample(5);
  memory.set_checkpoint_bytes_per_sample(5);
  memory.set_origin(v1::ORIGIN_DERIVED);
  v1::CollectiveTiming& collective = *other.mutable_collective_timings(0);
  collective.mutable_median_duration()->set_seconds(9);
  collective.mutable_p90_duration()->set_seconds(9);
  collective.set_sample_count(5);
  collective.set_origin(v1::ORIGIN_DERIVED);
  v1::OptimizerTiming& optimizer = *other.mutable_optimizer_timings(0);
  optimizer.mutable_median_duration()->set_seconds(9);
  optimizer.mutable_p90_duration()->set_seconds(9);
  optimizer.set_sample_count(5);
  optimizer.set_origin(v1::ORIGIN_DERIVED);
  other.set_overlap_slowdown(1.9);
  other.set_context_memory_bytes(1LL << 40);
  other.set_communicator_memory_bytes(1LL << 41);
  EXPECT_EQ(ShapeOf(other), ShapeOf(profile));
}

// The bytes of a timing and those of what follows it differ from those of one timing with both.
TEST(StoredProfileShape, ContentsOfDifferentMessagesAreNotMixed) {
  v1::Profile one = SmallProfile();
  one.clear_layer_timings();
  v1::Profile other = one;
  one.add_layer_timings()->set_micro_batch_size(1);
  one.add_layer_timings()->set_sequence_length(1);
  v1::LayerTiming& both = *other.add_layer_timings();
  both.set_micro_batch_size(1);
  both.set_sequence_length(1);
  EXPECT_NE(ShapeOf(one), ShapeOf(other));
  other.add_layer_timings();
  EXPECT_NE(ShapeOf(one), ShapeOf(other));
}

TEST(StoredProfileShape, BytesThatAreNoMessageHaveNone) {
  const std::string bytes = SmallProfile().SerializeAsString();
  EXPECT_TRUE(StoredProfileShape("").has_value());
  for (const char* const wrong :
       {"\xff\xff", "\x80", "\x0b", "\x22\x7f", "\x01\x02", "\x02\x01z"}) {
    EXPECT_EQ(StoredProfileShape(wrong), std::nullopt) << wrong;
  }
  // Whatever of a profile is missing or wrong, the shape is found or absent.
  for (size_t i = 0; i < bytes.size(); ++i) {
    (void)StoredProfileShape(absl::string_view(bytes).substr(0, i));
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = bytes;
      flipped[i] = static_cast<char>(flipped[i] ^ (1 << bit));
      v1::Profile read;
      // What is no message is refused by the parser too.
      EXPECT_TRUE(StoredProfileShape(flipped).has_value() || !read.ParseFromString(flipped));
    }
  }
}

}  // namespace
}  // namespace parplan
