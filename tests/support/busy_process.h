// A process that does nothing but keep a processor busy.

#ifndef PARPLAN_TESTS_SUPPORT_BUSY_PROCESS_H_
#define PARPLAN_TESTS_SUPPORT_BUSY_PROCESS_H_

#include <signal.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>

namespace parplan {

// Keeps a processor busy for some milliseconds.
inline void Spin() {
  std::atomic<int> count = 0;
  while (count < 1'000'000) ++count;
}

// Runs on the processors of the thread that makes it, until it is destroyed or that thread ends.
class BusyProcess {
 public:
  BusyProcess() : pid_(::fork()) {
    if (pid_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) Spin();
  }
  ~BusyProcess() {
    if (pid_ < 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  BusyProcess(const BusyProcess&) = delete;
  BusyProcess& operator=(const BusyProcess&) = delete;

  // False if the system had no process to give.
  bool is_running() const { return pid_ > 0; }

 private:
  const pid_t pid_;
};

}  // namespace parplan

#endif  // PARPLAN_TESTS_SUPPORT_BUSY_PROCESS_H_
