// The servers behind a target, as agents choose among them.

#ifndef PARPLAN_PROFILER_AGENT_REPLICAS_REPLICAS_H_
#define PARPLAN_PROFILER_AGENT_REPLICAS_REPLICAS_H_

#include <grpcpp/channel.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "clients/cpp/channel.h"
#include "profiler-agent/replicas/server_target.h"

namespace parplan {

// Safe to use from any thread.
class Replicas {
 public:
  // `cluster` is the name alone, `lab`.
  Replicas(ChannelOptions server, std::string cluster);

  // The addresses that the target names now, in the order in which agents of the cluster choose
  // (OrderReplicas); never empty. A target that is no list and no name is its one address. While
  // name servers fail it is what they said last; UNAVAILABLE where they have said nothing yet.
  // Waits as ResolveName.
  absl::StatusOr<std::vector<std::string>> Order();

  // A way to one of them alone. Its certificate must be for the target's name, as if the target
  // had been used as it is; where the target is a list of addresses, for the address, unless
  // `server_name` names another. Errors of MakeChannel; files of TLS are read each time.
  absl::StatusOr<std::shared_ptr<grpc::Channel>> MakeChannelTo(const std::string& address) const;

  // Waits until the channel has a connection to a server that serves: READY; or until there is
  // none: TRANSIENT_FAILURE, of which calls tell the cause; at most 10 s: CONNECTING.
  grpc_connectivity_state AwaitReady(grpc::Channel& channel) const;

  // Whether one that goes before `address` in the order serves now. Waits for each.
  bool IsThereBetter(const std::string& address);

  // What waits ends within a tenth of a second, and nothing waits any more.
  void Stop() { is_stopped_ = true; }

 private:
  const ChannelOptions server_;
  const std::string cluster_;
  const ServerTarget target_;
  std::atomic<bool> is_stopped_ = false;
  std::mutex mutex_;
  std::vector<std::string> known_;  // Guarded by mutex_.
};

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_REPLICAS_REPLICAS_H_
