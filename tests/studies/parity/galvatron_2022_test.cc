#include "studies/parity/galvatron_2022.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "nlohmann/json.hpp"
#include "studies/parity/galvatron_constants.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using nlohmann::json;

// The strategies of eight devices, by their notation.
struct NamedStrategy {
  int pipeline_parallel_degree = 1;
  Strategy strategy;
};

std::vector<NamedStrategy> StrategiesOfEightDevices() {
  std::vector<NamedStrategy> all;
  for (int pipeline = 1; pipeline <= 8; pipeline *= 2) {
    const int ranks = 8 / pipeline;
    for (int tensor = 1; tensor <= ranks; tensor *= 2) {
      for (const RankOrder order : {RankOrder::kTensorInnermost, RankOrder::kDataInnermost}) {
        for (const ShardingLevel level : {ShardingLevel::kNone, ShardingLevel::kParameters}) {
          Strategy strategy;
          strategy.tensor_parallel_degree = tensor;
          strategy.data_parallel_degree = ranks / tensor;
          strategy.rank_order = order;
          strategy.sharding_level = level;
          const bool two_axes = tensor > 1 && tensor < ranks;
          if (!two_axes && order == RankOrder::kDataInnermost) continue;
          if (tensor == ranks && level == ShardingLevel::kParameters) continue;
          all.push_back({pipeline, strategy});
        }
      }
    }
  }
  return all;
}

Strategy DataParallel(int degree) {
  Strategy strategy;
  strategy.data_parallel_degree = degree;
  return strategy;
}

// The slice of the constants that the worked examples need.
Galvatron2022Hardware RtxTitans() {
  Galvatron2022Hardware hardware;
  hardware.all_reduces = {{1, 8, true, 0.21531},  {1, 4, false, 0.22014}, {1, 4, true, 0.22652},
                          {1, 2, false, 0.27161}, {1, 2, true, 0.27799},  {2, 4, true, 0.23075},
                          {2, 2, false, 0.22415}, {2, 2, true, 0.2752}};
  return hardware;
}

Galvatron2022Layer BertHugeLayer() {
  return {false, 512, 1280, 76.98, 2.2917, {94.07, 52.475, 31.754, 21.612}};
}

Galvatron2022Model Bert() { return {100.0 / 24.0, 793.0, 313.0, 1024.0}; }

absl::StatusOr<Galvatron2022LayerCost> BertCost(int pipeline, const Strategy& strategy,
                                                int64_t batch) {
  return CostOfLayerIn2022(RtxTitans(), Bert(), BertHugeLayer(), pipeline, strategy, batch,
                           BertMicroBatchCountIn2022(pipeline, strategy, batch));
}

// papers.md 1.5, worked check.
TEST(CostOfLayerIn2022, MatchesTheWorkedDataParallelLayer) {
  ASSERT_OK_AND_ASSIGN(const Galvatron2022LayerCost cost, BertCost(1, DataParallel(8), 8));
  EXPECT_NEAR(cost.states_mb, 307.92, 1e-9);
  EXPECT_NEAR(cost.activation_mb, 94.07, 1e-9);
  EXPECT_NEAR(cost.other_mb, 2130.0, 1e-9);
  EXPECT_NEAR(cost.forward_ms, 1.1 * 2.2917, 1e-9);
  EXPECT_NEAR(cost.backward_ms, 1.1 * 4.5834, 1e-9);
  // d = 134.715 MB * 0.21531 ms/MB = 29.0055; 0.3 * 4.5834 + 29.0055 - 4.5834.
  EXPECT_NEAR(cost.gradient_sync_ms, 1.1 * (25.7971 + 100.0 / 24.0), 1e-3);
  EXPECT_NEAR(cost.layer_ms(), 40.5225, 1e-3);
}

TEST(CostOfLayerIn2022, AddsAnExposedGatherForSharding) {
  Strategy sharded = DataParallel(8);
  sharded.sharding_level = ShardingLevel::kParameters;
  ASSERT_OK_AND_ASSIGN(const Galvatron2022LayerCost cost, BertCost(1, sharded, 8));
  EXPECT_NEAR(cost.states_mb, 307.92 * 0.15, 1e-9);
  EXPECT_NEAR(cost.layer_ms(), 56.4754, 1e-3);
}

// The part that outlasts the backward pass (26.645 - 9.167 ms) is shared by two stages.
TEST(CostOfLayerIn2022, CountsThePipelinesGradientRemainderOnce) {
  ASSERT_OK_AND_ASSIGN(const Galvatron2022LayerCost cost, BertCost(2, DataParallel(4), 8));
  EXPECT_NEAR(cost.layer_ms(), 32.3463, 1e-3);
}

