// The roles that this test's program plays when it is started as a rank of a probe.

#ifndef PARPLAN_TESTS_PROFILER_AGENT_MEASURE_PROBE_ROLES_H_
#define PARPLAN_TESTS_PROFILER_AGENT_MEASURE_PROBE_ROLES_H_

namespace parplan {

// The variable of the environment that names the role:
//   answer  rank 0 gives a small profile of the plan's ranks
//   wrong   rank 0 gives a profile that breaks a rule
//   silent  rank 0 gives nothing
//   killed  rank 1 is killed, the others wait to be ended
//   pause   all wait to be ended
//   seen    as `answer`, once the driver was asked for processes a few times
inline constexpr char kRoleVariable[] = "PARPLAN_TEST_ROLE";

// Gives the status to exit with.
int PlayProbeRole(const char* plan_path);

}  // namespace parplan

#endif  // PARPLAN_TESTS_PROFILER_AGENT_MEASURE_PROBE_ROLES_H_
