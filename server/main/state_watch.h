// Looks at the state of the running server and reports what changes: whether it can sign, store,
// read its files of TLS, and answer at all. main.cc runs it.

#ifndef PARPLAN_SERVER_MAIN_STATE_WATCH_H_
#define PARPLAN_SERVER_MAIN_STATE_WATCH_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/core/server_core.h"
#include "server/main/server_log.h"
#include "server/rpc/hearing_watch.h"
#include "server/rpc/rpc_server.h"

namespace parplan {

// Used by one thread. The arguments outlive it.
class StateWatch {
 public:
  StateWatch(ServerLog& log, ServerCore& core, RpcServer& server)
      : log_(log), core_(core), server_(server) {}

  // Looks, and reports what changed to the log, and whether the server can sign and store to its
  // health. The state before the first look counts as good. Makes a signing key if none signs
  // (`ServerCore::CheckSigning`), tries to store something if a change failed (`CheckWriting`), and
  // takes renewed files of TLS into use (`RpcServer::RefreshTls`). Gives memory that nothing uses
  // any more back to the system. May wait for the store.
  void Look();

  // Time between two looks: short against the minute after which the alerts fire.
  static constexpr absl::Duration kLookInterval = absl::Seconds(10);

 private:
  // Returns whether the state is another than before, and then logs it and sets `is_well`.
  bool Note(const absl::Status& status, const char* bad_event, const char* meaning,
            const char* good_event, bool& is_well);

  ServerLog& log_;
  ServerCore& core_;
  RpcServer& server_;
  bool can_sign_ = true;
  bool can_write_ = true;
  bool can_read_tls_ = true;
  int64_t resident_bytes_ = 0;  // After memory was last given back.
  int trims_left_ = 0;          // Looks that give memory back.
};

// Lets health say NOT_SERVING while the server does not answer on its own address, and ends the
// process with exit code 1 once that has lasted for half a minute: nothing else would notice, for
// health has an address of its own. The arguments outlive the result.
std::unique_ptr<HearingWatch> WatchHearing(ServerLog& log, RpcServer& server);

}  // namespace parplan

#endif  // PARPLAN_SERVER_MAIN_STATE_WATCH_H_
