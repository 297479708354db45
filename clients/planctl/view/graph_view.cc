#include "clients/planctl/view/graph_view.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "base/error.h"
#include "base/quantity_text.h"
#include "clients/planctl/view/text_layout.h"

namespace parplan::planctl {
namespace {

constexpr char kGraphLetters[] =
    "One letter for each axis of the mesh: m splits rows, n columns, k the inner dimension of a "
    "product, r replicates. Redundant is the memory of a strategy beyond an even share.";

std::string GraphSize(double bytes) {
  return SizeText(Bytes::Of(static_cast<int64_t>(std::llround(std::max(0.0, bytes)))));
}

std::string SvgEscaped(absl::string_view text) {
  return absl::StrReplaceAll(text,
                             {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}});
}

std::string GraphHeadText(const AuxiliaryGraph& graph) {
  std::string text = absl::StrFormat(
      "mesh         %s of %d devices\n"
      "batch        %d micro-batch(es) of %d samples\n",
      graph.mesh, graph.device_count, graph.micro_batch_count, graph.micro_batch_size);
  if (graph.memory_bytes > 0.0) {
    absl::StrAppendFormat(&text, "memory       %s a device, %s\n", GraphSize(graph.memory_bytes),
                          graph.is_proved ? "proved to be the least of this graph"
                                          : "not proved to be the least of this graph");
    absl::StrAppendFormat(&text, "redundant    %s of it, beyond an even share of %s\n",
                          GraphSize(graph.memory_bytes - graph.even_share_bytes),
                          GraphSize(graph.even_share_bytes));
    absl::StrAppendFormat(&text, "time         %.1f ms a step\n", graph.seconds * 1e3);
  } else {
    absl::StrAppend(&text,
                    "memory       unknown: the program was not solved within its limit of steps\n");
  }
  return text;
}

// Returns the redundant bytes of the strategy of an operator that has most of them.
double MostRedundantBytes(const AuxiliaryOperator& op) {
  double most = 0.0;
  for (const AuxiliaryStrategy& strategy : op.strategies) {
    most = std::max(most, strategy.redundant_bytes);
  }
  return most;
}

nlohmann::ordered_json OperatorJson(const AuxiliaryOperator& op) {
  nlohmann::ordered_json object = {
      {"name", op.name}, {"layer_count", op.multiplicity}, {"unique_bytes", op.unique_bytes}};
  object["chosen"] = nullptr;
  if (op.chosen) object["chosen"] = op.strategies[*op.chosen].tag;
  object["strategies"] = nlohmann::ordered_json::array();
  for (const AuxiliaryStrategy& strategy : op.strategies) {
    object["strategies"].push_back({{"strategy", strategy.tag},
                                    {"state_bytes", strategy.state_bytes},
                                    {"kept_bytes", strategy.kept_bytes},
                                    {"memory_bytes", strategy.memory_bytes()},
                                    {"redundant_bytes", strategy.redundant_bytes},
                                    {"step_seconds", strategy.seconds}});
  }
  return object;
}

std::string SvgHead(int width, int height, absl::string_view title) {
  return absl::StrFormat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
      "role=\"img\" font-family=\"sans-serif\" font-size=\"12\">\n<title>%s</title>\n"
      "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
      width, height, width, height, SvgEscaped(title));
}

std::string SvgLabel(int x, int y, absl::string_view text, absl::string_view anchor = "start") {
  return absl::StrFormat("<text x=\"%d\" y=\"%d\" text-anchor=\"%s\">%s</text>\n", x, y, anchor,
                         SvgEscaped(text));
}

// From white for no redundancy to red for the most of the operator.
std::string RednessOf(const AuxiliaryOperator& op, const AuxiliaryStrategy& strategy) {
  const double most = MostRedundantBytes(op);
  const double share = most > 0.0 ? std::clamp(strategy.redundant_bytes / most, 0.0, 1.0) : 0.0;
  const int rest = static_cast<int>(std::lround(255.0 - 155.0 * share));
  return absl::StrFormat("rgb(255,%d,%d)", rest, rest);
}

std::string StrategyTip(const AuxiliaryStrategy& strategy) {
  return absl::StrFormat("%s: %s, of which %s redundant", strategy.tag,
                         GraphSize(strategy.memory_bytes()), GraphSize(strategy.redundant_bytes));
}

