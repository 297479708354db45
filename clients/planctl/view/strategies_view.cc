#include "clients/planctl/view/strategies_view.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "clients/planctl/view/text_layout.h"
#include "planner/search/space/strategy_tree.h"

namespace parplan::planctl {
namespace {

using Json = nlohmann::ordered_json;

// Paths of a rule that the text lists; a tree of 8 devices has 18 of one rule. JSON has all.
constexpr size_t kMaxPathsInText = 24;

struct RuleWords {
  const char* name;
  const char* words;
};

RuleWords WordsOf(TreeRule rule) {
  switch (rule) {
    case TreeRule::kPipelineFirst:
      return {"pipeline-first", "pipeline stages are split off first, between islands of devices"};
    case TreeRule::kOneKindOfDataParallelism:
      return {"one-kind-of-data", "data and sharded data parallelism are never mixed"};
    case TreeRule::kTensorWidth:
      return {"tensor-width", "tensor-parallel groups have at most --max-tensor-parallel devices"};
    case TreeRule::kPowersOfTwo:
      return {"powers-of-two", "degrees are powers of two"};
  }
  return {"", ""};
}

const char* ShortName(TreeAxis axis) {
  switch (axis) {
    case TreeAxis::kPipeline:
      return "PP";
    case TreeAxis::kData:
      return "DP";
    case TreeAxis::kShardedData:
      return "SDP";
    case TreeAxis::kTensor:
      return "TP";
  }
  return "";
}

const char* JsonName(TreeAxis axis) {
  switch (axis) {
    case TreeAxis::kPipeline:
      return "pipeline";
    case TreeAxis::kData:
      return "data";
    case TreeAxis::kShardedData:
      return "sharded_data";
    case TreeAxis::kTensor:
      return "tensor";
  }
  return "";
}

std::string LevelText(const TreeLevel& level) {
  return absl::StrCat(ShortName(level.axis), level.degree);
}

// Returns `PP2>DP2>TP2`; `-` for the path of a single device.
std::string PathText(const TreePath& path) {
  if (path.levels.empty()) return "-";
  return absl::StrJoin(path.levels, ">", [](std::string* text, const TreeLevel& level) {
    absl::StrAppend(text, LevelText(level));
  });
}

struct TreeStrategy {
  Strategy strategy;
  TreePath path;
};

// The tree of a question, sorted for printing.
struct StrategyTree {
  struct Stage {
    int pipeline_parallel_degree = 1;
    // Ascending; without recomputation.
    std::vector<TreeStrategy> strategies;
  };
  std::vector<Stage> stages;
  std::vector<TreePath> pruned;
  size_t path_count = 0;
  size_t strategy_count = 0;

