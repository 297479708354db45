// Requests for probes of a small model, and what their plans have.

#ifndef PARPLAN_TESTS_PROFILER_AGENT_PROBE_PROBE_REQUESTS_H_
#define PARPLAN_TESTS_PROFILER_AGENT_PROBE_PROBE_REQUESTS_H_

#include <set>
#include <utility>

#include "profiler-agent/probe/probe_plan.h"
#include "tests/planner/program/program_cases.h"

namespace parplan {

// Returns the groups of one kind, each as its number of participants and its stride.
inline std::set<std::pair<int, int>> ShapesOf(const agent::v1::ProbePlan& plan,
                                              v1::Collective collective) {
  std::set<std::pair<int, int>> shapes;
  for (const auto& key : plan.collectives()) {
    if (key.collective() == collective) {
      shapes.insert({key.participant_count(), key.rank_stride()});
    }
  }
  return shapes;
}

inline ProbeRequest Request(int rank_count) {
  ProbeRequest request;
  request.rank_count = rank_count;
  request.models = {SmallGpt(4)};
  return request;
}

}  // namespace parplan

#endif  // PARPLAN_TESTS_PROFILER_AGENT_PROBE_PROBE_REQUESTS_H_
