#include "planner/model/planning_problem.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "tests/planner/model/broken_rule.h"
#include "tests/support/rejection.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

// Arguments of PlanningProblem::Create.
struct RawProblem {
  int layer_count = 4;
  int group_count = 1;
  int node_count = 2;
  int devices_per_node = 8;
  std::string profiled_device_kind = "H200";
  int profiled_devices_per_node = 8;
  int64_t global_batch_size = 64;
  PlanningRules rules;
  Precision precision = Precision::kBf16;
  std::shared_ptr<const Hardware> hardware;
};

absl::StatusOr<PlanningProblem> Create(const RawProblem& raw) {
  LayerDefinition layer;
  layer.layer_definition_id = "encoder";
  layer.kind = LayerKind::kEncoder;
  layer.hidden_size = 1280;
  layer.attention_head_count = 16;
  layer.feed_forward_size = 5120;
  layer.feed_forward_kind = FeedForwardKind::kGelu;
  layer.sequence_length = 512;
  const absl::StatusOr<ModelSpec> model =
      ModelSpec::Create("bert", {*LayerDefinition::Create(layer, "layer")}, {{0, raw.layer_count}},
                        raw.precision, Optimizer::kAdam);

  std::vector<NodeGroup> groups;
  for (int i = 0; i < raw.group_count; ++i) {
    groups.push_back({std::string(1, static_cast<char>('a' + i)),
                      "H200",
                      raw.node_count,
                      {},
                      raw.devices_per_node,
                      Bytes::Of(1001 + 1000 * i),
                      Bytes::Of(1)});
  }
  const absl::StatusOr<Topology> topology =
      Topology::Create("lab", groups, {{"fabric", std::numeric_limits<int>::max()}});

  ProfileSnapshot::Content content;
  content.device_kind = raw.profiled_device_kind;
  content.devices_per_node = raw.profiled_devices_per_node;
  const absl::StatusOr<ProfileSnapshot> profile = ProfileSnapshot::Create(content);

  return PlanningProblem::Create(std::make_shared<ModelSpec>(*model),
                                 std::make_shared<Topology>(*topology),
                                 {{{std::make_shared<ProfileSnapshot>(*profile), raw.hardware}}},
                                 raw.global_batch_size, raw.rules);
}

TEST(PlanningProblem, LeavesReserveAndHeadroomFree) {
  RawProblem raw;
  raw.rules.memory_headroom_ratio = 0.05;
  ASSERT_OK_AND_ASSIGN(const PlanningProblem problem, Create(raw));
  EXPECT_EQ(problem.usable_memory(), Bytes::Of(950));
}

TEST(PlanningProblem, RoundsUsableMemoryDown) {
  RawProblem raw;
  raw.rules.memory_headroom_ratio = 0.0005;
  ASSERT_OK_AND_ASSIGN(const PlanningProblem problem, Create(raw));
  EXPECT_EQ(problem.usable_memory(), Bytes::Of(999));
}

TEST(PlanningProblem, GroupsMayHaveUnlikeMemory) {
  RawProblem raw;
  raw.group_count = 2;
  ASSERT_OK_AND_ASSIGN(const PlanningProblem problem, Create(raw));
  EXPECT_EQ(problem.group_count(), 2);
  EXPECT_EQ(problem.usable_memory(kFirstGroup), Bytes::Of(1000));
  EXPECT_EQ(problem.usable_memory(GroupIndex(1)), Bytes::Of(2000));
  EXPECT_EQ(problem.usable_memory(), Bytes::Of(1000));
}

// Knowledge was given for the first group only.
TEST(PlanningProblem, NothingIsKnownAboutGroupsThatKnowledgeLacks) {
  RawProblem raw;
  raw.group_count = 2;
  ASSERT_OK_AND_ASSIGN(const PlanningProblem problem, Create(raw));
  EXPECT_FALSE(problem.has_hardware());
  EXPECT_EQ(problem.hardware(GroupIndex(1)), nullptr);
  EXPECT_EQ(problem.profile(GroupIndex(1)).device_kind(), "H200");
  EXPECT_TRUE(problem.profile(GroupIndex(1)).layers().empty());
}

TEST(PlanningProblem, DefaultsToTensorParallelismInsideANode) {
  ASSERT_OK_AND_ASSIGN(const PlanningProblem problem, Create(RawProblem()));
  EXPECT_EQ(problem.device_count(), 16);
  EXPECT_EQ(problem.max_tensor_parallel_degree(), 8);
}