// Geometry of figure 2, in pixels: the operators with their edges on the left, then their names,
// then their strategies.
constexpr int kGraphNodeX = 86;
constexpr int kGraphNodeRadius = 6;
constexpr int kGraphLabelX = 100;
constexpr int kGraphLabelWidth = 260;
constexpr int kGraphColumnWidth = 46;
constexpr int kGraphBoxWidth = 36;
constexpr int kGraphBoxHeight = 22;
constexpr int kGraphRowHeight = 68;
constexpr int kGraphTop = 76;

int BoxCenter(int strategy) {
  return kGraphLabelWidth + strategy * kGraphColumnWidth + kGraphBoxWidth / 2;
}
int BoxTop(int op) { return kGraphTop + op * kGraphRowHeight; }

int NodeY(int op) { return BoxTop(op) + kGraphBoxHeight / 2; }

// Returns the edge of panel (a): straight to the next operator, else a curve on the left.
std::string OperatorEdge(const AuxiliaryEdge& edge) {
  const int from = NodeY(edge.from);
  const int to = NodeY(edge.to);
  std::string way;
  if (edge.to == edge.from + 1) {
    way = absl::StrFormat("M%d %d V%d", kGraphNodeX, from + kGraphNodeRadius,
                          to - kGraphNodeRadius - 2);
  } else {
    // Longer edges bulge further, so that they do not cover shorter ones.
    const int bulge = kGraphNodeX - std::min(72, 14 + 8 * std::abs(edge.to - edge.from));
    const int side = kGraphNodeX - kGraphNodeRadius;
    way = absl::StrFormat("M%d %d C%d %d %d %d %d %d", side, from, bulge, from, bulge, to, side - 2,
                          to);
  }
  return absl::StrFormat(
      "<path d=\"%s\" fill=\"none\" stroke=\"#555\" marker-end=\"url(#end)\"/>\n", way);
}

std::string EdgeLine(const AuxiliaryEdge& edge, int i, int j, absl::string_view style) {
  return absl::StrFormat("<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\" %s/>\n", BoxCenter(i),
                         BoxTop(edge.from) + kGraphBoxHeight, BoxCenter(j), BoxTop(edge.to), style);
}

// Returns the lines of an edge between consecutive rows. Other edges (skip connections, from one
// layer to the next) would cross the boxes between, and are in panel (a) alone.
std::string EdgeLines(const AuxiliaryGraph& graph, const AuxiliaryEdge& edge) {
  std::string lines;
  if (edge.to != edge.from + 1) return lines;
  for (int i = 0; i < static_cast<int>(edge.seconds.size()); ++i) {
    for (int j = 0; j < static_cast<int>(edge.seconds[i].size()); ++j) {
      if (edge.seconds[i][j] > 0.0 || edge.copy_bytes[i][j] > 0.0) continue;
      lines += EdgeLine(edge, i, j, "stroke=\"#ccc\" stroke-width=\"0.6\"");
    }
  }
  const std::optional<int> from = graph.operators[edge.from].chosen;
  const std::optional<int> to = graph.operators[edge.to].chosen;
  if (from && to) {
    const bool is_free = edge.seconds[*from][*to] == 0.0 && edge.copy_bytes[*from][*to] == 0.0;
    lines += EdgeLine(edge, *from, *to,
                      is_free ? "stroke=\"#1f4e9c\" stroke-width=\"2.5\""
                              : "stroke=\"#1f4e9c\" stroke-width=\"2.5\" stroke-dasharray=\"5 3\"");
  }
  return lines;
}

}  // namespace

absl::StatusOr<const AuxiliaryOperator*> OperatorNamed(const AuxiliaryGraph& graph,
                                                       absl::string_view name) {
  std::vector<std::string> names;
  for (const AuxiliaryOperator& op : graph.operators) {
    if (op.name == name) return &op;
    if (std::find(names.begin(), names.end(), op.name) == names.end()) names.push_back(op.name);
  }
  return MakeError(absl::StatusCode::kNotFound, Reason::kResourceNotFound,
                   absl::StrCat("--operator: `", name, "` is no operator of the model; use one of ",
                                absl::StrJoin(names, ", ")));
}

