// Plans run by several ranks give the losses and parameters of one rank alone.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>
#include <mutex>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "clients/device/comm/job_fabric.h"
#include "clients/executor/trainer/rank_trainer.h"
#include "tests/device/comm/rank_threads.h"
#include "tests/executor/program/program_cases.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

constexpr int kSteps = 3;
constexpr int64_t kBatch = 24;

// [layer][name] whole tensors, by row and column.
using Parameters = std::map<std::pair<int, std::string>, std::vector<double>>;

struct Outcome {
  std::vector<double> losses;
  Parameters parameters;
};

struct Precision32Or64 {
  ElementType type;
  OptimizerSettings optimizer;
};

double ElementAt(ElementType type, const void* data, int64_t index) {
  return type == ElementType::kFloat64 ? static_cast<const double*>(data)[index]
                                       : static_cast<const float*>(data)[index];
}

// Adds the elements of this rank to `outcome`. Where several ranks have one it is the same.
void CollectParameters(RankTrainer& trainer, ElementType type, std::mutex& mutex,
                       Outcome& outcome) {
  ASSERT_OK(trainer.VisitParameters([&](int layer, const ParameterTensor& tensor,
                                        const void* data) {
    const std::lock_guard<std::mutex> lock(mutex);
    std::vector<double>& whole = outcome.parameters[{layer, tensor.name}];
    whole.resize(tensor.row_count * tensor.column_count, std::nan(""));
    int64_t index = 0;
    for (int64_t row = 0; row < tensor.local_row_count; ++row) {
      for (int64_t column = 0; column < tensor.local_column_count; ++column) {
        double& element =
            whole[(tensor.first_row + row) * tensor.column_count + tensor.first_column + column];
        const double value = ElementAt(type, data, index++);
        ASSERT_TRUE(std::isnan(element) || element == value) << tensor.name;
        element = value;
      }
    }
  }));
}

// One rank's part of a run.
void RunRank(JobFabric& fabric, const Plan& plan, const ModelSpec& model,
             const Precision32Or64& precision, std::mutex& mutex, Outcome& outcome) {
  const std::unique_ptr<LayerKernels> kernels = MakeCpuKernels(precision.type);
  const std::unique_ptr<DeviceMemory> memory = MakeHostMemory();
  ArrayPool pool(*memory);
  const std::unique_ptr<TokenSource> tokens = MakeSyntheticTokens(96, 7);
  ASSERT_OK_AND_ASSIGN(const RankProgram program, RankProgram::Create(plan, model, fabric.rank()));
  ASSERT_OK_AND_ASSIGN(
      const std::unique_ptr<RankTrainer> trainer,
      RankTrainer::Create(
          program, model,
          {.kernels = kernels.get(),
           .pool = &pool,
           .tokens = tokens.get(),
           .make_group =
               [&](const GroupSpec& group) { return fabric.MakeGroup(group.purpose, group.ranks); },
           .optimizer = precision.optimizer}));
  std::vector<double> losses;
  for (int step = 0; step < kSteps; ++step) {
    ASSERT_OK_AND_ASSIGN(const double loss, trainer->Step());
    losses.push_back(loss);
  }
  // Nothing is kept from one step to the next but what belongs there.
  EXPECT_EQ(pool.usage()[ArrayUse::kActivations], Bytes());
  EXPECT_EQ(pool.usage()[ArrayUse::kCheckpoints], Bytes());
  EXPECT_EQ(pool.usage()[ArrayUse::kTransient], Bytes());
  CollectParameters(*trainer, precision.type, mutex, outcome);
  const std::lock_guard<std::mutex> lock(mutex);
  if (outcome.losses.empty()) outcome.losses = losses;
  EXPECT_EQ(outcome.losses, losses);
}

Outcome RunPlan(const Plan& plan, const ModelSpec& model, const Precision32Or64& precision) {
  Outcome outcome;
  std::mutex mutex;
  RunRanks(plan.device_count, {.spin_count = 50},
           [&](JobFabric& fabric) { RunRank(fabric, plan, model, precision, mutex, outcome); });
  return outcome;
}

struct Case {
  friend void PrintTo(const Case& c, std::ostream* out) { *out << PlanGist(c.plan); }
  std::string name;
  Plan plan;
  bool is_tied = false;
  // Instead of a GPT.
  ModelSpec (*other_model)(int layer_count) = nullptr;
  ModelSpec Model() const { return other_model == nullptr ? SmallGpt(6, is_tied) : other_model(6); }
};