TEST(PlanningProblem, NeverHasMoreStagesThanLayers) {
  RawProblem raw;
  ASSERT_OK_AND_ASSIGN(const PlanningProblem free, Create(raw));
  EXPECT_EQ(free.max_pipeline_parallel_degree(), 4);
  raw.rules.max_pipeline_parallel_degree = 16;
  ASSERT_OK_AND_ASSIGN(const PlanningProblem loose, Create(raw));
  EXPECT_EQ(loose.max_pipeline_parallel_degree(), 4);
}

TEST(PlanningProblem, KeepsToTheDegreesAsked) {
  RawProblem raw;
  raw.rules.max_tensor_parallel_degree = 2;
  raw.rules.max_pipeline_parallel_degree = 2;
  ASSERT_OK_AND_ASSIGN(const PlanningProblem problem, Create(raw));
  EXPECT_EQ(problem.max_tensor_parallel_degree(), 2);
  EXPECT_EQ(problem.max_pipeline_parallel_degree(), 2);
}

TEST(PlanningProblem, TheBatchThatIsNamedIsAmongThoseOfARange) {
  RawProblem raw;
  raw.rules.smallest_global_batch_size = 10;
  raw.rules.global_batch_size_step = 20;
  const absl::StatusOr<PlanningProblem> problem = Create(raw);
  ASSERT_OK(problem);
  EXPECT_THAT(problem->GlobalBatchSizes(), testing::ElementsAre(10, 30, 50, 64));
  for (const int64_t size : problem->GlobalBatchSizes()) {
    EXPECT_TRUE(problem->AllowsGlobalBatchSize(size)) << size;
  }
  EXPECT_FALSE(problem->AllowsGlobalBatchSize(60));
  EXPECT_FALSE(problem->AllowsGlobalBatchSize(70));
}

// 10 and the longest step have a sum above 2^63.
TEST(PlanningProblem, AnyStepFromOneBatchToTheNextIsTaken) {
  for (const int64_t step : {int64_t{54}, int64_t{55}, std::numeric_limits<int64_t>::max()}) {
    RawProblem raw;
    raw.rules.smallest_global_batch_size = 10;
    raw.rules.global_batch_size_step = step;
    ASSERT_OK_AND_ASSIGN(const PlanningProblem problem, Create(raw));
    EXPECT_THAT(problem.GlobalBatchSizes(), testing::ElementsAre(10, 64)) << step;
  }
}

TEST(PlanningProblem, CanBeAskedWithOtherMemory) {
  ASSERT_OK_AND_ASSIGN(const PlanningProblem problem, Create(RawProblem()));
  const PlanningProblem larger = problem.WithUsableMemory(Bytes::Of(5000));
  EXPECT_EQ(larger.usable_memory(), Bytes::Of(5000));
  EXPECT_EQ(larger.global_batch_size(), problem.global_batch_size());
  EXPECT_EQ(&larger.model(), &problem.model());
  EXPECT_EQ(problem.usable_memory(), Bytes::Of(1000));
}

TEST(PlanningProblem, NeedsAProfileOfItsDevices) {
  RawProblem raw;
  raw.profiled_device_kind = "A100";
  const absl::Status status = Create(raw).status();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kFailedPrecondition));
  const std::optional<ErrorDetail> detail = GetErrorDetail(status);
  ASSERT_TRUE(detail.has_value());
  EXPECT_EQ(detail->reason, Reason::kProfileMissing);
  EXPECT_EQ(detail->metadata.at("count"), "1");
  EXPECT_THAT(detail->metadata.at("missing0"), testing::HasSubstr("H200"));
}

TEST(PlanningProblem, NeedsAProfileOfItsNodeSize) {
  RawProblem raw;
  raw.profiled_devices_per_node = 4;
  const absl::Status status = Create(raw).status();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kFailedPrecondition));
  const std::optional<ErrorDetail> detail = GetErrorDetail(status);
  ASSERT_TRUE(detail.has_value());
  EXPECT_EQ(detail->reason, Reason::kProfileMissing);
}

TEST(PlanningProblem, ASpaceWithoutTheScheduleAskedForContradictsItself) {
  for (const auto& [schedule, dimension] :
       {std::pair(Schedule::kGpipe, SearchDimension::kGpipe),
        {Schedule::kInterleaved, SearchDimension::kInterleaved}}) {
    const std::string name(SearchDimensionName(dimension));
    RawProblem raw;
    raw.rules.schedule = schedule;
    EXPECT_OK(Create(raw).status());
    raw.rules.dimensions = DimensionSet().With(dimension);
    EXPECT_OK(Create(raw).status());
    raw.rules.dimensions = DimensionSet::All().Without(dimension);
    EXPECT_THAT(Create(raw).status(),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         testing::AllOf(testing::HasSubstr("options.schedule: `" + name),
                                        testing::HasSubstr("options.space, which is `all,-"))));
    raw.rules.dimensions = DimensionSet::All();
    raw.rules.target = Target::kDeepSpeed;
    EXPECT_THAT(Create(raw).status(),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         testing::AllOf(testing::HasSubstr("options.schedule: "),
                                        testing::HasSubstr("options.target `deepspeed`"))));
  }
  // Every space has 1F1B.
  RawProblem raw;
  raw.rules.schedule = Schedule::kOneForwardOneBackward;
  raw.rules.dimensions = DimensionSet();
  EXPECT_OK(Create(raw).status());
}