std::string GraphText(const AuxiliaryGraph& graph) {
  std::string text = GraphHeadText(graph);
  absl::StrAppendFormat(&text, "\n  %-24s %6s  %-6s %11s %11s  %10s  %s\n", "operator", "layers",
                        "choice", "memory", "redundant", "strategies", "redundant at most");
  for (const AuxiliaryOperator& op : graph.operators) {
    absl::StrAppendFormat(&text, "  %-24s %6d  ", op.name, op.multiplicity);
    if (op.chosen) {
      const AuxiliaryStrategy& chosen = op.strategies[*op.chosen];
      absl::StrAppendFormat(&text, "%-6s %11s %11s", chosen.tag, GraphSize(chosen.memory_bytes()),
                            GraphSize(chosen.redundant_bytes));
    } else {
      absl::StrAppendFormat(&text, "%-6s %11s %11s", "-", "-", "-");
    }
    absl::StrAppendFormat(&text, "  %10d  %s\n", op.strategies.size(),
                          GraphSize(MostRedundantBytes(op)));
  }
  absl::StrAppend(&text, "\n", Wrap(kGraphLetters, 0), "\n");
  return text;
}

std::string OperatorText(const AuxiliaryGraph& graph, const AuxiliaryOperator& op) {
  std::string text = absl::StrFormat(
      "%s on a mesh of %s, %d micro-batch(es) of %d samples\n%s in all, %s an even share\n\n",
      op.name, graph.mesh, graph.micro_batch_count, graph.micro_batch_size,
      GraphSize(op.unique_bytes), GraphSize(op.unique_bytes / graph.device_count));
  absl::StrAppendFormat(&text, "  %-9s %11s %11s %11s %11s %10s\n", "strategy", "states", "kept",
                        "memory", "redundant", "time");
  for (int i = 0; i < static_cast<int>(op.strategies.size()); ++i) {
    const AuxiliaryStrategy& strategy = op.strategies[i];
    absl::StrAppendFormat(&text, "%s %-9s %11s %11s %11s %11s %7.3f ms\n",
                          op.chosen == i ? "*" : " ", strategy.tag, GraphSize(strategy.state_bytes),
                          GraphSize(strategy.kept_bytes), GraphSize(strategy.memory_bytes()),
                          GraphSize(strategy.redundant_bytes), strategy.seconds * 1e3);
  }
  if (op.chosen) {
    absl::StrAppend(&text, "\n* the choice in the graph, which is ",
                    graph.is_proved ? "proved" : "not proved", " to need the least memory\n");
  }
  absl::StrAppend(&text, Wrap(kGraphLetters, 0), "\n");
  return text;
}

nlohmann::ordered_json GraphJson(const AuxiliaryGraph& graph, const AuxiliaryOperator* op) {
  nlohmann::ordered_json object = {{"mesh", graph.mesh},
                                   {"device_count", graph.device_count},
                                   {"micro_batch_size", graph.micro_batch_size},
                                   {"micro_batch_count", graph.micro_batch_count},
                                   {"memory_bytes", graph.memory_bytes},
                                   {"even_share_bytes", graph.even_share_bytes},
                                   {"redundant_bytes", graph.memory_bytes - graph.even_share_bytes},
                                   {"step_seconds", graph.seconds},
                                   {"is_proved", graph.is_proved}};
  if (graph.memory_bytes == 0.0) object["redundant_bytes"] = nullptr;
  object["operators"] = nlohmann::ordered_json::array();
  for (const AuxiliaryOperator& each : graph.operators) {
    if (op == nullptr || op == &each) object["operators"].push_back(OperatorJson(each));
  }
  if (op != nullptr) return object;
  object["edges"] = nlohmann::ordered_json::array();
  for (const AuxiliaryEdge& edge : graph.edges) {
    object["edges"].push_back({{"from", graph.operators[edge.from].name},
                               {"to", graph.operators[edge.to].name},
                               {"tensor_count", edge.multiplicity}});
  }
  return object;
}

