// The roles that this test's program plays when it is started as a rank.

#ifndef PARPLAN_TESTS_EXECUTOR_DEVICE_RANKS_RANK_ROLES_H_
#define PARPLAN_TESTS_EXECUTOR_DEVICE_RANKS_RANK_ROLES_H_

#include <string>

namespace parplan {

// By name:
//   add       all ranks add up their numbers; each gives "SUM of SIZE on CORES cores"
//   killed    rank 1 is killed, while the others wait for it
//   failed    rank 1 says "no more apples" and exits with 3, while the others wait for it
//   pause     says "ready" and waits to be ended
//   stubborn  as pause, but takes no SIGTERM
//   launcher  launches two that pause, says their numbers, and waits for them; exits with 0
//             where a signal ended them
// Gives the status to exit with.
int PlayRole(const std::string& role);

}  // namespace parplan

#endif  // PARPLAN_TESTS_EXECUTOR_DEVICE_RANKS_RANK_ROLES_H_
