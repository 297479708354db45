#include "planner/planners/ilp/graph_search.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace parplan {
namespace {

constexpr double kMebibyte = 1024.0 * 1024.0;
constexpr double kMillisecond = 1e-3;
// Relative difference within which numbers of the solver equal ours.
constexpr double kTolerance = 1e-6;

}  // namespace

GraphSearch::GraphSearch(const StrategyGraph& graph, SolveLimits limits)
    : graph_(graph), limits_(std::move(limits)) {
  AddNodes();
  AddEdges();
  program_.column_count = static_cast<int>(memory_.size());
  memory_row_ = static_cast<int>(program_.rows.size());
  IntegerProgram::Row memory;
  for (int column = 0; column < program_.column_count; ++column) {
    if (memory_[column] != 0.0) memory.terms.push_back({column, memory_[column]});
  }
  program_.rows.push_back(std::move(memory));
  AddLiveRows();
  solver_.emplace(program_);
}

void GraphSearch::AddNodes() {
  for (const GraphNode& node : graph_.nodes) {
    first_column_.push_back(static_cast<int>(memory_.size()));
    IntegerProgram::Row one{.terms = {}, .lower = 1.0, .upper = 1.0};
    for (const NodeOption& option : node.options) {
      const int column = static_cast<int>(memory_.size());
      program_.integer_columns.push_back(column);
      one.terms.push_back({column, 1.0});
      memory_.push_back(node.multiplicity * (option.state_bytes + option.kept_bytes) / kMebibyte);
      time_.push_back(node.multiplicity * option.seconds / kMillisecond);
    }
    program_.rows.push_back(std::move(one));
  }
}

void GraphSearch::AddEdges() {
  for (const GraphEdge& edge : graph_.edges) {
    const int first = static_cast<int>(memory_.size());
    first_edge_column_.push_back(first);
    for (size_t pair = 0; pair < edge.seconds.size(); ++pair) {
      memory_.push_back(edge.multiplicity * edge.kept_bytes[pair] / kMebibyte);
      time_.push_back(edge.multiplicity * edge.seconds[pair] / kMillisecond);
    }
    for (int b = 0; b < edge.to_class_count; ++b) {
      IntegerProgram::Row row{.terms = {}, .lower = 0.0, .upper = 0.0};
      for (int a = 0; a < edge.from_class_count; ++a) {
        row.terms.push_back({first + a * edge.to_class_count + b, 1.0});
      }
      for (size_t j = 0; j < edge.to_class.size(); ++j) {
        if (edge.to_class[j] != b) continue;
        row.terms.push_back({first_column_[edge.to] + static_cast<int>(j), -1.0});
      }
      program_.rows.push_back(std::move(row));
    }
    for (int a = 0; a < edge.from_class_count; ++a) {
      IntegerProgram::Row row{.terms = {}, .lower = 0.0, .upper = 0.0};
      for (int b = 0; b < edge.to_class_count; ++b) {
        row.terms.push_back({first + a * edge.to_class_count + b, 1.0});
      }
      for (size_t i = 0; i < edge.from_class.size(); ++i) {
        if (edge.from_class[i] != a) continue;
        row.terms.push_back({first_column_[edge.from] + static_cast<int>(i), -1.0});
      }
      program_.rows.push_back(std::move(row));
    }
  }
}

