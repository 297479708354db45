#include "executor/windows/step_aside.h"

#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace parplan {

void StepAside() {
  const sched_param ordinary = {};
  ::pthread_setschedparam(::pthread_self(), SCHED_OTHER, &ordinary);
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::syscall(SYS_gettid)), 10);
  cpu_set_t all;
  CPU_ZERO(&all);
  for (int core = 0; core < CPU_SETSIZE; ++core) CPU_SET(core, &all);
  ::sched_setaffinity(0, sizeof(all), &all);
}

}  // namespace parplan
