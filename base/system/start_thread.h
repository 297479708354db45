// Threads where the system may have none: at its limit of processes (`ulimit -u`, `pids.max`) or
// without memory for a stack, the constructor of `std::thread` throws, and an exception that leaves
// a function with a running thread ends the program.

#ifndef PARPLAN_BASE_SYSTEM_START_THREAD_H_
#define PARPLAN_BASE_SYSTEM_START_THREAD_H_

#include <functional>
#include <thread>

namespace parplan {

// Returns a thread that runs `work`, which must not throw; one that is not joinable if the system
// has no thread, and nothing runs then. Used where the caller can go on without.
std::thread StartThread(std::function<void()> work);

}  // namespace parplan

#endif  // PARPLAN_BASE_SYSTEM_START_THREAD_H_