  std::vector<TreePath> PrunedBy(TreeRule rule) const {
    std::vector<TreePath> paths;
    for (const TreePath& path : pruned) {
      if (path.pruned_by == rule) paths.push_back(path);
    }
    return paths;
  }
};

bool IsAsked(const StrategiesQuestion& question, const TreePath& path) {
  return !question.pipeline_parallel_degree ||
         path.DegreeOf(TreeAxis::kPipeline) == *question.pipeline_parallel_degree;
}

StrategyTree TreeOf(const StrategiesQuestion& question) {
  StrategyTree tree;
  for (const int64_t degree : Divisors(question.device_count)) {
    if (question.pipeline_parallel_degree && *question.pipeline_parallel_degree != degree) continue;
    tree.stages.push_back({static_cast<int>(degree), {}});
  }
  for (TreePath& path : TreePaths(question.device_count, question.limits)) {
    if (!IsAsked(question, path)) continue;
    ++tree.path_count;
    if (path.pruned_by) {
      tree.pruned.push_back(std::move(path));
      continue;
    }
    ++tree.strategy_count;
    const int degree = path.DegreeOf(TreeAxis::kPipeline);
    for (StrategyTree::Stage& stage : tree.stages) {
      if (stage.pipeline_parallel_degree != degree) continue;
      stage.strategies.push_back({StrategyOfPath(path), std::move(path)});
      break;
    }
  }
  for (StrategyTree::Stage& stage : tree.stages) {
    std::sort(stage.strategies.begin(), stage.strategies.end(),
              [](const TreeStrategy& a, const TreeStrategy& b) { return a.strategy < b.strategy; });
  }
  return tree;
}

Strategy Recomputed(Strategy strategy) {
  strategy.recompute_level = RecomputeLevel::kFull;
  return strategy;
}

// Returns `22 strategies, 44 with recomputation`.
std::string CountText(size_t count, bool recompute) {
  std::string text = absl::StrCat(count, count == 1 ? " strategy" : " strategies");
  if (recompute) absl::StrAppend(&text, ", ", 2 * count, " with recomputation");
  return text;
}

std::string HeadText(const StrategiesQuestion& question, const StrategyTree& tree) {
  std::string head =
      absl::StrCat("Decision tree of ", question.device_count,
                   question.device_count == 1 ? " device" : " devices",
                   question.pipeline_parallel_degree
                       ? absl::StrCat(", pipeline degree ", *question.pipeline_parallel_degree)
                       : std::string(),
                   ": ", CountText(tree.strategy_count, question.recompute));
  return head;
}

std::string PrunedText(const std::vector<TreePath>& paths) {
  std::vector<std::string> names;
  for (const TreePath& path : paths) {
    if (names.size() == kMaxPathsInText) break;
    names.push_back(PathText(path));
  }
  std::string text = absl::StrJoin(names, " ");
  if (paths.size() > names.size()) {
    absl::StrAppend(&text, " and ", paths.size() - names.size(), " more (--format json)");
  }
  return text;
}

Json PathJson(const TreePath& path) {
  Json levels = Json::array();
  for (const TreeLevel& level : path.levels) {
    levels.push_back({{"axis", JsonName(level.axis)}, {"degree", level.degree}});
  }
  return levels;
}

Json StrategyJson(int pipeline_parallel_degree, const TreeStrategy& entry, bool recompute) {
  const Strategy strategy = recompute ? Recomputed(entry.strategy) : entry.strategy;
  return {{"notation", StrategyNotation(pipeline_parallel_degree, strategy)},
          {"path", PathJson(entry.path)},
          {"recompute", recompute}};
}

// Pixels of the picture.
constexpr int kRowHeight = 18;
constexpr int kColumnWidth = 110;
constexpr int kNameWidth = 190;
constexpr int kMargin = 14;
constexpr int kHeadHeight = 46;

const char* ColourOf(TreeAxis axis) {
  switch (axis) {
    case TreeAxis::kPipeline:
      return "#8a5a00";
    case TreeAxis::kData:
      return "#1f5fa8";
    case TreeAxis::kShardedData:
      return "#6b3fa0";
    case TreeAxis::kTensor:
      return "#1b7a43";
  }
  return "";
}

std::string SvgText(int x, double y, const char* attributes, const std::string& text) {
  return absl::StrFormat("<text x=\"%d\" y=\"%.1f\"%s>%s</text>\n", x, y, attributes, text);
}

// Draws rows `first` to `last` - 1, which share their levels before `depth`, below a node at
// (`x`, `y`). Returns the shapes.
std::string Subtree(const std::vector<TreePath>& rows, size_t first, size_t last, size_t depth,
                    int x, double y) {
  const auto middle = [](size_t begin, size_t end) {
    return kHeadHeight + kRowHeight * (static_cast<double>(begin + end) / 2.0);
  };
  std::string svg;
  for (size_t begin = first; begin < last;) {
    // The path that ends here is the only one with these levels.
    if (rows[begin].levels.size() == depth) {
      ++begin;
      continue;
    }
    const TreeLevel& level = rows[begin].levels[depth];
    size_t end = begin;
    bool kept = false;
    while (end < last && rows[end].levels.size() > depth && rows[end].levels[depth] == level) {
      kept = kept || !rows[end].pruned_by;
      ++end;
    }
    const double child = middle(begin, end);
    const int child_x = x + kColumnWidth;
    const char* const colour = kept ? ColourOf(level.axis) : "#a8a8a8";
    absl::StrAppendFormat(&svg, "<path d=\"M%d %.1fL%d %.1f\" stroke=\"%s\"/>\n", x + 36, y,
                          child_x - 4, child, colour);
    svg += SvgText(child_x, child + 4, absl::StrCat(" fill=\"", colour, "\"").c_str(),
                   LevelText(level));
    svg += Subtree(rows, begin, end, depth + 1, child_x, child);
    begin = end;
  }
  return svg;
}

}  // namespace

std::string StrategiesText(const StrategiesQuestion& question) {
  const StrategyTree tree = TreeOf(question);
  std::string text = HeadText(question, tree) + "\n";
  for (const StrategyTree::Stage& stage : tree.stages) {
    const int degree = stage.pipeline_parallel_degree;
    const int ranks = question.device_count / degree;
    absl::StrAppend(&text, "\n", degree, degree == 1 ? " stage of " : " stages of ", ranks,
                    ranks == 1 ? " device: " : " devices: ",
                    CountText(stage.strategies.size(), question.recompute), "\n");
    for (const TreeStrategy& entry : stage.strategies) {
      absl::StrAppendFormat(&text, "  %-14s ", StrategyNotation(degree, entry.strategy));
      if (question.recompute) {
        absl::StrAppendFormat(&text, "%-16s ",
                              StrategyNotation(degree, Recomputed(entry.strategy)));
      }
      absl::StrAppend(&text, PathText(entry.path), "\n");
    }
  }
  absl::StrAppend(&text, "\n", tree.path_count,
                  tree.path_count == 1 ? " ordered path" : " ordered paths", " of equal splits; ");
  if (tree.pruned.empty()) {
    text += "no rule leaves any out.\n";
  } else {
    absl::StrAppend(&text, tree.pruned.size(), tree.pruned.size() == 1 ? " is" : " are",
                    " left out, each by the first rule that it breaks:\n");
  }
  for (const TreeRule rule : kTreeRules) {
    const std::vector<TreePath> paths = tree.PrunedBy(rule);
    if (paths.empty()) continue;
    const RuleWords words = WordsOf(rule);
    absl::StrAppendFormat(&text, "  %4d  %s: %s\n", paths.size(), words.name, words.words);
    absl::StrAppend(&text, "        ", Wrap(PrunedText(paths), 8), "\n");
  }
  absl::StrAppend(&text, "\n",
                  Wrap("P-T-D: pipeline, tensor and data parallel degree; * marks the axis with "
                       "neighbouring ranks, f sharded parameters (SDP), -c recomputation. A path "
                       "names its levels, outermost first (docs/papers.md 1.1).",
                       0),
                  "\n");
  return text;
}

std::string StrategiesJson(const StrategiesQuestion& question) {
  const StrategyTree tree = TreeOf(question);
  Json object;
  object["device_count"] = question.device_count;
  object["path_count"] = tree.path_count;
  object["strategy_count"] = tree.strategy_count * (question.recompute ? 2 : 1);
  object["strategy_count_without_recompute"] = tree.strategy_count;
  object["stages"] = Json::array();
  for (const StrategyTree::Stage& stage : tree.stages) {
    Json strategies = Json::array();
    for (const TreeStrategy& entry : stage.strategies) {
      for (const bool recompute : {false, true}) {
        if (recompute && !question.recompute) continue;
        strategies.push_back(StrategyJson(stage.pipeline_parallel_degree, entry, recompute));
      }
    }
    object["stages"].push_back(
        {{"pipeline_parallel_degree", stage.pipeline_parallel_degree},
         {"rank_count", question.device_count / stage.pipeline_parallel_degree},
         {"strategies", std::move(strategies)}});
  }
  object["rules"] = Json::array();
  for (const TreeRule rule : kTreeRules) {
    Json paths = Json::array();
    for (const TreePath& path : tree.PrunedBy(rule)) paths.push_back(PathJson(path));
    const RuleWords words = WordsOf(rule);
    const size_t count = paths.size();
    object["rules"].push_back({{"rule", words.name},
                               {"words", words.words},
                               {"pruned_path_count", count},
                               {"pruned_paths", std::move(paths)}});
  }
  return object.dump(2) + "\n";
}

std::string StrategiesSvg(const StrategiesQuestion& question) {
  std::vector<TreePath> rows;
  size_t unseen = 0;
  size_t depth = 0;
  for (TreePath& path : TreePaths(question.device_count, question.limits)) {
    if (!IsAsked(question, path)) continue;
    if (path.pruned_by == TreeRule::kPipelineFirst) {
      ++unseen;
      continue;
    }
    depth = std::max(depth, path.levels.size());
    rows.push_back(std::move(path));
  }
  const StrategyTree tree = TreeOf(question);
  const int columns = static_cast<int>(depth) + 1;
  const int name_x = kMargin + columns * kColumnWidth;
  const int width = name_x + kNameWidth + kMargin;
  const int height = kHeadHeight + kRowHeight * static_cast<int>(rows.size()) + 2 * kMargin;
  std::string svg = absl::StrFormat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
      "font-family=\"sans-serif\" font-size=\"12\" fill=\"none\" role=\"img\" "
      "aria-label=\"%s\">\n<rect width=\"%d\" height=\"%d\" fill=\"#ffffff\"/>\n",
      width, height, width, height, HeadText(question, tree), width, height);
  svg += SvgText(kMargin, 18, " fill=\"#000000\" font-weight=\"bold\"", HeadText(question, tree));
  svg +=
      SvgText(kMargin, 35, " fill=\"#606060\"",
              unseen == 0 ? "Grey: left out, with the rule that does it."
                          : absl::StrFormat("Grey: left out, with the rule that does it. %d more "
                                            "paths have a pipeline that is not first.",
                                            unseen));
  const double root = kHeadHeight + kRowHeight * (static_cast<double>(rows.size()) / 2.0);
  svg +=
      SvgText(kMargin, root + 4, " fill=\"#000000\"", absl::StrCat(question.device_count, " dev."));
  svg += Subtree(rows, 0, rows.size(), 0, kMargin, root);
  for (size_t row = 0; row < rows.size(); ++row) {
    const TreePath& path = rows[row];
    const double y = kHeadHeight + kRowHeight * (static_cast<double>(row) + 0.5) + 4;
    if (path.pruned_by) {
      svg += SvgText(name_x, y, " fill=\"#a8a8a8\"", WordsOf(*path.pruned_by).name);
      continue;
    }
    const int degree = path.DegreeOf(TreeAxis::kPipeline);
    const Strategy strategy = StrategyOfPath(path);
    std::string name = StrategyNotation(degree, strategy);
    if (question.recompute) {
      absl::StrAppend(&name, ", ", StrategyNotation(degree, Recomputed(strategy)));
    }
    svg += SvgText(name_x, y, " fill=\"#000000\"", name);
  }
  return svg + "</svg>\n";
}

}  // namespace parplan::planctl
