// Streams of agents: reads what they say, asks the keeper of leases, tells them what it
// decides, and watches the clock.

#ifndef PARPLAN_SERVER_CORE_AGENT_CORE_H_
#define PARPLAN_SERVER_CORE_AGENT_CORE_H_

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/system/clock.h"
#include "parplan/v1/agent_service.pb.h"
#include "server/core/agent_roster.h"
#include "server/core/lease_keeper.h"
#include "server/core/limits.h"
#include "server/core/observer.h"

namespace parplan {

// The other end of a stream, as the transport has it. Safe to use from any thread.
class AgentPeer {
 public:
  virtual ~AgentPeer() = default;

  // Both take notice only and call nothing; what was noticed happens, in this order, at
  // the next `Flush`. A closed stream takes no more.
  virtual void Tell(v1::ConnectAgentResponse message) = 0;
  virtual void Close(const absl::Status& status) = 0;

  // Called without any lock of the core.
  virtual void Flush() = 0;
};

class AgentCore;

// One stream. Its end ends the leases of its node. One thread at a time.
class AgentSession {
 public:
  ~AgentSession();

  // One message. After an error the stream has to end with it.
  absl::Status Add(const v1::ConnectAgentRequest& request);

 private:
  friend class AgentCore;
  AgentSession(AgentCore* core, std::shared_ptr<AgentPeer> peer)
      : core_(core), peer_(std::move(peer)) {}

  AgentCore* const core_;
  std::shared_ptr<AgentPeer> peer_;
  AgentConnection connection_ = 0;  // 0 before the first message.
};

// Safe to use from any thread.
class AgentCore {
 public:
  // All outlive the core.
  AgentCore(const Clock& clock, Observer& observer, const Limits& limits);
  // As `Drain`. No session may be left.
  ~AgentCore();

  // For one stream; the core holds `peer` until the session ends.
  std::unique_ptr<AgentSession> StartSession(std::shared_ptr<AgentPeer> peer);

  absl::StatusOr<v1::ListAgentsResponse> List(const v1::ListAgentsRequest& request);

  // Ends what is over now, for tests with a clock of their own; a thread of the core calls
  // it when it is time.
  void Tick();

  // Tells every agent that leases end, and ends all streams with UNAVAILABLE (DRAINING), as
  // every stream that comes later.
  void Drain();

 private:
  friend class AgentSession;
  // Peers that have news.
  class Round;

  absl::Status Greet(const v1::ConnectAgentRequest& request, AgentSession* session);
  absl::Status Obey(const v1::ConnectAgentRequest& request, AgentConnection connection);
  absl::Status Ask(const v1::LeaseRequest& request, AgentConnection connection, Round& round);
  void Leave(AgentConnection connection);
  void Watch();

  const Clock& clock_;
  Observer& observer_;
  const Limits limits_;

  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_, as the rest.
  LeaseKeeper keeper_;
  AgentRoster roster_;
  std::map<AgentConnection, std::shared_ptr<AgentPeer>> peers_;
  AgentConnection last_connection_ = 0;
  bool draining_ = false;
  std::thread watcher_;
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_CORE_AGENT_CORE_H_
