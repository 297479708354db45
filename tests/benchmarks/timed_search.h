// One search as a benchmark, with what it found as counters.

#ifndef PARPLAN_TESTS_BENCHMARKS_TIMED_SEARCH_H_
#define PARPLAN_TESTS_BENCHMARKS_TIMED_SEARCH_H_

#include <benchmark/benchmark.h>

#include <string>

#include "planner/model/planning_problem.h"
#include "planner/model/planning_result.h"

namespace parplan {

// On so many threads, kept until the function is destroyed.
ParallelFor OnThreads(int thread_count);

// Returns the highest resident memory of the process since the last call, if the kernel reports it;
// otherwise 0.
double PeakMebibytes();

// Calls `FindPlan` for every step of the benchmark. Counters: `step` (s), `gap`,
// `optimal` (1 or 0), `states`, `candidates`, `peak_MiB`; the plan is the label. A problem
// that no plan fits is an error of the benchmark.
void TimeSearch(benchmark::State& state, const PlanningProblem& problem, const std::string& planner,
                int thread_count);

}  // namespace parplan

#endif  // PARPLAN_TESTS_BENCHMARKS_TIMED_SEARCH_H_
