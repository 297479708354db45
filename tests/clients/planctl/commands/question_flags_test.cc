#include "clients/planctl/commands/question_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "clients/planctl/commands/command.h"
#include "clients/planctl/files.h"
#include "planner/model/runtime_traits.h"
#include "planner/model/search_space.h"
#include "proto/wire/calibration_wire.h"
#include "proto/wire/json_file.h"
#include "proto/wire/published_calibration.h"
#include "proto/wire/rules_wire.h"
#include "proto/wire/topology_wire.h"
#include "tests/clients/planctl/commands/planctl_test_files.h"
#include "tests/support/status_matchers.h"

namespace parplan::planctl {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// The question of the flags, after those of the example. FAILED_PRECONDITION if the command line
// refuses them.
absl::StatusOr<v1::PlanSpec> Read(std::vector<std::string> arguments,
                                  const std::string& cluster = "a100-40g-8.cluster.json") {
  QuestionFlags flags;
  shell::CommandLine line("", "program");
  flags.AddTo(line.root(), /*with_planner=*/true);
  flags.AddAnswersTo(line.root());
  arguments.insert(arguments.end(), {"--model", ExamplePath("llama2-7b.model.json"), "--cluster",
                                     ExamplePath(cluster), "--batch", "64"});
  const std::string wrong = line.ParseWords(arguments);
  if (!wrong.empty()) return absl::FailedPreconditionError(wrong);
  return flags.ReadSpec();
}

TEST(QuestionFlags, GiveTheQuestionOfTheFiles) {
  ASSERT_OK_AND_ASSIGN(const v1::PlanSpec spec, Read({}));
  v1::PlanSpec expected = ExampleSpec();
  expected.mutable_options();
  EXPECT_EQ(spec.DebugString(), expected.DebugString());
}

TEST(QuestionFlags, EveryScheduleHasAName) {
  for (const auto& [name, schedule] : std::vector<std::pair<std::string, v1::Schedule>>{
           {"1f1b", v1::SCHEDULE_ONE_FORWARD_ONE_BACKWARD},
           {"gpipe", v1::SCHEDULE_GPIPE},
           {"interleaved", v1::SCHEDULE_INTERLEAVED}}) {
    ASSERT_OK_AND_ASSIGN(const v1::PlanSpec spec, Read({"--schedule", name}));
    EXPECT_EQ(spec.options().schedule(), schedule);
  }
}

TEST(QuestionFlags, SpaceTargetBatchesAndAnswersReachTheirOptions) {
  ASSERT_OK_AND_ASSIGN(const v1::PlanSpec spec,
                       Read({"--space", "all,-gpipe", "--target", "megatron", "--batch-from", "8",
                             "--batch-step", "4", "--top", "5", "--front", "--ilp-alpha", "0"}));
  const v1::PlanningOptions& options = spec.options();
  EXPECT_EQ(options.space(), "all,-gpipe");
  EXPECT_EQ(options.target(), "megatron");
  EXPECT_EQ(options.smallest_global_batch_size(), 8);
  EXPECT_EQ(options.global_batch_size_step(), 4);
  EXPECT_EQ(options.top_plan_count(), 5);
  EXPECT_TRUE(options.wants_memory_front());
  EXPECT_TRUE(options.has_ilp_alpha_bytes_per_second());
  EXPECT_EQ(options.ilp_alpha_bytes_per_second(), 0.0);
  EXPECT_OK(OptionsFromProto(options));
}

TEST(QuestionFlags, WhatIsNoSpaceTargetOrRangeIsRefusedByTheNameOfTheFlag) {
  EXPECT_THAT(Read({"--space", "all,-abacus"}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("--space"), HasSubstr("`abacus`"), HasSubstr("gpipe"))));
  EXPECT_THAT(Read({"--target", "abacus"}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("--target"), HasSubstr("deepspeed"))));
  // The command line refuses other schedules, but not everybody has one.
  EXPECT_THAT(Read({"--schedule", "abacus"}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("abacus")));
  QuestionFlags flags;
  flags.schedule = "abacus";
  EXPECT_THAT(flags.ReadSpec(), StatusIs(absl::StatusCode::kInvalidArgument,
                                         AllOf(HasSubstr("--schedule"), HasSubstr("1f1b"))));
  EXPECT_THAT(Read({"--batch-from", "65"}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--batch-from")));
  EXPECT_OK(Read({"--batch-from", "64"}));
  EXPECT_THAT(Read({"--batch-step", "2"}),
              StatusIs(absl::StatusCode::kFailedPrecondition, ::testing::_));
}

TEST(QuestionFlags, OptionsOfThePapersPlannersReachTheirs) {
  ASSERT_OK_AND_ASSIGN(const v1::PlanSpec spec, Read({"--partitioner", "even", "--memory-granule",
                                                      "32", "--fuse-layers", "4"}));
  EXPECT_EQ(spec.options().partitioner(), "even");
  EXPECT_EQ(spec.options().memory_granule_bytes(), 32 << 20);
  EXPECT_EQ(spec.options().fused_layer_count(), 4);
  EXPECT_THAT(Read({"--partitioner", "abacus"}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("--partitioner"), HasSubstr("greedy"))));
  for (const char* flag : {"--memory-granule", "--fuse-layers"}) {
    EXPECT_FALSE(Read({flag, "0"}).ok()) << flag;
  }
}

