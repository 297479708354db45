#include "planner/planners/ilp/integer_program.h"

#include <algorithm>
#include <random>
#include <string>

#include <gtest/gtest.h>

// A function of LAPACK, which CBC calls too.
extern "C" void dgetrf_(const int* rows, const int* columns, double* matrix,
                        const int* leading_dimension, int* pivots, int* info);

namespace parplan {
namespace {

using Status = ProgramSolution::Status;

// Weights and values of a knapsack of `count` things: choose any with at most half of all
// weights.
struct Knapsack {
  std::vector<double> weights;
  std::vector<double> values;

  double capacity() const {
    double sum = 0.0;
    for (const double weight : weights) sum += weight;
    return sum / 2.0;
  }
  IntegerProgram Program() const {
    IntegerProgram program;
    program.column_count = static_cast<int>(weights.size());
    IntegerProgram::Row row;
    row.upper = capacity();
    for (int column = 0; column < program.column_count; ++column) {
      program.integer_columns.push_back(column);
      row.terms.push_back({column, weights[column]});
    }
    program.rows = {row};
    return program;
  }
  // To minimise.
  std::vector<double> Objective() const {
    std::vector<double> objective;
    for (const double value : values) objective.push_back(-value);
    return objective;
  }
  double BestByBruteForce() const {
    double best = 0.0;
    for (unsigned set = 0; set < 1u << weights.size(); ++set) {
      double weight = 0.0;
      double value = 0.0;
      for (size_t i = 0; i < weights.size(); ++i) {
        if ((set >> i & 1u) == 0) continue;
        weight += weights[i];
        value += values[i];
      }
      if (weight <= capacity()) best = std::max(best, value);
    }
    return best;
  }
};

Knapsack RandomKnapsack(unsigned seed, int count) {
  std::mt19937 random(seed);
  Knapsack knapsack;
  for (int i = 0; i < count; ++i) {
    knapsack.weights.push_back(1.0 + random() % 1000);
    knapsack.values.push_back(knapsack.weights.back() + random() % 100);
  }
  return knapsack;
}

TEST(ProgramSolver, BranchesToTheOptimumOfAKnapsack) {
  int64_t branched = 0;
  for (unsigned seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Knapsack knapsack = RandomKnapsack(seed, 12);
    ProgramSolver solver(knapsack.Program());
    solver.SetObjective(knapsack.Objective());
    const ProgramSolution solution = solver.Solve({});
    ASSERT_EQ(solution.status, Status::kOptimal);
    EXPECT_NEAR(-solution.objective, knapsack.BestByBruteForce(), 1e-5);
    EXPECT_LE(solution.relaxed_objective, solution.objective + 1e-9);
    EXPECT_LE(solution.bound, solution.objective);
    branched += solution.relaxed_objective < solution.objective - 1e-6 ? 1 : 0;
  }
  // Otherwise this tests the simplex method alone.
  EXPECT_GT(branched, 40);
}

TEST(ProgramSolver, TakesAnotherObjectiveAndAnotherBound) {
  IntegerProgram program;
  program.column_count = 2;
  program.integer_columns = {0, 1};
  program.rows = {{.terms = {{0, 1.0}, {1, 1.0}}, .lower = 1.0, .upper = 2.0}};
  ProgramSolver solver(program);
  solver.SetObjective({1.0, 2.0});
  EXPECT_NEAR(solver.Solve({}).objective, 1.0, 1e-9);
  solver.SetObjective({-1.0, -2.0});
  EXPECT_NEAR(solver.Solve({}).objective, -3.0, 1e-9);
  solver.SetRowUpper(0, 1.0);
  EXPECT_NEAR(solver.Solve({}).objective, -2.0, 1e-9);
  solver.SetRowUpper(0, kNoBound);
  EXPECT_NEAR(solver.Solve({}).objective, -3.0, 1e-9);
}

TEST(ProgramSolver, KnowsWhatHasNoSolution) {
  IntegerProgram program;
  program.column_count = 2;
  program.integer_columns = {0, 1};
  // A relaxation has one: both halves.
  program.rows = {{.terms = {{0, 2.0}, {1, 2.0}}, .lower = 1.0, .upper = 1.0}};
  ProgramSolver fractional(program);
  EXPECT_EQ(fractional.Solve({}).status, Status::kInfeasible);
  program.rows = {{.terms = {{0, 1.0}, {1, 1.0}}, .lower = 3.0, .upper = kNoBound}};
  ProgramSolver impossible(program);
  EXPECT_EQ(impossible.Solve({}).status, Status::kInfeasible);
}

TEST(ProgramSolver, StopsWhenAskedTo) {
  const Knapsack knapsack = RandomKnapsack(7, 200);
  ProgramSolver solver(knapsack.Program());
  solver.SetObjective(knapsack.Objective());
  int asked = 0;
  const ProgramSolution solution =
      solver.Solve({.max_iteration_count = 0, .should_stop = [&] { return ++asked > 3; }});
  EXPECT_GT(asked, 3);
  EXPECT_TRUE(solution.status == Status::kFeasible || solution.status == Status::kStopped);
  // A bound there is all the same.
  EXPECT_GT(solution.bound, -kNoBound);
}

TEST(ProgramSolver, SaysNothing) {
  const Knapsack knapsack = RandomKnapsack(11, 30);
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  {
    ProgramSolver solver(knapsack.Program());
    solver.SetObjective(knapsack.Objective());
    solver.Solve({});
  }
  std::fflush(nullptr);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(ProgramSolver, AnswersTheSameAgain) {
  const Knapsack knapsack = RandomKnapsack(13, 40);
  ProgramSolution first;
  for (int round = 0; round < 3; ++round) {
    ProgramSolver solver(knapsack.Program());
    solver.SetObjective(knapsack.Objective());
    const ProgramSolution solution = solver.Solve({});
    if (round == 0) first = solution;
    EXPECT_EQ(solution.values, first.values);
    EXPECT_EQ(solution.node_count, first.node_count);
    EXPECT_EQ(solution.iteration_count, first.iteration_count);
  }
}

TEST(ProgramSolverDeathTest, AWrongArgumentOfLapackEndsTheProcess) {
  const int rows = -1, columns = 1, leading_dimension = 1;
  double matrix = 1.0;
  int pivot = 0, info = 0;
  EXPECT_DEATH(dgetrf_(&rows, &columns, &matrix, &leading_dimension, &pivot, &info),
               "LAPACK takes the argument");
}

}  // namespace
}  // namespace parplan
