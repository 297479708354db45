#include "tests/planner/planners/ilp/paper_program.h"

#include <algorithm>
#include <vector>

#include "planner/planners/ilp/integer_program.h"
#include "tests/planner/planners/ilp/random_graph.h"

namespace parplan {
namespace {

class PaperProgram {
 public:
  PaperProgram(const StrategyGraph& graph, double alpha) : graph_(graph), alpha_(alpha) {}

  std::optional<PaperAnswer> Solve() {
    AddStrategies();
    for (const GraphEdge& edge : graph_.edges) AddEdge(edge);
    AddSources();
    AddDegreeRows();
    program_.column_count = static_cast<int>(objective_.size());
    for (int column = 0; column < program_.column_count; ++column) {
      program_.integer_columns.push_back(column);
    }
    ProgramSolver solver(program_);
    solver.SetObjective(objective_);
    const ProgramSolution solution = solver.Solve({});
    if (solution.status != ProgramSolution::Status::kOptimal) return std::nullopt;
    PaperAnswer answer{.choice = {},
                       .objective = solution.objective * kMebibyte,
                       .relaxed_objective = solution.relaxed_objective * kMebibyte};
    for (size_t v = 0; v < graph_.nodes.size(); ++v) {
      const auto begin = solution.values.begin() + first_[v];
      const auto end = begin + static_cast<ptrdiff_t>(graph_.nodes[v].options.size());
      answer.choice.push_back(static_cast<int>(std::max_element(begin, end) - begin));
    }
    return answer;
  }

 private:
  // Adds a binary column with memory in bytes and time in seconds.
  int AddColumn(double bytes, double seconds) {
    objective_.push_back((bytes + alpha_ * seconds) / kMebibyte);
    return static_cast<int>(objective_.size()) - 1;
  }

  // X, with C_v only; (6).
  void AddStrategies() {
    for (const GraphNode& node : graph_.nodes) {
      first_.push_back(static_cast<int>(objective_.size()));
      IntegerProgram::Row one{.terms = {}, .lower = 1.0, .upper = 1.0};
      for (const NodeOption& option : node.options) {
        one.terms.push_back({AddColumn(0.0, node.multiplicity * option.seconds), 1.0});
      }
      program_.rows.push_back(std::move(one));
      into_.emplace_back(node.options.size());
      out_.emplace_back(node.options.size());
      in_degree_.push_back(0);
      out_degree_.push_back(0);
    }
  }

  double MemoryOf(const GraphNode& node, size_t option) const {
    return node.multiplicity * (node.options[option].state_bytes + node.options[option].kept_bytes);
  }

  // B_ij for every pair of strategies.
  void AddEdge(const GraphEdge& edge) {
    const GraphNode& from = graph_.nodes[edge.from];
    const GraphNode& to = graph_.nodes[edge.to];
    const bool is_first = in_degree_[edge.to] == 0;
    for (size_t i = 0; i < from.options.size(); ++i) {
      for (size_t j = 0; j < to.options.size(); ++j) {
        const int pair = edge.Pair(static_cast<int>(i), static_cast<int>(j));
        const int column = AddColumn(
            edge.multiplicity * edge.kept_bytes[pair] + (is_first ? MemoryOf(to, j) : 0.0),
            edge.multiplicity * edge.seconds[pair]);
        out_[edge.from][i].push_back(column);
        into_[edge.to][j].push_back(column);
      }
    }
    ++out_degree_[edge.from];
    ++in_degree_[edge.to];
  }

  void AddSources() {
    for (size_t v = 0; v < graph_.nodes.size(); ++v) {
      if (in_degree_[v] > 0) continue;
      ++in_degree_[v];
      for (size_t j = 0; j < graph_.nodes[v].options.size(); ++j) {
        into_[v][j].push_back(AddColumn(MemoryOf(graph_.nodes[v], j), 0.0));
      }
    }
  }

  // (7) and (8).
  void AddDegreeRows() {
    for (size_t v = 0; v < graph_.nodes.size(); ++v) {
      for (size_t i = 0; i < graph_.nodes[v].options.size(); ++i) {
        AddDegreeRow(into_[v][i], first_[v] + static_cast<int>(i), in_degree_[v]);
        AddDegreeRow(out_[v][i], first_[v] + static_cast<int>(i), out_degree_[v]);
      }
    }
  }

  void AddDegreeRow(const std::vector<int>& pairs, int strategy, int degree) {
    IntegerProgram::Row row{.terms = {}, .lower = 0.0, .upper = 0.0};
    for (const int column : pairs) row.terms.push_back({column, 1.0});
    row.terms.push_back({strategy, -static_cast<double>(degree)});
    program_.rows.push_back(std::move(row));
  }

  const StrategyGraph& graph_;
  const double alpha_;
  IntegerProgram program_;
  std::vector<double> objective_;
  std::vector<int> first_;                           // [node] column of its first X
  std::vector<std::vector<std::vector<int>>> into_;  // [node][strategy] columns of B
  std::vector<std::vector<std::vector<int>>> out_;
  std::vector<int> in_degree_;
  std::vector<int> out_degree_;
};

}  // namespace

std::optional<PaperAnswer> SolvePaperProgram(const StrategyGraph& graph, double alpha) {
  return PaperProgram(graph, alpha).Solve();
}

}  // namespace parplan
