#include "planner/planners/ilp/integer_program.h"

#include <algorithm>
#include <cmath>

#include <coin/CbcEventHandler.hpp>
#include <coin/CbcHeuristic.hpp>
#include <coin/CbcModel.hpp>
#include <coin/ClpEventHandler.hpp>
#include <coin/ClpSimplex.hpp>
#include <coin/CoinPackedMatrix.hpp>
#include <coin/OsiClpSolverInterface.hpp>

#include "base/check.h"

// Called by LAPACK for a wrong argument. LAPACK's own version prints with Fortran's runtime
// library, which the programs would link only for this; CBC passes no wrong arguments.
extern "C" void xerbla_(const char* /*routine*/, const int* /*argument*/, size_t /*name_size*/) {
  PARPLAN_CHECK(false && "LAPACK takes the argument");
}

namespace parplan {
namespace {

// Largest distance of a value from an integer that counts as integral; the default of CBC.
constexpr double kIntegrality = 1e-6;
// Steps of the simplex method between two questions to `should_stop`. A step of a programme of 40
// unlike layers takes milliseconds, and a question at most a microsecond, so that more steps would
// only delay the stop.
constexpr int kIterationsBetweenQuestions = 16;

double CoinBound(double bound) {
  return std::isinf(bound) ? std::copysign(COIN_DBL_MAX, bound) : bound;
}

// Ends the simplex method on a limit. CBC copies it with the model.
class StopSimplex : public ClpEventHandler {
 public:
  explicit StopSimplex(const SolveLimits& limits) : limits_(&limits) {}
  int event(Event what) override {
    const bool is_step = what == endOfIteration && ++count_ % kIterationsBetweenQuestions == 0;
    // A factorization of a large programme takes as long as many steps.
    if (!is_step && what != endOfFactorization) return -1;
    return limits_->should_stop && limits_->should_stop() ? 0 : -1;
  }
  ClpEventHandler* clone() const override { return new StopSimplex(*this); }

 private:
  const SolveLimits* limits_;
  int count_ = 0;
};

// Ends the search over nodes on a limit.
class StopSearch : public CbcEventHandler {
 public:
  explicit StopSearch(const SolveLimits& limits) : limits_(&limits) {}
  CbcAction event(CbcEvent) override {
    return limits_->should_stop && limits_->should_stop() ? stop : noAction;
  }
  CbcEventHandler* clone() const override { return new StopSearch(*this); }

 private:
  const SolveLimits* limits_;
};

}  // namespace

class ProgramSolver::Body {
 public:
  explicit Body(const IntegerProgram& program) : integer_columns_(program.integer_columns) {
    std::vector<double> lower;
    std::vector<double> upper;
    std::vector<CoinBigIndex> starts = {0};
    std::vector<int> columns;
    std::vector<double> values;
    for (const IntegerProgram::Row& row : program.rows) {
      for (const IntegerProgram::Term& term : row.terms) {
        columns.push_back(term.column);
        values.push_back(term.value);
      }
      starts.push_back(static_cast<CoinBigIndex>(columns.size()));
      lower.push_back(CoinBound(row.lower));
      upper.push_back(CoinBound(row.upper));
    }
    // All rows at once: CoinPackedMatrix copies the whole matrix whenever a row is appended, which
    // took minutes for a model of a thousand unlike layers.
    const CoinPackedMatrix matrix(/*colordered=*/false, program.column_count,
                                  static_cast<int>(program.rows.size()), starts.back(),
                                  values.data(), columns.data(), starts.data(),
                                  /*len=*/nullptr);
    const std::vector<double> zeros(program.column_count, 0.0);
    std::vector<double> column_upper(program.column_count, 1.0);
    std::fill(column_upper.end() - program.unbounded_column_count, column_upper.end(),
              COIN_DBL_MAX);
    solver_.messageHandler()->setLogLevel(0);
    solver_.getModelPtr()->setLogLevel(0);
    solver_.setHintParam(OsiDoReducePrint, true, OsiHintDo);
    solver_.loadProblem(matrix, zeros.data(), column_upper.data(), zeros.data(), lower.data(),
                        upper.data());
    for (const int column : integer_columns_) solver_.setInteger(column);
  }

  void SetObjective(const std::vector<double>& objective) {
    solver_.setObjective(objective.data());
  }

  void SetRowUpper(int row, double upper) { solver_.setRowUpper(row, CoinBound(upper)); }

