#include "planner/planners/ilp/operator_options.h"

#include <algorithm>
#include <map>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/estimated_problem.h"

namespace parplan {
namespace {

using testing::ElementsAre;

LayerDefinition Decoder() {
  return *LayerDefinition::Create({.layer_definition_id = "decoder",
                                   .kind = LayerKind::kDecoder,
                                   .hidden_size = 1024,
                                   .attention_head_count = 16,
                                   .feed_forward_size = 4096,
                                   .feed_forward_kind = FeedForwardKind::kGelu,
                                   .sequence_length = 512},
                                  "decoder");
}

PlanningProblem EightDevices() { return EstimatedProblem({.device_count = 8}); }

DeviceMesh TwoByFour() { return MeshesOf(8)[1]; }

std::vector<std::string> TagsOf(const std::vector<OperatorOption>& options) {
  std::vector<std::string> tags;
  for (const OperatorOption& option : options) tags.push_back(option.cost.tag);
  return tags;
}

const OperatorOption& WithTag(const std::vector<OperatorOption>& options, const std::string& tag) {
  return *std::find_if(options.begin(), options.end(),
                       [&](const OperatorOption& option) { return option.cost.tag == tag; });
}

// A product of 4096 x 1024 by 1024 x 2048, two bytes an element.
Operator Product() {
  Operator product;
  product.kind = OperatorKind::kMatrix;
  product.rows = 4096;
  product.inner = 1024;
  product.columns = 2048;
  product.row_units = 4096;
  product.inner_units = 1024;
  product.column_units = 2048;
  product.parameter_count = 1024.0 * 2048.0;
  product.flops = 2.0 * 4096 * 1024 * 2048;
  return product;
}

OperatorScales Scales() {
  return {.element_bytes = 2.0,
          .state_bytes_per_parameter = 16.0,
          .gradient_message_bytes_per_parameter = 2.0};
}

// Returns every layout of a mesh.
std::vector<Layout> LayoutsOf(const DeviceMesh& mesh) {
  std::vector<Layout> layouts;
  for (int index = 0; index < kLayoutCount; ++index) {
    const Layout layout = LayoutOf(index);
    bool fits = true;
    for (int axis = 0; axis < kMeshAxisCount; ++axis) {
      fits &= mesh.axes[axis].size > 1 || layout.axes[axis] == AxisLayout::kReplicated;
    }
    if (fits) layouts.push_back(layout);
  }
  return layouts;
}

TEST(DeviceMesh, HasOneAxisOrTwoWhoseSizesMultiply) {
  std::vector<std::string> names;
  for (const DeviceMesh& mesh : MeshesOf(12)) {
    names.push_back(mesh.ToString());
    EXPECT_EQ(mesh.device_count(), 12);
    EXPECT_EQ(mesh.axes[1].rank_stride, 1);
    EXPECT_EQ(mesh.axes[0].rank_stride, mesh.axes[1].size);
  }
  EXPECT_THAT(names, ElementsAre("12", "2x6", "3x4", "4x3", "6x2"));
  EXPECT_EQ(MeshesOf(1).size(), 1u);
  EXPECT_EQ(LayoutsOf(MeshesOf(12)[0]).size(), 3u);
  EXPECT_EQ(LayoutsOf(MeshesOf(12)[1]).size(), 9u);
}

TEST(OptionsOf, ListsFourChoicesAnAxisForProducts) {
  const PlanningProblem problem = EightDevices();
  const OperatorTimes times(problem, MeshesOf(8));
  EXPECT_THAT(TagsOf(OptionsOf(Product(), MeshesOf(8)[0], times, Scales())),
              ElementsAre("m", "n", "k", "r"));
  EXPECT_EQ(OptionsOf(Product(), TwoByFour(), times, Scales()).size(), 16u);
  // Six columns can be halved and not quartered.
  Operator narrow = Product();
  narrow.column_units = 6;
  const auto options = OptionsOf(narrow, TwoByFour(), times, Scales());
  EXPECT_EQ(options.size(), 12u);
  for (const OperatorOption& option : options) EXPECT_NE(option.cost.tag[1], 'n');
}

TEST(OptionsOf, SharesWeightsAndSumsWhatIsPartial) {
  const PlanningProblem problem = EightDevices();
  const OperatorTimes times(problem, MeshesOf(8));
  const DeviceMesh mesh = TwoByFour();
  const auto options = OptionsOf(Product(), mesh, times, Scales());
  const double states = 16.0 * 1024 * 2048;
  const auto sum = [&](int axis, double bytes) {
    return times.CollectiveSeconds(Collective::kAllReduce, mesh.axes[axis], bytes);
  };
  const auto device = [&](double rows, double inner, double columns) {
    Operator part = Product();
    part.rows = rows;
    part.inner = inner;
    part.columns = columns;
    part.flops = 2.0 * rows * inner * columns;
    return times.DeviceSeconds(part);
  };

  const OperatorOption& mn = WithTag(options, "mn");
  EXPECT_DOUBLE_EQ(mn.cost.state_bytes, states / 4);
  EXPECT_EQ(mn.input.ToString(), "0R");
  EXPECT_EQ(mn.output.ToString(), "01");
  // The gradient of half the rows of X over four devices, that of a quarter of W over two.
  EXPECT_DOUBLE_EQ(mn.cost.seconds,
                   device(2048, 1024, 512) + sum(1, 2.0 * 2048 * 1024) + sum(0, 2.0 * 1024 * 512));

  const OperatorOption& nk = WithTag(options, "nk");
  EXPECT_DOUBLE_EQ(nk.cost.state_bytes, states / 8);
  EXPECT_EQ(nk.input.ToString(), "R1");
  EXPECT_EQ(nk.output.ToString(), "1R");
  // Y by halves of its columns over four devices, X by quarters over two.
  EXPECT_DOUBLE_EQ(nk.cost.seconds,
                   device(4096, 256, 1024) + sum(1, 2.0 * 4096 * 1024) + sum(0, 2.0 * 4096 * 256));

  const OperatorOption& rr = WithTag(options, "rr");
  EXPECT_DOUBLE_EQ(rr.cost.state_bytes, states);
  EXPECT_DOUBLE_EQ(rr.cost.seconds, device(4096, 1024, 2048));
}

TEST(OptionsOf, RepeatsAllButTheSumOfWeightGradients) {
  const PlanningProblem problem = EightDevices();
  const OperatorTimes times(problem, MeshesOf(8));
  const DeviceMesh mesh = MeshesOf(8)[0];
  OperatorScales four = Scales();
  four.micro_batch_count = 4;
  const auto once = OptionsOf(Product(), mesh, times, Scales());
  const auto often = OptionsOf(Product(), mesh, times, four);
  for (const char* tag : {"n", "k", "r"}) {
    EXPECT_DOUBLE_EQ(WithTag(often, tag).cost.seconds, 4 * WithTag(once, tag).cost.seconds);
  }
  const double sum =
      times.CollectiveSeconds(Collective::kAllReduce, mesh.axes[1], 2.0 * 1024 * 2048);
  EXPECT_NEAR(WithTag(often, "m").cost.seconds, 4 * WithTag(once, "m").cost.seconds - 3 * sum,
              1e-12);
}

TEST(ReshardSeconds, GathersWhatWasCutAndExchangesRowsForColumns) {
  const PlanningProblem problem = EightDevices();
  const OperatorTimes times(problem, MeshesOf(8));
  const DeviceMesh mesh = TwoByFour();
  const auto layout = [](AxisLayout outer, AxisLayout inner) { return Layout{{outer, inner}}; };
  const auto whole = AxisLayout::kReplicated;
  const auto rows = AxisLayout::kRows;
  const auto columns = AxisLayout::kColumns;
  const double bytes = 1 << 26;
  const auto gather = [&](int axis, double message) {
    return times.CollectiveSeconds(Collective::kAllGather, mesh.axes[axis], message);
  };
  const auto reshard = [&](const Layout& from, const Layout& to) {
    return ReshardSeconds(bytes, from, to, mesh, times);
  };
  // One way a slice, the other way a gather.
  EXPECT_DOUBLE_EQ(reshard(layout(whole, whole), layout(whole, rows)), gather(1, bytes));
  EXPECT_DOUBLE_EQ(reshard(layout(whole, rows), layout(whole, whole)), gather(1, bytes));
  EXPECT_DOUBLE_EQ(reshard(layout(rows, rows), layout(rows, whole)), gather(1, bytes / 2));
  // Both ways an exchange of what a device has.
  EXPECT_DOUBLE_EQ(reshard(layout(rows, rows), layout(rows, columns)),
                   2 * times.CollectiveSeconds(Collective::kAllToAll, mesh.axes[1], bytes / 8));
  for (const Layout& from : LayoutsOf(mesh)) {
    EXPECT_EQ(reshard(from, from), 0.0);
    for (const Layout& to : LayoutsOf(mesh)) {
      EXPECT_DOUBLE_EQ(reshard(from, to), reshard(to, from));
      if (!(from == to)) {
        EXPECT_GT(reshard(from, to), 0.0);
      }
    }
  }
}

TEST(OperatorsOf, DoesTheWorkOfTheLayer) {
  LayerDefinition gated = Decoder();
  gated.feed_forward_kind = FeedForwardKind::kSwiglu;
  gated.key_value_head_count = 4;
  LayerDefinition encoder = Decoder();
  encoder.kind = LayerKind::kEncoder;
  for (const LayerDefinition& layer : {Decoder(), gated, encoder}) {
    double flops = 0.0;
    for (const Operator& op :
         OperatorsOf(layer, Precision::kBf16, {}, 8, /*has_tied_table=*/false).operators) {
      flops += op.flops;
    }
    EXPECT_NEAR(flops / (8 * ForwardFlopsPerSample(layer, 512)), 1.0, 1e-9);
  }
}

TEST(OperatorsOf, ListsADecoderInOrder) {
  const OperatorGraph graph = OperatorsOf(Decoder(), Precision::kBf16, {}, 8, false);
  std::vector<std::string> names;
  for (const Operator& op : graph.operators) names.push_back(op.name);
  EXPECT_THAT(names, ElementsAre("norm1", "qkv", "attention", "projection", "add1", "norm2",
                                 "first", "activation", "second", "add2"));
  EXPECT_THAT(graph.edges, ElementsAre(OperatorEdge{-1, 0}, OperatorEdge{0, 1}, OperatorEdge{1, 2},
                                       OperatorEdge{2, 3}, OperatorEdge{3, 4}, OperatorEdge{-1, 4},
                                       OperatorEdge{4, 5}, OperatorEdge{5, 6}, OperatorEdge{6, 7},
                                       OperatorEdge{7, 8}, OperatorEdge{8, 9}, OperatorEdge{4, 9}));
  // 12 h^2, biases and norms.
  double parameters = 0.0;
  for (const Operator& op : graph.operators) parameters += op.parameter_count;
  EXPECT_DOUBLE_EQ(parameters, 12.0 * 1024 * 1024 + 13.0 * 1024);
}

TEST(OperatorsOf, SplitsAttentionBySamplesAndKeyValueHeads) {
  LayerDefinition layer = Decoder();
  layer.key_value_head_count = 4;
  const OperatorGraph graph = OperatorsOf(layer, Precision::kBf16, {}, 2, false);
  const PlanningProblem problem = EightDevices();
  const OperatorTimes times(problem, MeshesOf(8));
  // Two samples and four heads: not eight of either, but two by four.
  EXPECT_THAT(TagsOf(OptionsOf(graph.operators[2], MeshesOf(8)[0], times, Scales())),
              ElementsAre("r"));
  EXPECT_THAT(TagsOf(OptionsOf(graph.operators[2], TwoByFour(), times, Scales())),
              ElementsAre("mn", "mr", "nr", "rn", "rr"));
  // Norms know tokens only.
  EXPECT_THAT(TagsOf(OptionsOf(graph.operators[0], MeshesOf(8)[0], times, Scales())),
              ElementsAre("m", "r"));
}

}  // namespace
}  // namespace parplan