TEST(QuestionFlags, HelpNamesEveryTarget) {
  QuestionFlags flags;
  shell::CommandLine line("", "program");
  flags.AddTo(line.root(), /*with_planner=*/false);
  for (const TargetLimits& target : KnownTargets()) {
    EXPECT_THAT(line.root().help(), HasSubstr(std::string(target.name)));
  }
}

TEST(QuestionFlags, EachReachesItsOption) {
  ASSERT_OK_AND_ASSIGN(const v1::PlanSpec spec, Read({"--headroom",
                                                      "0.1",
                                                      "--max-tensor-parallel",
                                                      "4",
                                                      "--max-pipeline-parallel",
                                                      "2",
                                                      "--micro-batches",
                                                      "16",
                                                      "--schedule",
                                                      "gpipe",
                                                      "--no-recompute",
                                                      "--no-sharding",
                                                      "--allow-estimates",
                                                      "--risk",
                                                      "0.05",
                                                      "--runtime",
                                                      "megatron-core",
                                                      "--planner",
                                                      "dp",
                                                      "--time-limit",
                                                      "1.5",
                                                      "--max-states",
                                                      "99"}));
  const v1::PlanningOptions& options = spec.options();
  EXPECT_EQ(options.memory_headroom_ratio(), 0.1);
  EXPECT_EQ(options.max_tensor_parallel_degree(), 4);
  EXPECT_EQ(options.max_pipeline_parallel_degree(), 2);
  EXPECT_EQ(options.micro_batch_count(), 16);
  EXPECT_EQ(options.schedule(), v1::SCHEDULE_GPIPE);
  EXPECT_EQ(options.out_of_memory_probability(), 0.05);
  EXPECT_EQ(options.runtime_id(), "megatron-core");
  EXPECT_TRUE(options.disable_recompute());
  EXPECT_TRUE(options.disable_sharded_data_parallel());
  EXPECT_TRUE(options.allow_estimates());
  EXPECT_EQ(options.planner(), "dp");
  EXPECT_EQ(options.search_time_limit().seconds(), 1);
  EXPECT_EQ(options.search_time_limit().nanos(), 500'000'000);
  EXPECT_EQ(options.max_state_count(), 99);
  // Time is there to be used.
  EXPECT_TRUE(options.has_wanted_gap_ratio());
  EXPECT_EQ(options.wanted_gap_ratio(), 0.0);
  ASSERT_OK_AND_ASSIGN(const v1::PlanSpec near, Read({"--gap", "5", "--time-limit", "1"}));
  EXPECT_DOUBLE_EQ(near.options().wanted_gap_ratio(), 0.05);
}

TEST(QuestionFlags, WhatIsNotGivenIsLeftToTheContract) {
  ASSERT_OK_AND_ASSIGN(const v1::PlanSpec given, Read({"--headroom", "0", "--risk", "0.01"}));
  EXPECT_TRUE(given.options().has_memory_headroom_ratio());
  EXPECT_TRUE(given.options().has_out_of_memory_probability());
  ASSERT_OK_AND_ASSIGN(const v1::PlanSpec unset, Read({}));
  EXPECT_FALSE(unset.options().has_wanted_gap_ratio());
  EXPECT_FALSE(unset.options().has_memory_headroom_ratio());
  EXPECT_FALSE(unset.options().has_out_of_memory_probability());
  EXPECT_FALSE(unset.options().has_ilp_alpha_bytes_per_second());
  EXPECT_EQ(unset.options().runtime_id(), "");
}

TEST(QuestionFlags, HelpNamesEveryRuntimeThereIs) {
  QuestionFlags flags;
  shell::CommandLine line("", "program");
  flags.AddTo(line.root(), /*with_planner=*/false);
  for (const RuntimeTraits& runtime : KnownRuntimes()) {
    EXPECT_THAT(line.root().help(), HasSubstr(runtime.runtime_id));
  }
}

TEST(QuestionFlags, ReadTheCalibrationThatIsNamed) {
  QuestionFlags flags;
  ASSERT_OK_AND_ASSIGN(const std::shared_ptr<const Calibration> none, flags.ReadCalibrationFile());
  EXPECT_EQ(none, nullptr);
  flags.calibration_path = MakeTestFolder() + "/c.calibration.json";
  ASSERT_OK(WriteFile(flags.calibration_path,
                      ToReadableJson(CalibrationToProto(*PublishedCalibration()))));
  ASSERT_OK_AND_ASSIGN(const std::shared_ptr<const Calibration> read, flags.ReadCalibrationFile());
  EXPECT_EQ(read->content().digest, PublishedCalibration()->content().digest);
  flags.calibration_path = ExamplePath("a100-40g-8.cluster.json");
  EXPECT_THAT(flags.ReadCalibrationFile(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("a100-40g-8.cluster.json:")));
}