// Adds the sums of `EvaluateChoice` as rows: the memory live at a node is that at the previous node
// plus what the node adds; with the node's transient it must stay below the cap.
void GraphSearch::AddLiveRows() {
  const int node_count = static_cast<int>(graph_.nodes.size());
  const int first_level = program_.column_count;
  program_.column_count += node_count;
  program_.unbounded_column_count = node_count;
  memory_.resize(program_.column_count);
  time_.resize(program_.column_count);

  // [node][column] bytes the node adds.
  std::vector<std::map<int, double>> added(node_count);
  std::vector<int> begin_of_instance;
  for (int v = 0; v < node_count; ++v) {
    const GraphNode& node = graph_.nodes[v];
    if (node.instance == static_cast<int>(begin_of_instance.size())) begin_of_instance.push_back(v);
    for (size_t i = 0; i < node.options.size(); ++i) {
      const NodeOption& option = node.options[i];
      const int column = first_column_[v] + static_cast<int>(i);
      added[0][column] += node.multiplicity * option.state_bytes;
      added[begin_of_instance.back()][column] += (node.multiplicity - 1) * option.kept_bytes;
      added[v][column] += option.kept_bytes;
    }
  }
  for (size_t e = 0; e < graph_.edges.size(); ++e) {
    const GraphEdge& edge = graph_.edges[e];
    const int before = graph_.EarlierCopies(edge);
    const int begin = begin_of_instance[graph_.nodes[edge.to].instance];
    for (size_t pair = 0; pair < edge.kept_bytes.size(); ++pair) {
      const int column = first_edge_column_[e] + static_cast<int>(pair);
      added[begin][column] += before * edge.kept_bytes[pair];
      added[edge.to][column] += (edge.multiplicity - before) * edge.kept_bytes[pair];
    }
  }
  for (int v = 0; v < node_count; ++v) {
    IntegerProgram::Row row{.terms = {{first_level + v, 1.0}}, .lower = 0.0, .upper = 0.0};
    if (v > 0) row.terms.push_back({first_level + v - 1, -1.0});
    for (const auto& [column, bytes] : added[v]) {
      if (bytes != 0.0) row.terms.push_back({column, -bytes / kMebibyte});
    }
    program_.rows.push_back(std::move(row));
  }
  first_cap_row_ = static_cast<int>(program_.rows.size());
  for (int v = 0; v < node_count; ++v) {
    IntegerProgram::Row row{.terms = {{first_level + v, 1.0}}};
    for (size_t i = 0; i < graph_.nodes[v].options.size(); ++i) {
      const double bytes = graph_.nodes[v].options[i].transient_bytes;
      row.terms.push_back({first_column_[v] + static_cast<int>(i), bytes / kMebibyte});
    }
    program_.rows.push_back(std::move(row));
  }
}

void GraphSearch::SetCap(std::optional<double> cap_bytes) {
  for (size_t v = 0; v < graph_.nodes.size(); ++v) {
    solver_->SetRowUpper(first_cap_row_ + static_cast<int>(v),
                         cap_bytes ? *cap_bytes / kMebibyte : kNoBound);
  }
}

GraphChoice GraphSearch::ChoiceOf(const std::vector<double>& values) const {
  GraphChoice choice;
  for (size_t v = 0; v < graph_.nodes.size(); ++v) {
    const auto begin = values.begin() + first_column_[v];
    const auto end = begin + static_cast<ptrdiff_t>(graph_.nodes[v].options.size());
    choice.push_back(static_cast<int>(std::max_element(begin, end) - begin));
  }
  return choice;
}

std::optional<GraphAnswer> GraphSearch::Solve(const std::vector<double>& objective, double unit,
                                              const std::vector<double>& start) {
  solver_->SetObjective(objective);
  SolveLimits limits = limits_;
  if (limits.max_iteration_count > 0) {
    limits.max_iteration_count -= iteration_count_;
    if (limits.max_iteration_count <= 0) stopped_ = true;
  }
  if (limits.should_stop && limits.should_stop()) stopped_ = true;
  if (stopped_) return std::nullopt;
  const ProgramSolution solution = solver_->Solve(limits, start);
  iteration_count_ += solution.iteration_count;
  using Status = ProgramSolution::Status;
  // The limit of nodes is a part of the method and holds for this solve alone.
  stopped_ |= !solution.reached_node_limit &&
              (solution.status == Status::kStopped || solution.status == Status::kFeasible);
  if (solution.values.empty()) return std::nullopt;

  GraphAnswer answer;
  answer.choice = ChoiceOf(solution.values);
  answer.totals = EvaluateChoice(graph_, answer.choice);
  answer.bound = solution.bound * unit;
  answer.relaxed_bound = solution.relaxed_objective * unit;
  answer.node_count = solution.node_count;
  return answer;
}

namespace {

// Sets what the numbers of `answer` prove about `objective`.
void Judge(double objective, double gap_ratio, GraphAnswer& answer) {
  answer.objective = objective;
  answer.is_proved =
      answer.bound >= objective - std::max(kTolerance, gap_ratio) * std::fabs(objective);
  answer.bound = std::min(answer.bound, objective);
  answer.relaxed_bound = std::min(answer.relaxed_bound, objective);
}

}  // namespace

std::optional<GraphAnswer> GraphSearch::SolveWeighted(double alpha,
                                                      std::optional<double> cap_bytes) {
  SetCap(cap_bytes);
  solver_->SetRowUpper(memory_row_, kNoBound);
  // Scales the objective so that the larger part has numbers near 1.
  const double scale = std::max(1.0, alpha * kMillisecond / kMebibyte);
  std::vector<double> objective(memory_.size());
  for (size_t column = 0; column < objective.size(); ++column) {
    objective[column] =
        (memory_[column] + alpha * kMillisecond / kMebibyte * time_[column]) / scale;
  }
  std::optional<GraphAnswer> answer = Solve(objective, kMebibyte * scale);
  if (answer)
    Judge(answer->totals.memory_bytes() + alpha * answer->totals.seconds, limits_.gap_ratio,
          *answer);
  return answer;
}

