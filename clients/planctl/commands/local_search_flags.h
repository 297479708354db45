// The flags of a search in this process. `planctl plan`, `compare` and `explain` have them.

#ifndef PARPLAN_CLIENTS_PLANCTL_COMMANDS_LOCAL_SEARCH_FLAGS_H_
#define PARPLAN_CLIENTS_PLANCTL_COMMANDS_LOCAL_SEARCH_FLAGS_H_

#include "base/service/shell/command_line.h"
#include "clients/planctl/offline/local_search.h"

namespace parplan::planctl {

// The values of the flags, set when the command line is read.
struct LocalSearchFlags {
  // 0: one per processor, at most 256.
  int thread_count = 0;

  // Adds `--threads` (1 to 256) and returns it, so that the caller can say which flags it needs.
  // REQUIRES, unchecked: this object stays where it is until the command line is read.
  shell::Option AddTo(shell::Command command);

  // Returns a watch with these threads, and without `on_progress`, that is cancelled by Ctrl-C
  // while the caller has an `InterruptWatch` (interrupt.h).
  SearchWatch Watch() const;
};

}  // namespace parplan::planctl

#endif  // PARPLAN_CLIENTS_PLANCTL_COMMANDS_LOCAL_SEARCH_FLAGS_H_