// The same strategy for all layers; `stages` of 8 layers in all.
Case Uniform(const std::string& name, int devices, const std::vector<int>& stages,
             const Strategy& strategy, int64_t micro_batches, bool is_tied = false) {
  return {name, PlanOf(SmallGpt(6, is_tied), devices, stages, {strategy}, kBatch, micro_batches),
          is_tied};
}

Case Mixed(const std::string& name, int devices, const std::vector<int>& stages,
           const std::vector<Strategy>& strategies, int64_t micro_batches) {
  return {name, PlanOf(SmallGpt(6), devices, stages, strategies, kBatch, micro_batches)};
}

Strategy Dp(int degree, ShardingLevel level = ShardingLevel::kNone) {
  return {.data_parallel_degree = degree, .sharding_level = level};
}
Strategy Tp(int degree, bool sequence = false) {
  return {.tensor_parallel_degree = degree, .sequence_parallel = sequence};
}
constexpr auto kZero1 = ShardingLevel::kOptimizer;
constexpr auto kZero2 = ShardingLevel::kGradients;
constexpr auto kZero3 = ShardingLevel::kParameters;

// Layers that are no transformers do not recompute.
void RecomputeTransformers(Plan& plan, RecomputeLevel level) {
  for (StagePlan& stage : plan.stages) {
    for (StageLayerRun& run : stage.layer_runs) {
      if (run.first_layer_index > 0 && run.first_layer_index < 7) {
        run.strategy.recompute_level = level;
      }
    }
  }
}

Case Interleave(Case c) {
  // Two stages on each device.
  const int degree = static_cast<int>(c.plan.stages.size()) / 2;
  c.plan.device_count /= 2;
  const int ranks = c.plan.device_count / degree;
  c.plan.schedule = Schedule::kInterleaved;
  c.plan.virtual_stage_count = 2;
  for (size_t stage = 0; stage < c.plan.stages.size(); ++stage) {
    c.plan.stages[stage].rank_count = ranks;
    c.plan.stages[stage].first_rank = static_cast<int>(stage) % degree * ranks;
  }
  return c;
}

Case Of(ModelSpec (*model)(int), Case c) {
  c.other_model = model;
  return c;
}

Case Recompute(Case c, RecomputeLevel level = RecomputeLevel::kFull) {
  RecomputeTransformers(c.plan, level);
  return c;
}

Case Selective(Case c) { return Recompute(std::move(c), RecomputeLevel::kSelective); }

Case Gpipe(Case c) {
  c.plan.schedule = Schedule::kGpipe;
  return c;
}

