// Linear and integer programmes, solved by CBC.
//
// No other file uses CBC. Nothing is printed, and different threads may solve several programmes at
// once, because CBC's C main, which has global state, is never entered: a model is built and
// searched through `CbcModel` (Forrest and Lougee-Heimer, "CBC User Guide"). No thread is started.
// Used by `GraphSearch`.

#ifndef PARPLAN_PLANNER_PLANNERS_ILP_INTEGER_PROGRAM_H_
#define PARPLAN_PLANNER_PLANNERS_ILP_INTEGER_PROGRAM_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <vector>

namespace parplan {

// The bound of a row or an objective without one.
inline constexpr double kNoBound = std::numeric_limits<double>::infinity();

// A programme: rows lower <= sum of value * column <= upper.
struct IntegerProgram {
  // One summand of a row.
  struct Term {
    // The variable, and its coefficient.
    int column = 0;
    double value = 0.0;
  };
  // One constraint: lower <= sum of the terms <= upper.
  struct Row {
    std::vector<Term> terms;
    double lower = -kNoBound;
    double upper = kNoBound;
  };
  // Columns are at least 0. All but the last `unbounded_column_count` are at most 1; those have no
  // upper bound.
  int column_count = 0;
  int unbounded_column_count = 0;
  std::vector<int> integer_columns;
  std::vector<Row> rows;
};

// Limits of a solve.
struct SolveLimits {
  // Steps of the simplex method in one `Solve`, all nodes together; 0 means no limit.
  int64_t max_iteration_count = 0;
  // Asked every 16 steps and at every node, on the calling thread; true ends the solve. May be
  // empty.
  std::function<bool()> should_stop;
  // A solution counts as optimal if none is better by more than this share of it.
  double gap_ratio = 0.0;
  // Nodes of the tree of one programme; 0 means no limit. A part of the method: the same on any
  // machine.
  int max_node_count = 0;
};

// The result of a solve.
struct ProgramSolution {
  // `kOptimal` means up to the requested gap.
  enum class Status { kOptimal, kFeasible, kInfeasible, kStopped };
  // `kFeasible`: stopped with a solution; `kStopped`: without one.
  Status status = Status::kStopped;
  // True if it was `SolveLimits::max_node_count` that stopped it.
  bool reached_node_limit = false;
  // [column]; empty without a solution.
  std::vector<double> values;
  double objective = kNoBound;
  // Proved lower bound of the objective; infinitely low if the relaxation was not solved.
  double bound = -kNoBound;
  // Objective of the linear relaxation, before any branching; infinitely low if it was not solved.
  double relaxed_objective = -kNoBound;
  // Nodes of the tree; 0 if the relaxation was integral or not solved.
  int64_t node_count = 0;
  int64_t iteration_count = 0;
};

// Solves one programme with objectives and upper bounds of rows that change from solve to solve;
// each solve starts from the result of the one before. Deterministic unless `should_stop` ended it.
// Not thread-safe.
class ProgramSolver {
 public:
  // Copies the programme. REQUIRES: terms and `integer_columns` name columns that there are, which
  // is not checked.
  explicit ProgramSolver(const IntegerProgram& program);
  ~ProgramSolver();
  ProgramSolver(const ProgramSolver&) = delete;
  ProgramSolver& operator=(const ProgramSolver&) = delete;

  // Sets the objective: minimise the sum of objective[column] * column. REQUIRES: one number per
  // column, which is not checked.
  void SetObjective(const std::vector<double>& objective);
  // Replaces the upper bound of a row. REQUIRES: 0 <= row < the number of rows, which is not
  // checked.
  void SetRowUpper(int row, double upper);
  // Minimises the objective that was set last, all 0 at first. `start` has the values of a solution
  // to begin with, one per column, or is empty. It is the answer if the search of the tree finds
  // nothing better; if a limit ends the solve before the relaxation is solved, there is no solution
  // in spite of it. REQUIRES, unchecked: `start` keeps to all rows and to the bounds of columns and
  // is whole in `integer_columns`, and the objective has a least value.
  ProgramSolution Solve(const SolveLimits& limits, const std::vector<double>& start = {});

 private:
  class Body;
  std::unique_ptr<Body> body_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_ILP_INTEGER_PROGRAM_H_