std::optional<GraphAnswer> GraphSearch::SolveLexicographic(double slack,
                                                           std::optional<double> cap_bytes) {
  SetCap(cap_bytes);
  solver_->SetRowUpper(memory_row_, kNoBound);
  std::optional<GraphAnswer> first = Solve(memory_, kMebibyte);
  if (!first) return first;
  Judge(first->totals.memory_bytes(), limits_.gap_ratio, *first);
  if (stopped_) return first;
  // Allows for rounding, but is too little for a mixture of options to use.
  constexpr double kRoom = 1e-9;
  const double memory = first->totals.memory_bytes() / kMebibyte;
  solver_->SetRowUpper(memory_row_, memory * (1.0 + slack) + kRoom * std::max(1.0, memory));
  std::optional<GraphAnswer> second = Solve(time_, kMillisecond);
  solver_->SetRowUpper(memory_row_, kNoBound);
  if (!second) return first;
  // The result keeps the bounds of the first solve, which are those of its objective.
  second->bound = first->bound;
  second->relaxed_bound = first->relaxed_bound;
  second->node_count += first->node_count;
  second->objective = second->totals.memory_bytes();
  second->is_proved = first->is_proved;
  return second;
}

std::vector<double> GraphSearch::ValuesOf(const GraphChoice& choice) const {
  std::vector<double> values(program_.column_count);
  for (size_t v = 0; v < graph_.nodes.size(); ++v) values[first_column_[v] + choice[v]] = 1.0;
  for (size_t e = 0; e < graph_.edges.size(); ++e) {
    const GraphEdge& edge = graph_.edges[e];
    values[first_edge_column_[e] + edge.Pair(choice[edge.from], choice[edge.to])] = 1.0;
  }
  // Each level follows from what is chosen, in order.
  for (size_t v = 0; v < graph_.nodes.size(); ++v) {
    const IntegerProgram::Row& row = program_.rows[first_cap_row_ - graph_.nodes.size() + v];
    double level = 0.0;
    for (const IntegerProgram::Term& term : row.terms) level -= term.value * values[term.column];
    values[row.terms.front().column] = level;
  }
  return values;
}

// A larger weight gives a smaller memory, and a programme without a cap is easy. The capped
// quantity is not the weighted one, so any weight may be the best.
std::optional<GraphChoice> GraphSearch::FindWithin(double cap_bytes, const GraphAnswer& fastest) {
  SetCap(std::nullopt);
  std::optional<GraphAnswer> best;
  const auto offer = [&](const std::optional<GraphAnswer>& answer) {
    const bool within = answer && answer->totals.peak_bytes <= cap_bytes;
    if (within && (!best || answer->totals.seconds < best->totals.seconds)) best = answer;
    return within;
  };
  const std::optional<GraphAnswer> smallest = SolveLexicographic();
  if (!smallest) return std::nullopt;
  offer(smallest);
  const double saved = fastest.totals.memory_bytes() - smallest->totals.memory_bytes();
  const double paid = smallest->totals.seconds - fastest.totals.seconds;
  if (saved > 0.0 && paid > 0.0) {
    // Weights in bytes per second, bisected by ratio around the slope between the two ends. Eight
    // halvings of a range of 10^6 leave a factor of 1.06. Not measured for other numbers.
    constexpr int kRounds = 8;
    double least = saved / paid * 1e-3;
    double largest = saved / paid * 1e3;
    for (int round = 0; round < kRounds && !stopped_; ++round) {
      const double alpha = std::sqrt(least * largest);
      (offer(SolveWeighted(alpha)) ? least : largest) = alpha;
    }
  }
  if (!best) return std::nullopt;
  return best->choice;
}

std::optional<GraphAnswer> GraphSearch::SolveLeastTime(std::optional<double> cap_bytes) {
  SetCap(std::nullopt);
  solver_->SetRowUpper(memory_row_, kNoBound);
  std::optional<GraphAnswer> answer = Solve(time_, kMillisecond);
  if (!answer) return answer;
  if (cap_bytes && answer->totals.peak_bytes > *cap_bytes) {
    const std::optional<GraphChoice> start = FindWithin(*cap_bytes, *answer);
    SetCap(cap_bytes);
    solver_->SetRowUpper(memory_row_, kNoBound);
    answer = Solve(time_, kMillisecond, start ? ValuesOf(*start) : std::vector<double>());
  }
  if (answer) Judge(answer->totals.seconds, limits_.gap_ratio, *answer);
  return answer;
}

}  // namespace parplan