TEST(CostOfLayerIn2022, DividesTensorParallelTimeByTheStagesToo) {
  Strategy strategy;
  strategy.tensor_parallel_degree = 4;
  ASSERT_OK_AND_ASSIGN(const Galvatron2022LayerCost cost, BertCost(2, strategy, 16));
  // (2 + 4 - 1) / (2 * 4) of 27.5 + 55.38 ms.
  EXPECT_NEAR(cost.layer_ms(), 56.9801, 1e-3);
}

// Three figures of T5-Large-32 that the artefact's model predicts (papers.md 1.8)
// fix what decoders do: samples per second, all layers alike.
TEST(CostOfLayerIn2022, PredictsTheThroughputOfEncodersAndDecoders) {
  const Galvatron2022Model model = {60.0 / 24.0, 900.0, 350.0, 1024.0};
  const Galvatron2022Layer encoder = {false, 512, 1024, 48.01, 1.4583, {91, 54, 33, 23}};
  const Galvatron2022Layer decoder = {true, 512, 1024, 64.012, 2.7083, {158, 91, 56, 39}};
  Strategy tensor_two;
  tensor_two.tensor_parallel_degree = 2;
  tensor_two.data_parallel_degree = 4;
  Strategy three_axes = tensor_two;
  three_axes.data_parallel_degree = 2;
  const struct {
    int pipeline;
    Strategy strategy;
    double micro_batch_count;
    double samples_per_second;
  } kCases[] = {
      {1, DataParallel(8), 1, 8.44},
      {1, tensor_two, 1, 10.68},
      {2, three_axes, 2, 9.67},
  };
  for (const auto& [pipeline, strategy, micro_batch_count, samples_per_second] : kCases) {
    double step_ms = 0.0;
    for (const Galvatron2022Layer& layer : {encoder, decoder}) {
      ASSERT_OK_AND_ASSIGN(
          const Galvatron2022LayerCost cost,
          CostOfLayerIn2022(RtxTitans(), model, layer, pipeline, strategy, 8, micro_batch_count));
      step_ms += 16 * cost.layer_ms();
    }
    EXPECT_NEAR(8e3 / step_ms, samples_per_second, 0.006) << StrategyNotation(pipeline, strategy);
  }
}

// By hand: 2.7083 ms forward, 5.4167 backward, of which 3.6111 overlap with a gradient message of
// 16.003 MB x 0.27161 = 4.3466 ms, which makes both 4.3466 + 0.3 x 3.6111; six all-reduces of 1.5 x
// 8 MB take 16.3094 ms, and 2.5 ms are added.
TEST(CostOfLayerIn2022, OverlapsTwoThirdsOfADecoderWithoutPipeline) {
  const Galvatron2022Model model = {60.0 / 24.0, 900.0, 350.0, 1024.0};
  const Galvatron2022Layer decoder = {true, 512, 1024, 64.012, 65.0 / 24.0, {158, 91, 56, 39}};
  Strategy strategy;
  strategy.tensor_parallel_degree = 4;
  strategy.data_parallel_degree = 2;
  ASSERT_OK_AND_ASSIGN(const Galvatron2022LayerCost cost,
                       CostOfLayerIn2022(RtxTitans(), model, decoder, 1, strategy, 8, 1));
  EXPECT_NEAR(cost.layer_ms(), 31.6285, 1e-3);
}

TEST(CostOfLayerIn2022, NamesTheMeasurementItMisses) {
  Galvatron2022Hardware hardware = RtxTitans();
  hardware.all_reduces.clear();
  const absl::Status status =
      CostOfLayerIn2022(hardware, Bert(), BertHugeLayer(), 1, DataParallel(8), 8, 1).status();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kFailedPrecondition,
                               testing::HasSubstr("all-reduce of 8 ranks")));
  Galvatron2022Layer layer = BertHugeLayer();
  layer.activation_mb_per_sample.clear();
  const absl::Status no_activation =
      CostOfLayerIn2022(RtxTitans(), Bert(), layer, 1, DataParallel(8), 8, 1).status();
  EXPECT_THAT(no_activation,
              StatusIs(absl::StatusCode::kFailedPrecondition, testing::HasSubstr("activations")));
  ASSERT_TRUE(GetErrorDetail(status).has_value());
  EXPECT_EQ(GetErrorDetail(status)->reason, Reason::kProfileMissing);
}

