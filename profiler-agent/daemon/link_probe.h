// Measures the links to other nodes together with their agents, under a lease of the server.

#ifndef PARPLAN_PROFILER_AGENT_DAEMON_LINK_PROBE_H_
#define PARPLAN_PROFILER_AGENT_DAEMON_LINK_PROBE_H_

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "clients/cpp/channel.h"
#include "parplan/agent/v1/probe_plan.pb.h"
#include "parplan/v1/agent_service.pb.h"
#include "parplan/v1/profile.pb.h"
#include "profiler-agent/daemon/wake_set.h"
#include "profiler-agent/lease/lease_agent.h"
#include "profiler-agent/measure/measurement.h"

namespace parplan {

struct LinkProbeOptions {
  v1::AgentHello hello;
  // See LeaseMachineOptions.
  absl::Duration look_interval = absl::Minutes(3);
  MeasurementOptions measurement;
  NodeInventory inventory;
};

// Takes part in what other agents ask for by itself. Of one thread, but for what it does on its
// own.
class LinkProbe {
 public:
  // `wakes`, which outlives it, is called when a measurement has ended.
  LinkProbe(ChannelOptions server, LinkProbeOptions options, WakeSet& wakes);
  // Ends a measurement under way, here and on the other nodes.
  ~LinkProbe();

  // Whether the node's devices are in use: nobody is lent them meanwhile. False, and nothing has
  // changed, where they shall be and is_active().
  bool SetBusy(bool is_busy);
  // Whether this node measures, or waits for a lease.
  bool is_active();

  // Borrows the nodes, this one first, and measures `plan` (LinkProbePlan) with them. False where
  // the node is busy or is_active().
  bool Begin(agent::v1::ProbePlan plan, std::vector<std::string> node_ids);
  // What came of `Begin`; absent while it goes on.
  std::optional<absl::StatusOr<v1::Profile>> TakeProfile();

 private:
  LeaseAgentOptions AgentOptions();
  absl::StatusOr<v1::Profile> Host(agent::v1::ProbePlan plan,
                                   const std::vector<std::string>& node_ids);
  // Of a lease that was granted: says where ranks meet, and measures.
  absl::StatusOr<v1::Profile> Meet(const v1::Lease& lease, agent::v1::ProbePlan plan);
  void Opened(const v1::Lease& lease);
  void Ended(const v1::LeaseEnd& end);
  // Measures with the ranks of this node.
  absl::StatusOr<v1::Profile> Measure(const v1::Lease& lease, agent::v1::ProbePlan plan,
                                      int node_index, const std::string& rendezvous);
  // Begins `work` on a thread of its own, unless something else is under way. Without a lease
  // `lease_id` is empty.
  bool Enter(std::string lease_id, std::function<void()> work);
  void Leave();

  const LinkProbeOptions options_;
  WakeSet& wakes_;
  std::mutex mutex_;
  // Guarded by mutex_.
  bool is_busy_ = false;
  bool is_active_ = false;
  bool is_ending_ = false;
  ProbeJob* job_ = nullptr;
  std::string lease_id_;
  // Why the lease is over, before it is given back.
  std::string end_;
  // The same of leases that ended before whoever waits knew that they were granted; by id.
  std::map<std::string, std::string> early_ends_;
  std::optional<absl::StatusOr<v1::Profile>> profile_;
  // Of what was begun last.
  std::thread worker_;
  // The last, so that it ends first: its thread calls this object, which calls it back.
  LeaseAgent agent_;
};

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_DAEMON_LINK_PROBE_H_