  ProgramSolution Solve(const SolveLimits& limits, const std::vector<double>& start) {
    ProgramSolution solution;
    const StopSimplex stop(limits);
    solver_.getModelPtr()->passInEventHandler(&stop);
    // More steps than any solve takes, within the int that CBC accepts.
    constexpr int64_t kMaxIterations = 1 << 30;
    const int64_t allowed = limits.max_iteration_count > 0
                                ? std::min(limits.max_iteration_count, kMaxIterations)
                                : kMaxIterations;
    solver_.setIntParam(OsiMaxNumIteration, static_cast<int>(allowed));
    if (solved_before_) {
      solver_.resolve();
    } else {
      solver_.initialSolve();
      solved_before_ = true;
    }
    solution.iteration_count = solver_.getIterationCount();
    if (solver_.isProvenPrimalInfeasible()) {
      solution.status = ProgramSolution::Status::kInfeasible;
      return solution;
    }
    if (!solver_.isProvenOptimal()) return solution;
    solution.relaxed_objective = solver_.getObjValue();
    solution.bound = solution.relaxed_objective;
    const double* values = solver_.getColSolution();
    if (std::all_of(integer_columns_.begin(), integer_columns_.end(), [values](int column) {
          return std::fabs(values[column] - std::round(values[column])) <= kIntegrality;
        })) {
      Take(values, solution.relaxed_objective, solution);
      solution.status = ProgramSolution::Status::kOptimal;
      return solution;
    }
    Branch(limits, start, allowed, solution);
    return solution;
  }

 private:
  static void Take(const double* values, double objective, ProgramSolution& solution, int count) {
    solution.values.assign(values, values + count);
    solution.objective = objective;
  }
  void Take(const double* values, double objective, ProgramSolution& solution) const {
    Take(values, objective, solution, solver_.getNumCols());
  }

  void Branch(const SolveLimits& limits, const std::vector<double>& start, int64_t allowed,
              ProgramSolution& solution) {
    // Works on a copy of the solver.
    CbcModel model(solver_);
    model.setLogLevel(0);
    model.messageHandler()->setLogLevel(0);
    model.solver()->messageHandler()->setLogLevel(0);
    model.setPrintFrequency(0);
    model.setIntegerTolerance(kIntegrality);
    model.setAllowableGap(1e-9 * std::max(1.0, std::fabs(solution.relaxed_objective)));
    model.setAllowableFractionGap(limits.gap_ratio);
    if (limits.max_node_count > 0) model.setMaximumNodes(limits.max_node_count);
    if (limits.max_iteration_count > 0) {
      model.setMaximumNumberIterations(
          static_cast<int>(std::max<int64_t>(1, allowed - solution.iteration_count)));
    }
    // No cutting planes: they do not help where rows per edge make the relaxation tight, and
    // CglMixedIntegerRounding2 cuts off optima if coefficients are as large as here.
    CbcRounding simple(model);
    model.addHeuristic(&simple);
    if (!start.empty()) {
      double objective = 0.0;
      for (size_t column = 0; column < start.size(); ++column) {
        objective += start[column] * solver_.getObjCoefficients()[column];
      }
      model.setBestSolution(start.data(), static_cast<int>(start.size()), objective);
    }
    StopSearch stop(limits);
    model.passInEventHandler(&stop);
    model.branchAndBound();

    solution.iteration_count += model.getIterationCount();
    solution.node_count = model.getNodeCount();
    if (model.isProvenInfeasible()) {
      solution.status = ProgramSolution::Status::kInfeasible;
      return;
    }
    constexpr int kStoppedOnNodes = 3;  // CbcModel.hpp
    solution.reached_node_limit = model.secondaryStatus() == kStoppedOnNodes;
    const bool optimal = model.isProvenOptimal();
    if (model.bestSolution() != nullptr) {
      Take(model.bestSolution(), model.getObjValue(), solution);
      solution.status =
          optimal ? ProgramSolution::Status::kOptimal : ProgramSolution::Status::kFeasible;
      solution.bound = optimal && limits.gap_ratio == 0.0
                           ? solution.objective
                           : std::max(solution.bound, model.getBestPossibleObjValue());
      solution.bound = std::min(solution.bound, solution.objective);
    }
  }

  OsiClpSolverInterface solver_;
  std::vector<int> integer_columns_;
  bool solved_before_ = false;
};

ProgramSolver::ProgramSolver(const IntegerProgram& program)
    : body_(std::make_unique<Body>(program)) {}

ProgramSolver::~ProgramSolver() = default;

void ProgramSolver::SetObjective(const std::vector<double>& objective) {
  body_->SetObjective(objective);
}

void ProgramSolver::SetRowUpper(int row, double upper) { body_->SetRowUpper(row, upper); }

ProgramSolution ProgramSolver::Solve(const SolveLimits& limits, const std::vector<double>& start) {
  return body_->Solve(limits, start);
}

}  // namespace parplan
