// Ends streams whose credential no longer holds: those of a token or a client certificate that has
// expired, and those of callers from whom the configuration, read again, has taken a role. gRPC
// verifies a certificate when a connection begins and the server a token when a call begins; a
// stream may live for months after that. A stream that begins on a connection whose certificate has
// expired ends at the next look. `RpcServer` has one.

#ifndef PARPLAN_SERVER_RPC_CREDENTIAL_WATCH_H_
#define PARPLAN_SERVER_RPC_CREDENTIAL_WATCH_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/system/clock.h"
#include "server/access/authorizer.h"
#include "server/access/caller.h"
#include "server/access/credential.h"

namespace parplan {

// Looks at the time of day and at the rules on a thread of its own, once a second. A look asks for
// streams that have begun since the last one or are at their end, and for all of them once the
// rules were replaced. Safe to use from any thread.
class CredentialWatch {
 public:
  // Ends a stream with the status of `Authorizer::Recheck`. Must not block or throw, and must own
  // what it touches: it may have begun when `Remove` is called.
  using EndStream = std::function<void(const absl::Status& status)>;

  // How long a stream may outlive its credential. Each look asks the authorizer for the generation
  // of its rules, which takes its lock.
  static constexpr absl::Duration kInterval = absl::Seconds(1);

  // The arguments outlive the watch.
  CredentialWatch(Authorizer& authorizer, const Clock& clock);
  // Joins the thread.
  ~CredentialWatch();

  CredentialWatch(const CredentialWatch&) = delete;
  CredentialWatch& operator=(const CredentialWatch&) = delete;

  // Watches a stream that `caller`, which is not null, began with the credential. `end` is called
  // at most once, on the thread of a look, never inside `Add`: also a credential that has ended
  // already is found at the next look. Returns a number above 0 for `Remove`.
  int64_t Add(Credential credential, std::shared_ptr<const Caller> caller, EndStream end);

  // Forgets a stream; waits for no `end` that has begun. Returns whether it was watched: false for
  // one that was ended, and for 0.
  bool Remove(int64_t number);

  // Ends what has ended by now. The thread calls it; tests need not wait for that.
  void Look();

 private:
  struct Stream {
    Credential credential;
    std::shared_ptr<const Caller> caller;
    EndStream end;
  };

  void Loop();

  Authorizer& authorizer_;
  const Clock& clock_;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_ending_ = false;  // Guarded by mutex_, as the rest.
  int64_t generation_;      // Of the rules that all streams were held against.
  int64_t last_number_ = 0;
  std::map<int64_t, std::shared_ptr<const Stream>> streams_;
  // Streams since the last look: the rules may have been replaced after their caller was found.
  std::vector<int64_t> new_;
  // Ends of credentials that have one, with the number of the stream.
  std::set<std::pair<absl::Time, int64_t>> ends_;

  std::thread thread_;
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_RPC_CREDENTIAL_WATCH_H_
