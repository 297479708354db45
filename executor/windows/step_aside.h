// Priority of threads that work beside those that train (WindowLeaver, ExecutionReporter).

#ifndef PARPLAN_EXECUTOR_WINDOWS_STEP_ASIDE_H_
#define PARPLAN_EXECUTOR_WINDOWS_STEP_ASIDE_H_

namespace parplan {

// Lets the calling thread run on any core that the process may use, at low priority (SCHED_OTHER,
// nice 10), so that it does not delay the thread that trains: ranks are bound to cores and may have
// a real-time priority, which their threads inherit. Keeps what the system does not permit to
// change.
void StepAside();

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_WINDOWS_STEP_ASIDE_H_
