// Checks that the executor does what the cost model prices: equally many collectives of each kind
// in a step, of equally many bytes. No clock is used.
//
// The model returns times, not counts. So it gets profiles in which only one kind of collective
// takes time, one second for each call or for each byte: the time is then the count. If layers take
// infinitely long instead, everything that they can hide is hidden, and the count is that of the
// rest.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <memory>
#include <mutex>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "executor/device/comm/job_fabric.h"
#include "executor/trainer/rank_trainer.h"
#include "planner/cost/cost_model.h"
#include "planner/cost/predict_plan.h"
#include "tests/executor/device/comm/rank_threads.h"
#include "tests/executor/trainer/counted_communicator.h"
#include "tests/planner/program/program_cases.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

constexpr int64_t kBatch = 24;
constexpr int kDecoders = 4;

struct Kind {
  Collective collective;
  Operation operation;
};
constexpr Kind kKinds[] = {{Collective::kAllReduce, Operation::kAllReduce},
                           {Collective::kAllGather, Operation::kAllGather},
                           {Collective::kReduceScatter, Operation::kReduceScatter},
                           {Collective::kSendReceive, Operation::kSend}};

struct Case {
  friend void PrintTo(const Case& c, std::ostream* out) { *out << PlanGist(c.plan); }
  std::string name;
  Plan plan;
};

constexpr double kNothing = 1e-12;
constexpr double kForEver = 1e9;

// Other collectives than `collective` take next to no time, that a second each, or a second a
// byte; passes over a layer take `pass_seconds`.
PlanningProblem ProblemOf(const ModelSpec& model, int device_count, Collective collective,
                          bool by_bytes, double pass_seconds) {
  constexpr int64_t kHuge = int64_t{1} << 40;
  ProfileSnapshot::Content content{
      .digest = "counts", .device_kind = "CPU of tests", .devices_per_node = device_count};
  for (const LayerDefinition& definition : model.layer_definitions()) {
    MeasuredLayer layer{.definition = definition, .precision = model.precision()};
    for (int degree = 1; degree <= device_count; ++degree) {
      if (device_count % degree != 0) continue;
      for (const int samples : {1, 64}) {
        layer.timings.push_back({.tensor_parallel_degree = degree,
                                 .micro_batch_size = samples,
                                 .sequence_length = definition.sequence_length,
                                 .forward = Seconds::Of(pass_seconds),
                                 .backward = Seconds::Of(pass_seconds)});
      }
      layer.memories.push_back({.tensor_parallel_degree = degree,
                                .sequence_length = definition.sequence_length,
                                .parameter_count = LayoutOfParameters(definition, degree, 0).size});
    }
    content.layers.push_back(std::move(layer));
  }
  for (int count = 2; count <= device_count; ++count) {
    for (int stride = 1; stride <= device_count; ++stride) {
      for (const Kind& kind : kKinds) {
        if (kind.collective == Collective::kSendReceive && count != 2) continue;
        const bool counts = kind.collective == collective;
        for (const int64_t bytes : {int64_t{1}, kHuge}) {
          const double seconds = by_bytes ? static_cast<double>(bytes) : 1.0;
          content.collectives.push_back({.collective = kind.collective,
                                         .participant_count = count,
                                         .rank_stride = stride,
                                         .message_size = Bytes::Of(bytes),
                                         .duration = Seconds::Of(counts ? seconds : kNothing)});
        }
      }
    }
  }
  content.overlap_slowdown = 1.0;
  content.context_memory = Bytes();
  NodeGroup group{.node_group_id = "node",
                  .device_kind = "CPU of tests",
                  .node_count = 1,
                  .devices_per_node = device_count,
                  .device_memory = Bytes::Of(int64_t{1} << 40)};
  return *PlanningProblem::Create(
      std::make_shared<const ModelSpec>(model),
      std::make_shared<const Topology>(
          *Topology::Create("here", {group}, {{"node", device_count}})),
      {{{std::make_shared<const ProfileSnapshot>(*ProfileSnapshot::Create(std::move(content)))}}},
      kBatch, {.allow_estimates = true});
}

// Counts of a device in one step.
struct Predicted {
  double tensor = 0.0;
  double gradient = 0.0;
  double forward_sends = 0.0;
};

std::vector<Predicted> Predict(const Case& c, const ModelSpec& model, Collective collective,
                               bool by_bytes, double pass_seconds = kNothing) {
  const PlanningProblem problem =
      ProblemOf(model, c.plan.device_count, collective, by_bytes, pass_seconds);
  const absl::StatusOr<CostModel> costs = CostModel::Create(problem);
  EXPECT_OK(costs);
  std::vector<Predicted> predicted;
  if (!costs.ok()) return predicted;
  const auto micro_batches = static_cast<double>(c.plan.micro_batch_count);
  for (const StagePrediction& stage : PredictPlan(problem, *costs, c.plan).stages) {
    predicted.push_back(
        {.tensor = stage.time[TimeItemKind::kTensorParallel].value() * micro_batches,
         .gradient = stage.time[TimeItemKind::kShardedDataParallel].value() * micro_batches +
                     stage.gradient_sync.value(),
         .forward_sends = stage.send.value() * micro_batches});
  }
  return predicted;
}