std::vector<Case> Cases() {
  const Strategy ring2{.context_parallel_degree = 2};
  const Strategy ulysses2{.context_parallel_degree = 2, .context_kind = ContextKind::kUlysses};
  const Strategy tp2dp2{.tensor_parallel_degree = 2, .data_parallel_degree = 2};
  Strategy dp2tp2 = tp2dp2;
  dp2tp2.rank_order = RankOrder::kDataInnermost;
  Strategy tp2dp2z3 = tp2dp2;
  tp2dp2z3.sharding_level = kZero3;
  Strategy tp2sdp2 = tp2dp2z3;
  tp2sdp2.sequence_parallel = true;
  Strategy tp2sdp2z2 = tp2sdp2;
  tp2sdp2z2.sharding_level = kZero2;
  Strategy tp2cp2 = {
      .tensor_parallel_degree = 2, .sequence_parallel = true, .context_parallel_degree = 2};
  Strategy tp2sp2 = {.tensor_parallel_degree = 2,
                     .context_parallel_degree = 2,
                     .context_kind = ContextKind::kUlysses};
  const Strategy ring2dp2z3{
      .data_parallel_degree = 2, .sharding_level = kZero3, .context_parallel_degree = 2};
  return {
      Uniform("MicroBatches", 1, {8}, {}, 4),
      Recompute(Uniform("Recompute", 1, {8}, {}, 2)),
      Uniform("Tied", 1, {8}, {}, 2, true),
      Uniform("Dp2", 2, {8}, Dp(2), 2),
      Uniform("Dp3", 3, {8}, Dp(3), 2),
      Uniform("Dp2Zero1", 2, {8}, Dp(2, kZero1), 2),
      Uniform("Dp2Zero2", 2, {8}, Dp(2, kZero2), 2),
      Uniform("Dp2Zero3", 2, {8}, Dp(2, kZero3), 2),
      Uniform("Dp3Zero3", 3, {8}, Dp(3, kZero3), 1),
      Recompute(Uniform("Dp2Zero3Recompute", 2, {8}, Dp(2, kZero3), 2)),
      Uniform("Tp2", 2, {8}, Tp(2), 2),
      Uniform("Tp3", 3, {8}, Tp(3), 1),
      Uniform("Tp2Sequence", 2, {8}, Tp(2, true), 2),
      Uniform("Tp3Sequence", 3, {8}, Tp(3, true), 2),
      Recompute(Uniform("Tp2SequenceRecompute", 2, {8}, Tp(2, true), 2)),
      Uniform("Tp2Tied", 2, {8}, Tp(2), 2, true),
      Uniform("Ring2", 2, {8}, ring2, 2),
      Uniform("Ring3", 3, {8}, {.context_parallel_degree = 3}, 2),
      Uniform("Ulysses2", 2, {8}, ulysses2, 2),
      Uniform("Pp2", 2, {4, 4}, {}, 4),
      Uniform("Pp2Uneven", 2, {3, 5}, {}, 6),
      Uniform("Pp2Tied", 2, {4, 4}, {}, 4, true),
      Gpipe(Uniform("Pp2Gpipe", 2, {4, 4}, {}, 4)),
      Interleave(Uniform("Pp2Interleaved", 4, {2, 2, 2, 2}, {}, 4)),
      Recompute(Uniform("Pp2Recompute", 2, {4, 4}, {}, 4)),
      Uniform("Pp3Uneven", 3, {2, 4, 2}, {}, 6),
      Uniform("Tp2Dp2", 4, {8}, tp2dp2, 2),
      Uniform("Dp2Tp2", 4, {8}, dp2tp2, 2),
      Uniform("Tp2Dp2Zero3", 4, {8}, tp2dp2z3, 2),
      Uniform("Tp2SequenceDp2Zero3", 4, {8}, tp2sdp2, 2),
      Uniform("Tp2SequenceDp2Zero2", 4, {8}, tp2sdp2z2, 2),
      Uniform("Tp2SequenceRing2", 4, {8}, tp2cp2, 2),
      Uniform("Tp2Ulysses2", 4, {8}, tp2sp2, 2),
      Uniform("Ring2Dp2Zero3", 4, {8}, ring2dp2z3, 2),
      Uniform("Tp4", 4, {8}, Tp(4, true), 2),
      Uniform("Pp2Dp2", 4, {4, 4}, Dp(2), 4),
      Uniform("Pp2Tp2Tied", 4, {4, 4}, Tp(2), 4, true),
      Uniform("Pp4", 4, {2, 2, 2, 2}, {}, 8),
      Mixed("TpToDpAndBack", 2, {8}, {Dp(2), Dp(2), Tp(2), Tp(2, true), Dp(2, kZero3), Tp(2)}, 2),
      Mixed("AllKindsOfFour", 4, {8},
            {Dp(4), tp2dp2, dp2tp2, Tp(4), tp2sdp2, ring2dp2z3, tp2cp2, Dp(4, kZero2)}, 1),
      Mixed("RingToUlysses", 2, {8}, {ring2, ulysses2, Dp(2), Tp(2, true)}, 2),
      Mixed("DifferentSidesOfABoundary", 4, {4, 4}, {Tp(2), Tp(2), Dp(2), Tp(2, true)}, 4),
      Mixed("SixRanksMixed", 6, {8},
            {Dp(6),
             Tp(6),
             {.tensor_parallel_degree = 2, .data_parallel_degree = 3},
             {.tensor_parallel_degree = 3, .data_parallel_degree = 2},
             Dp(6, kZero3)},
            2),
      Mixed("SixRanksTwoStages", 6, {3, 5}, {Dp(3), Tp(3), Tp(3, true), Dp(3, kZero3)}, 4),
      Mixed("EightRanksTwoStages", 8, {4, 4}, {tp2dp2, Dp(4), Tp(4), tp2sdp2}, 3),
      Selective(Uniform("Selective", 1, {8}, {}, 2)),
      Selective(Uniform("Ring2Selective", 2, {8}, ring2, 2)),
      Selective(Uniform("Ulysses2Selective", 2, {8}, ulysses2, 2)),
      Recompute(Uniform("Ring3Recompute", 3, {8}, {.context_parallel_degree = 3}, 2)),
      Recompute(Uniform("Ulysses2Recompute", 2, {8}, ulysses2, 2)),
      Uniform("Ring4", 4, {8}, {.context_parallel_degree = 4}, 2),
      Of(SmallGpt2, Uniform("Gpt2Dp2Zero3", 2, {8}, Dp(2, kZero3), 2)),
      Of(SmallGpt2, Uniform("Gpt2Tp2Sequence", 2, {8}, Tp(2, true), 2)),
      Of(SmallGpt2, Uniform("Gpt2Tp2Ring2", 4, {8}, tp2cp2, 2)),
      Of(SmallGpt2, Recompute(Uniform("Gpt2Pp2Tp2", 4, {4, 4}, Tp(2), 4))),
      Of(SmallLlama, Uniform("LlamaRing3", 3, {8}, {.context_parallel_degree = 3}, 2)),
      Of(SmallLlama, Uniform("LlamaDp2Zero3", 2, {8}, Dp(2, kZero3), 2)),
      Of(SmallLlama, Recompute(Uniform("LlamaTp2Sequence", 2, {8}, Tp(2, true), 2))),
      Of(SmallLlama, Uniform("LlamaTp3", 3, {8}, Tp(3), 2)),
      Of(SmallLlama, Uniform("LlamaTp2Ring2", 4, {8}, tp2cp2, 2)),
      Of(SmallLlama, Uniform("LlamaUlysses2Pp2", 4, {4, 4}, ulysses2, 4)),
      Of(SmallBert, Uniform("BertRing2", 2, {8}, ring2, 2)),
      Of(SmallBert, Uniform("BertTp2Dp2", 4, {8}, tp2dp2, 2)),
      Interleave(Uniform("Pp2Dp2Interleaved", 8, {2, 2, 2, 2}, Dp(2, kZero1), 4)),
  };
}

