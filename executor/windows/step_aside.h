// For threads that work beside those that train.

#ifndef PARPLAN_EXECUTOR_WINDOWS_STEP_ASIDE_H_
#define PARPLAN_EXECUTOR_WINDOWS_STEP_ASIDE_H_

namespace parplan {

// Lets the thread that trains go before the calling one: ranks are bound to cores, and may have
// a real-time priority, which their threads inherit. Afterwards it runs on any core, at low
// priority. What the system does not permit stays as it was.
void StepAside();

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_WINDOWS_STEP_ASIDE_H_