// [rank] calls of the second step.
std::vector<Traffic> TrafficOf(const Case& c, const ModelSpec& model) {
  std::vector<Traffic> traffic(c.plan.device_count);
  RunRanks(c.plan.device_count, {.spin_count = 50}, [&](JobFabric& fabric) {
    const std::unique_ptr<LayerKernels> kernels = MakeCpuKernels(ElementType::kFloat32);
    const std::unique_ptr<DeviceMemory> memory = MakeHostMemory();
    ArrayPool pool(*memory);
    const std::unique_ptr<TokenSource> tokens = MakeSyntheticTokens(96, 7);
    Traffic& own = traffic[fabric.rank()];
    ASSERT_OK_AND_ASSIGN(const RankProgram program,
                         RankProgram::Create(c.plan, model, fabric.rank()));
    const auto make_group =
        [&](const GroupSpec& group) -> absl::StatusOr<std::unique_ptr<Communicator>> {
      absl::StatusOr<std::unique_ptr<Communicator>> inner =
          fabric.MakeGroup(group.purpose, group.ranks);
      if (!inner.ok()) return inner.status();
      return std::make_unique<CountedCommunicator>(
          *std::move(inner), group.purpose.substr(0, group.purpose.find(' ')), &own);
    };
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<RankTrainer> trainer,
                         RankTrainer::Create(program, model,
                                             {.kernels = kernels.get(),
                                              .pool = &pool,
                                              .tokens = tokens.get(),
                                              .make_group = make_group}));
    ASSERT_OK(trainer->Step().status());
    own.clear();
    ASSERT_OK(trainer->Step().status());
  });
  return traffic;
}

CallCount Find(const Traffic& traffic, const std::string& purpose, Operation operation) {
  const auto found = traffic.find({purpose, operation});
  return found == traffic.end() ? CallCount() : found->second;
}

// Gradients of norms and biases that sequence-parallel ranks add up, a few kilobytes of a layer,
// are left out of predictions.
CallCount SharedGradients(const Case& c, const ModelSpec& model, int rank) {
  CallCount shared;
  const absl::StatusOr<RankProgram> program = RankProgram::Create(c.plan, model, rank);
  EXPECT_OK(program);
  if (!program.ok()) return shared;
  for (const StageProgram& stage : program->stages) {
    for (const LayerProgram& layer : stage.layers) {
      if (!layer.strategy.sequence_parallel) continue;
      const ParameterLayout layout =
          LayoutOfParameters(model.layer(layer.layer_index), layer.strategy.tensor_parallel_degree,
                             layer.place.tensor);
      const int64_t count = layout.size - layout.first_shared;
      if (count == 0) continue;
      const bool each_time =
          layer.strategy.sharding_level >= ShardingLevel::kGradients && layer.gradient_group >= 0;
      const int64_t times = each_time ? c.plan.micro_batch_count : 1;
      shared.calls += times;
      shared.bytes += times * count * ElementSize(ElementType::kFloat32);
    }
  }
  return shared;
}

class TrafficTest : public testing::TestWithParam<Case> {};

TEST_P(TrafficTest, IsWhatThePredictionPrices) {
  const Case& c = GetParam();
  const ModelSpec model = SmallGpt(kDecoders);
  const std::vector<Traffic> traffic = TrafficOf(c, model);
  const int ranks_of_stage = c.plan.device_count / c.plan.pipeline_parallel_degree();
  for (const Kind& kind : kKinds) {
    const std::vector<Predicted> calls = Predict(c, model, kind.collective, /*by_bytes=*/false);
    const std::vector<Predicted> bytes = Predict(c, model, kind.collective, /*by_bytes=*/true);
    ASSERT_FALSE(calls.empty());
    for (int rank = 0; rank < c.plan.device_count; ++rank) {
      SCOPED_TRACE(testing::Message() << OperationName(kind.operation) << " at rank " << rank);
      const int stage = rank / ranks_of_stage;
      const auto expect = [&](const std::string& purpose, double predicted_calls,
                              double predicted_bytes) {
        CallCount counted = Find(traffic[rank], purpose, kind.operation);
        if (purpose == "tensor" && kind.operation == Operation::kAllReduce) {
          const CallCount shared = SharedGradients(c, model, rank);
          counted.calls -= shared.calls;
          counted.bytes -= shared.bytes;
        }
        EXPECT_NEAR(static_cast<double>(counted.calls), predicted_calls, 1e-6) << purpose;
        // Padding of parameters to equal shares of whole 128 bytes.
        const double filling = 128.0 * c.plan.device_count * static_cast<double>(counted.calls);
        EXPECT_NEAR(static_cast<double>(counted.bytes), predicted_bytes, filling + 1e-6) << purpose;
      };
      if (kind.collective != Collective::kSendReceive) {
        expect("tensor", calls[stage].tensor, bytes[stage].tensor);
        expect("gradient", calls[stage].gradient, bytes[stage].gradient);
      } else {
        expect("forward", calls[stage].forward_sends, bytes[stage].forward_sends);
      }
    }
  }
}