// Squares of differences and of the values themselves.
struct Distance {
  void Add(const std::vector<double>& a, const std::vector<double>& b) {
    for (size_t i = 0; i < b.size(); ++i) {
      // Nobody had it: as far off as can be.
      difference += std::isnan(a[i]) ? HUGE_VAL : (a[i] - b[i]) * (a[i] - b[i]);
      size += b[i] * b[i];
    }
  }
  double Relative() const { return std::sqrt(difference / std::max(size, 1e-30)); }
  double difference = 0.0;
  double size = 0.0;
};

class ParityTest : public testing::TestWithParam<Case> {
 protected:
  void ExpectParity(const Precision32Or64& precision, double tolerance) {
    const ModelSpec model = GetParam().Model();
    const Outcome serial = RunPlan(
        PlanOf(model, 1, {8}, {Strategy()}, kBatch, /*micro_batch_count=*/1), model, precision);
    const Outcome parallel = RunPlan(GetParam().plan, model, precision);
    ASSERT_EQ(serial.losses.size(), static_cast<size_t>(kSteps));
    ASSERT_EQ(parallel.losses.size(), static_cast<size_t>(kSteps));
    for (int step = 0; step < kSteps; ++step) {
      EXPECT_NEAR(parallel.losses[step], serial.losses[step], tolerance * serial.losses[step]);
    }
    // In single precision biases that have hardly left 0 differ by rounding alone, so there
    // it is the parameters of a layer together.
    std::map<std::string, Distance> distances;
    for (const auto& [key, whole] : serial.parameters) {
      const auto found = parallel.parameters.find(key);
      ASSERT_NE(found, parallel.parameters.end()) << key.first << " " << key.second;
      ASSERT_EQ(found->second.size(), whole.size());
      const bool is_exact = precision.type == ElementType::kFloat64;
      distances[absl::StrCat("layer ", key.first, is_exact ? key.second : "")].Add(found->second,
                                                                                   whole);
    }
    for (const auto& [name, distance] : distances) {
      EXPECT_LE(distance.Relative(), tolerance) << name;
    }
    // It has learned something.
    EXPECT_LT(serial.losses.back(), serial.losses.front());
  }
};

TEST_P(ParityTest, DoublePrecisionAdam) {
  ExpectParity({ElementType::kFloat64, AdamSettings{}}, 1e-10);
}

TEST_P(ParityTest, SinglePrecisionSgd) {
  ExpectParity({ElementType::kFloat32, SgdSettings{}}, 1e-6);
}

TEST_P(ParityTest, SinglePrecisionAdam) {
  // Encoders see the token they are to tell, so gradients vanish, and Adam makes full steps
  // of what rounding leaves of them.
  const bool is_encoder = GetParam().other_model == SmallBert;
  ExpectParity({ElementType::kFloat32, AdamSettings{}}, is_encoder ? 1e-4 : 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Plans, ParityTest, testing::ValuesIn(Cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace parplan