TEST(MicroBatchCountIn2022, OfSwinFollowsTheSamplesOfAReplica) {
  for (const auto& [batch, count] : std::vector<std::pair<int64_t, double>>{
           {8, 1.0}, {32, 1.0}, {33, 2.0}, {124, 2.0}, {128, 3.0}, {384, 3.0}, {388, 4.0}}) {
    EXPECT_EQ(MicroBatchCountIn2022(MicroBatchRule2022::kSwin, 2, DataParallel(4), batch), count)
        << batch;
    EXPECT_EQ(MicroBatchCountIn2022(MicroBatchRule2022::kSwin, 1, DataParallel(8), batch), 1.0);
  }
}

TEST(BertMicroBatchCountIn2022, FollowsTheHandFittedRule) {
  Strategy tensor_four;
  tensor_four.tensor_parallel_degree = 4;
  EXPECT_EQ(BertMicroBatchCountIn2022(1, DataParallel(8), 64), 1.0);
  EXPECT_EQ(BertMicroBatchCountIn2022(2, tensor_four, 16), 4.0);
  EXPECT_EQ(BertMicroBatchCountIn2022(2, DataParallel(4), 16), 2.0);
  EXPECT_EQ(BertMicroBatchCountIn2022(2, DataParallel(4), 24), 2.75);
  EXPECT_EQ(BertMicroBatchCountIn2022(8, DataParallel(1), 8), 3.0);
  EXPECT_EQ(BertMicroBatchCountIn2022(2, DataParallel(4), 4), 1.0);
}

// "pp2": {"4": ..., "2_strided": ..., "2_consecutive": ...}.
Galvatron2022Hardware HardwareFrom(const json& node) {
  Galvatron2022Hardware hardware;
  hardware.overlap_slowdown = node.at("overlap_slowdown");
  hardware.backward_over_forward = node.at("backward_over_forward");
  for (const auto& [degree, groups] : node.at("allreduce_ms_per_mb").items()) {
    for (const auto& [group, speed] : groups.items()) {
      hardware.all_reduces.push_back({std::stoi(degree.substr(2)), std::stoi(group),
                                      group.find("strided") == std::string::npos,
                                      speed.get<double>()});
    }
  }
  return hardware;
}

TEST(CostOfLayerIn2022, ReproducesTheGoldenLayerCosts) {
  const json constants = json::parse(DataOf2022("constants.json"));
  const json golden = json::parse(DataOf2022("golden_layer_costs.json"));
  const json& bert = constants.at("models").at("bert-huge-32");
  const json& bert_layer = bert.at("layers").at(0);
  const Galvatron2022Hardware hardware = HardwareFrom(constants.at("hardware").at("rtx_titan_8"));
  const Galvatron2022Model model = {100.0 / 24.0, bert.at("other_states_mb"),
                                    bert.at("other_activation_mb_per_sample"),
                                    constants.at("context_mb")};
  const Galvatron2022Layer layer = {false,
                                    bert.at("sequence_length"),
                                    bert.at("hidden"),
                                    bert_layer.at("parameter_mb"),
                                    bert_layer.at("forward_ms_per_sample"),
                                    bert_layer.at("activation_mb_per_sample")};
  int row_count = 0;
  for (const auto& [batch_text, rows] : golden.at("by_global_batch").items()) {
    const int64_t batch = std::stoll(batch_text);
    EXPECT_EQ(rows.size(), 22u);
    for (const auto& [pipeline, strategy] : StrategiesOfEightDevices()) {
      const std::string notation = StrategyNotation(pipeline, strategy);
      SCOPED_TRACE(notation + " with batch " + batch_text);
      ASSERT_TRUE(rows.contains(notation));
      const json& row = rows.at(notation);
      ASSERT_OK_AND_ASSIGN(const Galvatron2022LayerCost cost,
                           CostOfLayerIn2022(hardware, model, layer, pipeline, strategy, batch,
                                             BertMicroBatchCountIn2022(pipeline, strategy, batch)));
      const auto expect_close = [&row](const char* name, double actual) {
        const double expected = row.at(name);
        EXPECT_NEAR(actual, expected, 1e-3 * expected) << name;
      };
      expect_close("states_mb", cost.states_mb);
      expect_close("activation_mb", cost.activation_mb);
      expect_close("other_mb", cost.other_mb);
      expect_close("layer_ms", cost.layer_ms());
      ++row_count;
    }
  }
  EXPECT_EQ(row_count, 44);
}

}  // namespace
}  // namespace parplan
