#include "clients/planctl/view/graph_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/clients/planctl/view/expect_tidy.h"
#include "tests/support/status_matchers.h"

namespace parplan::planctl {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Two operators on two devices: a product with three strategies and what follows it with two.
AuxiliaryGraph TwoOperators() {
  AuxiliaryGraph graph{.mesh = "2", .device_count = 2, .micro_batch_size = 4};
  AuxiliaryOperator product{.name = "block.first", .multiplicity = 3, .unique_bytes = 4e6};
  product.strategies = {
      {.tag = "m", .state_bytes = 2e6, .kept_bytes = 1e6, .redundant_bytes = 1e6, .seconds = 1e-3},
      {.tag = "n", .state_bytes = 1e6, .kept_bytes = 1e6, .redundant_bytes = 0, .seconds = 2e-3},
      {.tag = "r", .state_bytes = 2e6, .kept_bytes = 2e6, .redundant_bytes = 2e6, .seconds = 4e-3}};
  product.chosen = 1;
  AuxiliaryOperator after{.name = "block.<activation>", .multiplicity = 3, .unique_bytes = 2e6};
  after.strategies = {{.tag = "n", .kept_bytes = 1e6}, {.tag = "r", .kept_bytes = 2e6}};
  after.strategies[1].redundant_bytes = 1e6;
  after.chosen = 0;
  graph.operators = {product, after};
  graph.edges = {{.from = 0,
                  .to = 1,
                  .multiplicity = 3,
                  .seconds = {{1e-3, 2e-3}, {0.0, 1e-3}, {0.0, 0.0}},
                  .copy_bytes = {{0.0, 0.0}, {0.0, 0.0}, {0.0, 0.0}}}};
  graph.memory_bytes = 9e6;
  graph.even_share_bytes = 9e6;
  graph.seconds = 6e-3;
  graph.is_proved = true;
  return graph;
}

TEST(GraphView, TextHasEveryOperatorAndItsChoice) {
  const AuxiliaryGraph graph = TwoOperators();
  const std::string text = GraphText(graph);
  ExpectTidy(text);
  EXPECT_THAT(text, HasSubstr("redundant    0 B of it, beyond an even share of 9.00 MB"));
  EXPECT_THAT(text, HasSubstr("block.first                   3  n"));
  EXPECT_THAT(text, HasSubstr("proved to be the least"));
  ASSERT_OK_AND_ASSIGN(const AuxiliaryOperator* const op, OperatorNamed(graph, "block.first"));
  const std::string table = OperatorText(graph, *op);
  ExpectTidy(table);
  EXPECT_THAT(table, HasSubstr("4.00 MB in all, 2.00 MB an even share"));
  EXPECT_THAT(table, HasSubstr("\n* n "));
  EXPECT_THAT(table, HasSubstr("\n  r "));
}

// A graph whose program was not solved has neither memory nor a choice, and no text says so.
TEST(GraphView, WithoutAChoiceNoMemoryIsClaimed) {
  AuxiliaryGraph graph = TwoOperators();
  for (AuxiliaryOperator& op : graph.operators) op.chosen.reset();
  graph.memory_bytes = 0.0;
  graph.is_proved = false;
  const std::string text = GraphText(graph);
  ExpectTidy(text);
  EXPECT_THAT(text, HasSubstr("memory       unknown"));
  EXPECT_THAT(text, Not(HasSubstr("proved")));
  const std::string svg = GraphSvg(graph);
  EXPECT_THAT(svg, HasSubstr("no choice"));
  EXPECT_THAT(svg, Not(HasSubstr("0 B a device")));
  EXPECT_THAT(OperatorText(graph, graph.operators[0]), Not(HasSubstr("the choice")));
  EXPECT_TRUE(GraphJson(graph, nullptr)["redundant_bytes"].is_null());
}

TEST(GraphView, TextSaysWhetherTheChoiceIsProved) {
  AuxiliaryGraph graph = TwoOperators();
  EXPECT_THAT(OperatorText(graph, graph.operators[0]), HasSubstr("which is proved to need"));
  graph.is_proved = false;
  EXPECT_THAT(OperatorText(graph, graph.operators[0]), HasSubstr("which is not proved to need"));
  EXPECT_THAT(GraphText(graph), HasSubstr("not proved to be the least"));
}

TEST(GraphView, NamesTheOperatorsThereAre) {
  EXPECT_THAT(OperatorNamed(TwoOperators(), "qkv"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("block.first, block.<activation>")));
}

TEST(GraphView, JsonHasTheRedundancyOfEveryStrategy) {
  const AuxiliaryGraph graph = TwoOperators();
  const nlohmann::ordered_json json = GraphJson(graph, nullptr);
  ASSERT_EQ(json["operators"].size(), 2u);
  EXPECT_EQ(json["operators"][0]["chosen"], "n");
  EXPECT_EQ(json["operators"][0]["strategies"][2]["redundant_bytes"], 2e6);
  EXPECT_EQ(json["operators"][0]["strategies"][0]["memory_bytes"], 3e6);
  EXPECT_EQ(json["edges"][0]["from"], "block.first");
  EXPECT_EQ(GraphJson(graph, &graph.operators[1])["operators"].size(), 1u);
}

// A box for every strategy; grey lines for the three pairs without an exchange, blue for the
// choice.
TEST(GraphView, PicturesShowEveryStrategy) {
  const AuxiliaryGraph graph = TwoOperators();
  const auto count = [](const std::string& text, const std::string& part) {
    int found = 0;
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
      ++found;
    }
    return found;
  };
  const std::string svg = GraphSvg(graph);
  EXPECT_EQ(count(svg, "<rect x="), 5);
  EXPECT_EQ(count(svg, "stroke=\"#ccc\""), 3);
  EXPECT_EQ(count(svg, "<line"), 4);
  EXPECT_THAT(svg, HasSubstr("block.&lt;activation&gt; x3"));
  // The graph of operators beside it: a node for each, an arrow for each edge.
  EXPECT_EQ(count(svg, "<circle"), 2);
  EXPECT_EQ(count(svg, "marker-end="), 1);
  // No redundancy is white, the most of an operator red.
  EXPECT_THAT(svg, HasSubstr("fill=\"rgb(255,255,255)\""));
  EXPECT_THAT(svg, HasSubstr("fill=\"rgb(255,100,100)\""));
  const std::string bars = OperatorSvg(graph, graph.operators[0]);
  EXPECT_EQ(count(bars, "fill=\"#bbb\""), 3);
  EXPECT_THAT(bars, HasSubstr("m: 3.00 MB, of which 1.00 MB redundant"));
  for (const std::string& picture : {svg, bars}) {
    EXPECT_EQ(picture.substr(0, 5), "<svg ");
    EXPECT_EQ(count(picture, "<text"), count(picture, "</text>"));
  }
}

// Edges that skip an operator, or lead from a layer to the next one, are curves.
TEST(GraphView, PicturesShowEveryEdgeOfTheOriginalGraph) {
  AuxiliaryGraph graph = TwoOperators();
  graph.operators.push_back(graph.operators[1]);
  AuxiliaryEdge skip = graph.edges[0];
  skip.to = 2;
  AuxiliaryEdge back = graph.edges[0];
  back.from = 2;
  back.to = 0;
  graph.edges.push_back(skip);
  graph.edges.push_back(back);
  const std::string svg = GraphSvg(graph);
  int arrows = 0, curves = 0;
  for (size_t at = svg.find("<path d=\"M"); at != std::string::npos;
       at = svg.find("<path d=\"M", at + 1)) {
    const std::string path = svg.substr(at, svg.find('>', at) - at);
    if (path.find("marker-end") == std::string::npos) continue;
    ++arrows;
    if (path.find(" C") != std::string::npos) ++curves;
  }
  EXPECT_EQ(arrows, 3);
  EXPECT_EQ(curves, 2);
}

}  // namespace
}  // namespace parplan::planctl
