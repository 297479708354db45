#include "planner/ilp/graph_search.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace parplan {
namespace {

constexpr double kMebibyte = 1024.0 * 1024.0;
constexpr double kMillisecond = 1e-3;
// Within which numbers of the solver and ours are one.
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

// The sums of `EvaluateChoice`, written down as rows.
void GraphSearch::AddLiveRows() {
  first_live_row_ = static_cast<int>(program_.rows.size());
  // Of each column, and the same in the order of the walk.
  std::vector<double> live(program_.column_count);
  std::vector<double> earlier(program_.column_count);
  std::vector<double> last(program_.column_count);
  for (size_t v = 0; v < graph_.nodes.size(); ++v) {
    const GraphNode& node = graph_.nodes[v];
    for (size_t i = 0; i < node.options.size(); ++i) {
      const int column = first_column_[v] + static_cast<int>(i);
      live[column] = node.multiplicity * node.options[i].state_bytes;
      earlier[column] = (node.multiplicity - 1) * node.options[i].kept_bytes;
      last[column] = node.options[i].kept_bytes;
    }
  }
  for (size_t e = 0; e < graph_.edges.size(); ++e) {
    const GraphEdge& edge = graph_.edges[e];
    const int before = graph_.EarlierCopies(edge);
    for (size_t pair = 0; pair < edge.kept_bytes.size(); ++pair) {
      const int column = first_edge_column_[e] + static_cast<int>(pair);
      earlier[column] = before * edge.kept_bytes[pair];
      last[column] = (edge.multiplicity - before) * edge.kept_bytes[pair];
    }
  }
  const auto add_columns = [&](size_t v, const std::vector<double>& amounts) {
    for (size_t i = 0; i < graph_.nodes[v].options.size(); ++i) {
      live[first_column_[v] + i] += amounts[first_column_[v] + i];
    }
    for (size_t e = 0; e < graph_.edges.size(); ++e) {
      if (graph_.edges[e].to != static_cast<int>(v)) continue;
      for (size_t pair = 0; pair < graph_.edges[e].kept_bytes.size(); ++pair) {
        live[first_edge_column_[e] + pair] += amounts[first_edge_column_[e] + pair];
      }
    }
  };
  int instance = -1;
  for (size_t v = 0; v < graph_.nodes.size(); ++v) {
    if (graph_.nodes[v].instance != instance) {
      instance = graph_.nodes[v].instance;
      for (size_t u = v; u < graph_.nodes.size() && graph_.nodes[u].instance == instance; ++u) {
        add_columns(u, earlier);
      }
    }
    add_columns(v, last);
    IntegerProgram::Row row;
    for (int column = 0; column < program_.column_count; ++column) {
      double amount = live[column];
      const int option = column - first_column_[v];
      if (option >= 0 && option < static_cast<int>(graph_.nodes[v].options.size())) {
        amount += graph_.nodes[v].options[option].transient_bytes;
      }
      if (amount != 0.0) row.terms.push_back({column, amount / kMebibyte});
    }
    program_.rows.push_back(std::move(row));
  }
}

void GraphSearch::SetCap(std::optional<double> cap_bytes) {
  for (size_t v = 0; v < graph_.nodes.size(); ++v) {
    solver_->SetRowUpper(first_live_row_ + static_cast<int>(v),
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

std::optional<GraphAnswer> GraphSearch::Solve(const std::vector<double>& objective, double unit) {
  solver_->SetObjective(objective);
  SolveLimits limits = limits_;
  if (limits.max_iteration_count > 0) {
    limits.max_iteration_count -= iteration_count_;
    if (limits.max_iteration_count <= 0) stopped_ = true;
  }
  if (limits.should_stop && limits.should_stop()) stopped_ = true;
  if (stopped_) return std::nullopt;
  const ProgramSolution solution = solver_->Solve(limits);
  iteration_count_ += solution.iteration_count;
  using Status = ProgramSolution::Status;
  if (solution.status == Status::kStopped || solution.status == Status::kFeasible) stopped_ = true;
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

// What the numbers of `answer` prove of `objective`.
void Judge(double objective, GraphAnswer& answer) {
  answer.objective = objective;
  answer.is_proved = answer.bound >= objective - kTolerance * std::fabs(objective);
  answer.bound = std::min(answer.bound, objective);
  answer.relaxed_bound = std::min(answer.relaxed_bound, objective);
}

}  // namespace

std::optional<GraphAnswer> GraphSearch::SolveWeighted(double alpha,
                                                      std::optional<double> cap_bytes) {
  SetCap(cap_bytes);
  solver_->SetRowUpper(memory_row_, kNoBound);
  // The solver sees numbers near those of the larger part.
  const double scale = std::max(1.0, alpha * kMillisecond / kMebibyte);
  std::vector<double> objective(memory_.size());
  for (size_t column = 0; column < objective.size(); ++column) {
    objective[column] =
        (memory_[column] + alpha * kMillisecond / kMebibyte * time_[column]) / scale;
  }
  std::optional<GraphAnswer> answer = Solve(objective, kMebibyte * scale);
  if (answer) Judge(answer->totals.memory_bytes() + alpha * answer->totals.seconds, *answer);
  return answer;
}

std::optional<GraphAnswer> GraphSearch::SolveLexicographic(double slack,
                                                           std::optional<double> cap_bytes) {
  SetCap(cap_bytes);
  solver_->SetRowUpper(memory_row_, kNoBound);
  std::optional<GraphAnswer> first = Solve(memory_, kMebibyte);
  if (!first) return first;
  Judge(first->totals.memory_bytes(), *first);
  if (stopped_) return first;
  // A little room for rounding, too little for a mixture of options to use.
  constexpr double kRoom = 1e-9;
  const double memory = first->totals.memory_bytes() / kMebibyte;
  solver_->SetRowUpper(memory_row_, memory * (1.0 + slack) + kRoom * std::max(1.0, memory));
  std::optional<GraphAnswer> second = Solve(time_, kMillisecond);
  solver_->SetRowUpper(memory_row_, kNoBound);
  if (!second) return first;
  // The second keeps the bounds of the first, whose objective matters.
  second->bound = first->bound;
  second->relaxed_bound = first->relaxed_bound;
  second->node_count += first->node_count;
  second->objective = second->totals.memory_bytes();
  second->is_proved = first->is_proved;
  return second;
}

std::optional<GraphAnswer> GraphSearch::SolveLeastTime(std::optional<double> cap_bytes) {
  SetCap(cap_bytes);
  solver_->SetRowUpper(memory_row_, kNoBound);
  std::optional<GraphAnswer> answer = Solve(time_, kMillisecond);
  if (answer) Judge(answer->totals.seconds, *answer);
  return answer;
}

}  // namespace parplan
