#include "server/main/signals.h"

#include <pthread.h>
#include <unistd.h>

#include <thread>

#include "base/system/start_thread.h"

namespace parplan {

Signals::Signals() {
  sigemptyset(&set_);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&set_, signal);
  pthread_sigmask(SIG_BLOCK, &set_, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(
      SIGXFSZ,
      SIG_IGN);  // A write beyond the limit on file sizes then fails, and the store reports it.
}

int Signals::Next(absl::Duration timeout) const {
  const timespec limit = absl::ToTimespec(timeout);
  const int signal = sigtimedwait(&set_, nullptr, &limit);
  return signal > 0 ? signal : 0;
}

void Signals::EndAtOnceOnNext() const {
  std::thread waiting = StartThread([set = set_] {
    int signal = 0;
    do {
      sigwait(&set, &signal);
    } while (signal == SIGHUP);
    _exit(128 + signal);
  });
  if (waiting.joinable()) waiting.detach();
}

}  // namespace parplan
