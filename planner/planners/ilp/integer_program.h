// Linear and integer programs, solved by CBC.
//
// The only place that knows CBC. Nothing is printed, and several programs may be solved
// at once by different threads, because CBC's own C main, which keeps global state, is
// never entered: a model is built and searched through `CbcModel` (Forrest and
// Lougee-Heimer, "CBC User Guide"). No thread is started.

#ifndef PARPLAN_PLANNER_PLANNERS_ILP_INTEGER_PROGRAM_H_
#define PARPLAN_PLANNER_PLANNERS_ILP_INTEGER_PROGRAM_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <vector>

namespace parplan {

inline constexpr double kNoBound = std::numeric_limits<double>::infinity();

struct IntegerProgram {
  struct Term {
    int column = 0;
    double value = 0.0;
  };
  struct Row {
    std::vector<Term> terms;
    double lower = -kNoBound;
    double upper = kNoBound;
  };
  // Columns are at least 0, and at most 1 but for the last ones, which have no bound.
  int column_count = 0;
  int unbounded_column_count = 0;
  std::vector<int> integer_columns;
  std::vector<Row> rows;
};

// What may end a solve early.
struct SolveLimits {
  // 0: none. Steps of the simplex method altogether.
  int64_t max_iteration_count = 0;
  // Asked every few hundred steps and at every node; true ends the solve. May be empty.
  std::function<bool()> should_stop;
  // A solution is taken for optimal when none is better by more than this share of it.
  double gap_ratio = 0.0;
  // 0: none. Nodes of the tree of one program; part of the method, and the same on any
  // machine.
  int max_node_count = 0;
};

struct ProgramSolution {
  // `kOptimal`: up to the gap that was asked for.
  enum class Status { kOptimal, kFeasible, kInfeasible, kStopped };
  // `kFeasible`: stopped with a solution; `kStopped`: without one.
  Status status = Status::kStopped;
  // Absent (empty) without a solution.
  std::vector<double> values;
  double objective = kNoBound;
  // No solution is less.
  double bound = -kNoBound;
  // Of the relaxation, before any branching.
  double relaxed_objective = -kNoBound;
  // 0 where the relaxation was integral already.
  int64_t node_count = 0;
  int64_t iteration_count = 0;
};

// One program with objectives and upper bounds of rows that change from solve to solve;
// each begins where the one before ended. Deterministic, unless `should_stop` ended it.
// Not to be used by two threads at once.
class ProgramSolver {
 public:
  explicit ProgramSolver(const IntegerProgram& program);
  ~ProgramSolver();
  ProgramSolver(const ProgramSolver&) = delete;
  ProgramSolver& operator=(const ProgramSolver&) = delete;

  // Minimises sum of objective[column] * column.
  void SetObjective(const std::vector<double>& objective);
  void SetRowUpper(int row, double upper);
  // `start`: values of a solution to begin with, or empty.
  ProgramSolution Solve(const SolveLimits& limits, const std::vector<double>& start = {});

 private:
  class Body;
  std::unique_ptr<Body> body_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_ILP_INTEGER_PROGRAM_H_