// The executor overlaps with passes what the model assumes to be hidden, and waits for the rest.
TEST_P(TrafficTest, IsHiddenWhereThePredictionHidesIt) {
  const Case& c = GetParam();
  const ModelSpec model = SmallGpt(kDecoders);
  const std::vector<Traffic> traffic = TrafficOf(c, model);
  const int ranks_of_stage = c.plan.device_count / c.plan.pipeline_parallel_degree();
  for (const Kind& kind : kKinds) {
    if (kind.collective == Collective::kSendReceive) continue;
    const std::vector<Predicted> shown =
        Predict(c, model, kind.collective, /*by_bytes=*/false, kForEver);
    ASSERT_FALSE(shown.empty());
    for (int rank = 0; rank < c.plan.device_count; ++rank) {
      const CallCount counted = Find(traffic[rank], "gradient", kind.operation);
      EXPECT_NEAR(static_cast<double>(counted.calls - counted.started_calls),
                  shown[rank / ranks_of_stage].gradient, 1e-6)
          << OperationName(kind.operation) << " at rank " << rank;
    }
  }
}

Case Of(const std::string& name, int devices, const std::vector<int>& stages,
        const std::vector<Strategy>& strategies, int64_t micro_batches) {
  return {name, PlanOf(SmallGpt(kDecoders), devices, stages, strategies, kBatch, micro_batches)};
}

Case Recompute(Case c) {
  c.plan = Recomputing(std::move(c.plan));
  return c;
}

Case Interleave(Case c) {
  c.plan = Interleaved(std::move(c.plan));
  return c;
}

Case Gpipe(Case c) {
  c.plan = WithGpipe(std::move(c.plan));
  return c;
}

std::vector<Case> Cases() {
  Strategy tp2dp2{.tensor_parallel_degree = 2, .data_parallel_degree = 2};
  Strategy dp2tp2 = tp2dp2;
  dp2tp2.rank_order = RankOrder::kDataInnermost;
  Strategy tp2sdp2 = tp2dp2;
  tp2sdp2.sequence_parallel = true;
  tp2sdp2.sharding_level = kZero3;
  Strategy tp2dp2z2 = tp2dp2;
  tp2dp2z2.sharding_level = kZero2;
  return {
      Of("Dp2", 2, {6}, {Dp(2)}, 3),
      Of("Dp3", 3, {6}, {Dp(3)}, 2),
      Of("Dp4Zero1", 4, {6}, {Dp(4, kZero1)}, 2),
      Of("Dp2Zero2", 2, {6}, {Dp(2, kZero2)}, 3),
      Of("Dp2Zero3", 2, {6}, {Dp(2, kZero3)}, 3),
      Recompute(Of("Dp3Zero3Recompute", 3, {6}, {Dp(3, kZero3)}, 2)),
      Of("Tp2", 2, {6}, {Tp(2)}, 3),
      Of("Tp3", 3, {6}, {Tp(3)}, 2),
      Recompute(Of("Tp2Recompute", 2, {6}, {Tp(2)}, 2)),
      Of("Tp2Sequence", 2, {6}, {Tp(2, true)}, 3),
      Recompute(Of("Tp3SequenceRecompute", 3, {6}, {Tp(3, true)}, 2)),
      Of("Tp2Dp2", 4, {6}, {tp2dp2}, 2),
      Of("Dp2Tp2", 4, {6}, {dp2tp2}, 2),
      Of("Tp2SequenceDp2Zero3", 4, {6}, {tp2sdp2}, 2),
      Of("Tp2Dp2Zero2", 4, {6}, {tp2dp2z2}, 2),
      Of("Pp2", 2, {3, 3}, {Dp(1)}, 4),
      Gpipe(Of("Pp2Gpipe", 2, {2, 4}, {Dp(1)}, 6)),
      Interleave(Of("Pp2Interleaved", 4, {1, 2, 2, 1}, {Dp(1)}, 4)),
      Of("Pp2Dp2Zero1", 4, {3, 3}, {Dp(2, kZero1)}, 4),
      Recompute(Of("Pp2Tp2", 4, {3, 3}, {Tp(2)}, 4)),
      Of("Pp3Tp2Sequence", 6, {2, 2, 2}, {Tp(2, true)}, 6),
      Of("DpAndZero", 2, {6}, {Dp(2), Dp(2, kZero3), Dp(2, kZero1), Dp(2, kZero2)}, 2),
      Of("DpToTpAndBack", 2, {6}, {Dp(2), Tp(2), Tp(2, true), Dp(2, kZero3)}, 2),
      Of("EightRanks", 8, {3, 3}, {tp2dp2, tp2sdp2, tp2dp2z2}, 3),
  };
}

INSTANTIATE_TEST_SUITE_P(Plans, TrafficTest, testing::ValuesIn(Cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace parplan