using BrokenProblem = BrokenRule<RawProblem>;

class PlanningProblemRules : public testing::TestWithParam<BrokenProblem> {};

TEST_P(PlanningProblemRules, AreEnforcedAndNamed) {
  RawProblem raw;
  GetParam().break_it(raw);
  EXPECT_EQ(Rejection(Create(raw).status()), "SPEC_INVALID " + GetParam().field);
}

INSTANTIATE_TEST_SUITE_P(
    All, PlanningProblemRules,
    testing::ValuesIn(std::vector<BrokenProblem>{
        {"TooManyDevices", "topology.node_groups",
         [](RawProblem& p) { p.node_count = kMaxDeviceCount / 8 + 1; }},
        {"NoBatch", "global_batch_size", [](RawProblem& p) { p.global_batch_size = 0; }},
        {"EndlessBatch", "global_batch_size",
         [](RawProblem& p) { p.global_batch_size = kMaxGlobalBatchSize + 1; }},
        {"NegativeHeadroom", "options.memory_headroom_ratio",
         [](RawProblem& p) { p.rules.memory_headroom_ratio = -0.1; }},
        {"AllHeadroom", "options.memory_headroom_ratio",
         [](RawProblem& p) { p.rules.memory_headroom_ratio = 1.0; }},
        {"HeadroomNotANumber", "options.memory_headroom_ratio",
         [](RawProblem& p) {
           p.rules.memory_headroom_ratio = std::numeric_limits<double>::quiet_NaN();
         }},
        {"NegativeTensorDegree", "options.max_tensor_parallel_degree",
         [](RawProblem& p) { p.rules.max_tensor_parallel_degree = -1; }},
        {"NegativePipelineDegree", "options.max_pipeline_parallel_degree",
         [](RawProblem& p) { p.rules.max_pipeline_parallel_degree = -1; }},
        {"NegativeMicroBatches", "options.micro_batch_count",
         [](RawProblem& p) { p.rules.micro_batch_count = -1; }},
        {"NegativeAlpha", "options.ilp_alpha_bytes_per_second",
         [](RawProblem& p) { p.rules.ilp_alpha_bytes_per_second = -1.0; }},
        {"EndlessAlpha", "options.ilp_alpha_bytes_per_second",
         [](RawProblem& p) {
           p.rules.ilp_alpha_bytes_per_second = std::numeric_limits<double>::infinity();
         }},
        {"GranuleBelowAMebibyte", "options.memory_granule_bytes",
         [](RawProblem& p) { p.rules.memory_granule = Bytes::Of((1 << 20) - 1); }},
        {"GranuleAboveATebibyte", "options.memory_granule_bytes",
         [](RawProblem& p) { p.rules.memory_granule = Bytes::Of((int64_t{1} << 40) + 1); }},
        {"NoFusedLayer", "options.fused_layer_count",
         [](RawProblem& p) { p.rules.fused_layer_count = 0; }},
        {"MicroBatchesDoNotDivide", "options.micro_batch_count",
         [](RawProblem& p) { p.rules.micro_batch_count = 48; }},
    }),
    [](const testing::TestParamInfo<BrokenProblem>& info) { return info.param.name; });

TEST(PlanningProblem, NeedsDevicesThatMultiplyTheOperandsOfItsPrecision) {
  Hardware hardware;
  hardware.device.device_id = "h200";
  hardware.device.matrix_flops_8_bit = 2e15;
  RawProblem raw;
  raw.hardware = std::make_shared<const Hardware>(hardware);
  raw.precision = Precision::kMxfp8;
  EXPECT_OK(Create(raw));
  raw.precision = Precision::kNvfp4;
  EXPECT_EQ(Rejection(Create(raw).status()), "SPEC_INVALID model.precision");
  // Nothing is known without a data sheet.
  raw.hardware = nullptr;
  EXPECT_OK(Create(raw));
}

}  // namespace
}  // namespace parplan
