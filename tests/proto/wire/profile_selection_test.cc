#include "proto/wire/profile_selection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "planner/model/measured_runtime.h"
#include "planner/model/runtime_traits.h"
#include "tests/proto/wire/small_profile.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

v1::Profile Measured(const std::string& runtime, const std::string& torch_release = "",
                     const std::string& device_kind = "GPU") {
  v1::Profile profile = SmallProfile();
  profile.set_device_kind(device_kind);
  profile.set_runtime_id(runtime);
  if (!torch_release.empty()) {
    v1::LibraryVersion& library = *profile.mutable_provenance()->add_library_versions();
    library.set_library("torch");
    library.set_version(torch_release);
  }
  return profile;
}

// Returns what holds: profiles, and then those of other runtimes with their collectives alone.
absl::StatusOr<std::vector<v1::Profile>> Select(const std::vector<v1::Profile>& newest_first,
                                                const std::string& runtime,
                                                const std::string& device_kind = "GPU") {
  RuntimeSelection selection(device_kind, runtime);
  std::vector<v1::Profile> chosen;
  std::vector<v1::Profile> collectives;
  for (const v1::Profile& profile : newest_first) {
    const RuntimeSelection::Part part = selection.Next(profile);
    if (part == RuntimeSelection::Part::kWhole) chosen.push_back(profile);
    if (part != RuntimeSelection::Part::kCollectives) continue;
    v1::Profile& other = collectives.emplace_back();
    *other.mutable_collective_timings() = profile.collective_timings();
  }
  const absl::Status status = selection.Check();
  if (!status.ok()) return status;
  chosen.insert(chosen.end(), collectives.begin(), collectives.end());
  return chosen;
}

TEST(RuntimeSelection, LayersOfARuntimeNeverAnswerForAnother) {
  const std::vector<std::string> measured = {"parplan", "torch", "torch-compile", "megatron-core"};
  for (const RuntimeTraits& asked : KnownRuntimes()) {
    for (const std::string& runtime : measured) {
      for (const std::string kind : {"GPU", "CPU test"}) {
        SCOPED_TRACE(asked.runtime_id + " " + runtime + " " + kind);
        const auto selected = Select({Measured(runtime, "", kind)}, asked.runtime_id, kind);
        if (MeasuredRuntime(asked.runtime_id) == runtime) {
          ASSERT_OK(selected);
          ASSERT_THAT(*selected, SizeIs(1));
          EXPECT_THAT((*selected)[0].layer_timings(), SizeIs(1));
        } else if (kind == "GPU") {
          // NCCL is the same for all.
          ASSERT_OK(selected);
          ASSERT_THAT(*selected, SizeIs(1));
          EXPECT_THAT((*selected)[0].layer_timings(), IsEmpty());
          EXPECT_THAT((*selected)[0].layer_memories(), IsEmpty());
          EXPECT_THAT((*selected)[0].optimizer_timings(), IsEmpty());
          EXPECT_FALSE((*selected)[0].has_overlap_slowdown());
          EXPECT_FALSE((*selected)[0].has_context_memory_bytes());
          EXPECT_THAT((*selected)[0].collective_timings(), SizeIs(1));
        } else {
          EXPECT_EQ(GetErrorDetail(selected.status())->reason, Reason::kProfileMissing);
          EXPECT_THAT(std::string(selected.status().message()), HasSubstr("`" + runtime + "`"));
        }
      }
    }
  }
}

TEST(RuntimeSelection, ModulesOfPyTorchAreMeasuredAsTorch) {
  EXPECT_EQ(MeasuredRuntime("fsdp"), "torch");
  EXPECT_EQ(MeasuredRuntime("deepspeed"), "torch");
  EXPECT_EQ(MeasuredRuntime("accelerate"), "torch");
  EXPECT_EQ(MeasuredRuntime("megatron-core"), "megatron-core");
  EXPECT_EQ(MeasuredRuntime("parplan"), "parplan");
  EXPECT_EQ(MeasuredRuntime("parplan-exec"), "parplan");
}

TEST(RuntimeSelection, AProfileWithoutARuntimeAnswersForAll) {
  for (const RuntimeTraits& asked : KnownRuntimes()) {
    ASSERT_OK_AND_ASSIGN(const auto selected, Select({Measured("")}, asked.runtime_id));
    ASSERT_THAT(selected, SizeIs(1));
    EXPECT_THAT(selected[0].layer_timings(), SizeIs(1));
  }
}

TEST(RuntimeSelection, ReleasesOtherThanTheNewestAreLeftOut) {
  const std::vector<v1::Profile> profiles = {Measured("torch", "2.15.0"),
                                             Measured("torch", "2.6.0"), Measured("torch"),
                                             Measured("torch", "2.15.0")};
  ASSERT_OK_AND_ASSIGN(const auto selected, Select(profiles, "fsdp"));
  ASSERT_THAT(selected, SizeIs(3));
  for (const v1::Profile& profile : selected) {
    for (const v1::LibraryVersion& library : profile.provenance().library_versions()) {
      EXPECT_EQ(library.version(), "2.15.0");
    }
  }
  // The releases of one runtime say nothing about another.
  ASSERT_OK_AND_ASSIGN(
      const auto both,
      Select({Measured("torch", "2.15.0"), Measured("parplan", "2.6.0")}, "parplan", "GPU"));
  ASSERT_THAT(both, SizeIs(2));
  EXPECT_EQ(both[0].runtime_id(), "parplan");
}

TEST(RuntimeSelection, KernelsOfNodesMayDiffer) {
  std::vector<v1::Profile> profiles = {Measured("parplan"), Measured("parplan")};
  for (size_t i = 0; i < profiles.size(); ++i) {
    v1::LibraryVersion& kernel = *profiles[i].mutable_provenance()->add_library_versions();
    kernel.set_library("linux");
    kernel.set_version("6." + std::to_string(i));
  }
  ASSERT_OK_AND_ASSIGN(const auto selected, Select(profiles, "parplan"));
  EXPECT_THAT(selected, SizeIs(2));
}

}  // namespace
}  // namespace parplan