std::string GraphSvg(const AuxiliaryGraph& graph) {
  size_t columns = 1;
  for (const AuxiliaryOperator& op : graph.operators) {
    columns = std::max(columns, op.strategies.size());
  }
  const int width = kGraphLabelWidth + static_cast<int>(columns) * kGraphColumnWidth + 10;
  const int height = BoxTop(static_cast<int>(graph.operators.size())) + 10;
  const std::string title = absl::StrCat(
      "Auxiliary graph on a mesh of ", graph.mesh, ": ",
      graph.memory_bytes > 0.0
          ? absl::StrFormat("%s a device, %s of it redundant", GraphSize(graph.memory_bytes),
                            GraphSize(graph.memory_bytes - graph.even_share_bytes))
          : "no choice, because the program was not solved within its limit of steps");
  std::string svg = SvgHead(width, height, title);
  svg += SvgLabel(10, 20, title);
  svg += SvgLabel(10, 38,
                  "A box is a strategy, redder the more of it is redundant; grey lines need no "
                  "exchange; blue is the choice, dashed where it needs one.");
  svg += SvgLabel(10, 60, "(a) operators and tensors");
  svg += SvgLabel(kGraphLabelWidth, 60, "(b) strategies of each operator");
  svg +=
      "<defs><marker id=\"end\" viewBox=\"0 0 6 6\" refX=\"5\" refY=\"3\" markerWidth=\"6\" "
      "markerHeight=\"6\" orient=\"auto\"><path d=\"M0 0 L6 3 L0 6 z\" "
      "fill=\"#555\"/></marker></defs>\n";
  for (const AuxiliaryEdge& edge : graph.edges) svg += OperatorEdge(edge);
  for (const AuxiliaryEdge& edge : graph.edges) svg += EdgeLines(graph, edge);
  for (int v = 0; v < static_cast<int>(graph.operators.size()); ++v) {
    const AuxiliaryOperator& op = graph.operators[v];
    const std::string times = op.multiplicity > 1 ? absl::StrFormat(" x%d", op.multiplicity) : "";
    absl::StrAppendFormat(&svg,
                          "<circle cx=\"%d\" cy=\"%d\" r=\"%d\" fill=\"#ddd\" "
                          "stroke=\"#555\"/>\n",
                          kGraphNodeX, NodeY(v), kGraphNodeRadius);
    svg += SvgLabel(kGraphLabelX, BoxTop(v) + 15, op.name + times);
    for (int i = 0; i < static_cast<int>(op.strategies.size()); ++i) {
      const AuxiliaryStrategy& strategy = op.strategies[i];
      absl::StrAppendFormat(
          &svg,
          "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"4\" fill=\"%s\" %s>"
          "<title>%s</title></rect>\n",
          BoxCenter(i) - kGraphBoxWidth / 2, BoxTop(v), kGraphBoxWidth, kGraphBoxHeight,
          RednessOf(op, strategy),
          op.chosen == i ? "stroke=\"#1f4e9c\" stroke-width=\"3\"" : "stroke=\"#888\"",
          SvgEscaped(StrategyTip(strategy)));
      svg += SvgLabel(BoxCenter(i), BoxTop(v) + 15, strategy.tag, "middle");
    }
  }
  return svg + "</svg>\n";
}

std::string OperatorSvg(const AuxiliaryGraph& graph, const AuxiliaryOperator& op) {
  constexpr int kBarLeft = 60;
  constexpr int kBarWidth = 520;
  constexpr int kBarStep = 26;
  double most = 1.0;
  for (const AuxiliaryStrategy& strategy : op.strategies) {
    most = std::max(most, strategy.memory_bytes());
  }
  const double share = op.unique_bytes / graph.device_count;
  const std::string title =
      absl::StrFormat("Strategies of %s on a mesh of %s: memory of a device", op.name, graph.mesh);
  const int height = kGraphTop + static_cast<int>(op.strategies.size()) * kBarStep + 10;
  std::string svg = SvgHead(kBarLeft + kBarWidth + 240, height, title);
  svg += SvgLabel(10, 20, title);
  svg += SvgLabel(10, 38,
                  absl::StrFormat("Grey: an even share, %s. Red: redundant.", GraphSize(share)));
  for (int i = 0; i < static_cast<int>(op.strategies.size()); ++i) {
    const AuxiliaryStrategy& strategy = op.strategies[i];
    const int y = kGraphTop + i * kBarStep;
    const double redundant = std::max(0.0, strategy.redundant_bytes);
    const double even = (strategy.memory_bytes() - redundant) / most * kBarWidth;
    svg +=
        SvgLabel(kBarLeft - 8, y + 14, op.chosen == i ? "* " + strategy.tag : strategy.tag, "end");
    absl::StrAppendFormat(&svg,
                          "<rect x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"18\" fill=\"#bbb\"/>"
                          "<rect x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"18\" "
                          "fill=\"rgb(225,90,90)\"/>\n",
                          kBarLeft, y, even, kBarLeft + even, y, redundant / most * kBarWidth);
    svg += SvgLabel(kBarLeft + static_cast<int>(strategy.memory_bytes() / most * kBarWidth) + 6,
                    y + 14, StrategyTip(strategy));
  }
  return svg + "</svg>\n";
}

}  // namespace parplan::planctl
