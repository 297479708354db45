// The replicas behind a server target, in the order in which agents choose among them. `LeaseAgent`
// connects through it.

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

// A target, resolved anew on each call. Safe to use from any thread.
class Replicas {
 public:
  // `cluster` is the cluster's name alone, for example `lab`.
  Replicas(ChannelOptions server, std::string cluster);

  // Returns the addresses that the target names now, in the order in which agents of the cluster
  // choose (OrderReplicas); never empty. A target that is neither a list nor a name is its own only
  // address. If name servers fail, returns their previous answer; without one UNAVAILABLE, or
  // CANCELLED after `Stop`. Blocks for up to about 10 s for a name.
  absl::StatusOr<std::vector<std::string>> Order();

  // Makes a channel to one address alone, one of those that `Order` returned. The certificate must
  // match the target's name, as if the target itself had been used; if the target is a list of
  // addresses, it must match the address, unless `server_name` names another. Reads TLS files on
  // each call. INVALID_ARGUMENT (SPEC_INVALID) for an empty target or TLS files that cannot be
  // used.
  absl::StatusOr<std::shared_ptr<grpc::Channel>> MakeChannelTo(const std::string& address) const;

  // Waits until the channel is connected to a server that serves (READY) or has failed to connect
  // (TRANSIENT_FAILURE; a call on it returns the cause), but at most 10 s (CONNECTING, which it
  // also returns after `Stop`).
  grpc_connectivity_state AwaitReady(grpc::Channel& channel) const;

  // Returns whether a replica that precedes `address` in the order serves now; if the order no
  // longer has `address`, whether any serves. Calls `Order`, then waits for each of them in turn,
  // up to 10 s each. False if the replicas cannot be found.
  bool IsThereBetter(const std::string& address);

  // Makes waiting calls return within 0.1 s, and later calls at once, for good.
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