TEST(QuestionFlags, ImpossibleNumbersAreRefused) {
  for (const auto& [flag, value] :
       std::vector<std::pair<std::string, std::string>>{{"--headroom", "-0.1"},
                                                        {"--headroom", "1.5"},
                                                        {"--headroom", "nan"},
                                                        {"--risk", "0"},
                                                        {"--risk", "0.51"},
                                                        {"--risk", "nan"},
                                                        {"--nodes", "0"},
                                                        {"--time-limit", "-1"},
                                                        {"--max-states", "0"},
                                                        {"--batch-from", "0"},
                                                        {"--ilp-alpha", "-1"},
                                                        {"--ilp-alpha", "x"},
                                                        {"--top", "0"},
                                                        {"--top", "101"},
                                                        {"--schedule", "zigzag"}}) {
    EXPECT_THAT(Read({flag, value}), StatusIs(absl::StatusCode::kFailedPrecondition, ::testing::_))
        << flag << " " << value;
  }
}

// It would read as the default.
TEST(QuestionFlags, AnEmptyNameIsRefused) {
  for (const char* flag : {"--space", "--target", "--runtime", "--planner", "--schedule"}) {
    SCOPED_TRACE(flag);
    EXPECT_THAT(Read({flag, ""}), StatusIs(absl::StatusCode::kFailedPrecondition, ::testing::_));
  }
  EXPECT_EQ(shell::NotEmpty()("all"), "");
  EXPECT_THAT(shell::NotEmpty()(""), HasSubstr("must not be empty"));
}

TEST(FlagChecks, SayInOneSentenceWhatTheValueMustBe) {
  for (const char* wrong : {"-1", "x", "", "nan", "inf"}) {
    SCOPED_TRACE(wrong);
    EXPECT_EQ(shell::Positive()(wrong), "must be a number above 0");
    EXPECT_EQ(shell::Share()(wrong), "must be a number from 0 to below 1");
    EXPECT_EQ(shell::Risk()(wrong), "must be a number from 1e-06 to 0.5");
  }
  EXPECT_EQ(shell::Positive()("0"), "must be a number above 0");
  EXPECT_EQ(shell::Risk()("0"), "must be a number from 1e-06 to 0.5");
  EXPECT_EQ(shell::Share()("1"), "must be a number from 0 to below 1");
  EXPECT_EQ(shell::Risk()("0.51"), "must be a number from 1e-06 to 0.5");
  EXPECT_EQ(shell::Positive()("1e-9"), "");
  EXPECT_EQ(shell::Share()("0"), "");
  EXPECT_EQ(shell::Risk()("0.5"), "");
}

TEST(FlagChecks, NoCommandHasTextsOfItsOwn) {
  Session session;
  Action action;
  const std::vector<std::pair<void (*)(Command, const Session&, Action&), std::vector<std::string>>>
      commands = {{&AddShapeCommand, {"shape", "--min-devices", "0"}},
                  {&AddShapeCommand, {"shape", "--max-devices", "0"}},
                  {&AddPlanCommand, {"plan", "--valid-hours", "0"}}};
  for (const auto& [add, arguments] : commands) {
    SCOPED_TRACE(arguments[0] + arguments[1]);
    shell::CommandLine line("", "program");
    add(line.root(), session, action);
    EXPECT_EQ(line.ParseWords(arguments), arguments[1] + ": must be a number above 0");
  }
}

TEST(QuestionFlags, NodesStretchTheClusterToAValidOne) {
  for (const char* nodes : {"1", "2", "16"}) {
    for (const char* cluster : {"a100-40g-8.cluster.json", "a100-40g-16.cluster.json"}) {
      if (std::string(nodes) == "1" && std::string(cluster) == "a100-40g-16.cluster.json") continue;
      ASSERT_OK_AND_ASSIGN(const v1::PlanSpec spec, Read({"--nodes", nodes}, cluster));
      EXPECT_EQ(spec.topology().node_groups(0).node_count(), std::stoi(nodes));
      EXPECT_OK(TopologyFromProto(spec.topology())) << nodes << " " << cluster;
    }
  }
}

TEST(QuestionFlags, ReadProfilesNamesTheFileThatFails) {
  QuestionFlags flags;
  flags.profile_paths = {ExamplePath("llama2-7b-a100.profile.json"),
                         ExamplePath("a100-40g-8.cluster.json")};
  EXPECT_THAT(flags.ReadProfiles(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("a100-40g-8.cluster.json:")));
}

}  // namespace
}  // namespace parplan::planctl
