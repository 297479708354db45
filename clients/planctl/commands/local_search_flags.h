// The flags of a search in this process. `planctl plan`, `compare` and `explain` have them.

#ifndef PARPLAN_CLIENTS_PLANCTL_COMMANDS_LOCAL_SEARCH_FLAGS_H_
#define PARPLAN_CLIENTS_PLANCTL_COMMANDS_LOCAL_SEARCH_FLAGS_H_

#include "base/service/shell/command_line.h"
#include "clients/planctl/offline/local_search.h"

namespace parplan::planctl {

struct LocalSearchFlags {
  // 0: one per processor, at most 256.
  int thread_count = 0;

  // Adds `--threads` and returns it, so that the caller can say which flags it needs.
  shell::Option AddTo(shell::Command command);

  // Returns a watch with these threads that an `InterruptWatch` cancels.
  SearchWatch Watch() const;
};

}  // namespace parplan::planctl

#endif  // PARPLAN_CLIENTS_PLANCTL_COMMANDS_LOCAL_SEARCH_FLAGS_H_
