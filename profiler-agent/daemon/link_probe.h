// Measures the links to other nodes together with their agents, under a lease from the server. The
// daemon has one, unless it takes no leases.

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

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "clients/cpp/channel.h"
#include "parplan/agent/v1/probe_plan.pb.h"
#include "parplan/v1/agent_service.pb.h"
#include "parplan/v1/profile.pb.h"
#include "profiler-agent/daemon/wake_set.h"
#include "profiler-agent/lease/lease_agent.h"
#include "profiler-agent/measure/measurement.h"
#include "profiler-agent/probe/link_probe_plan.h"

namespace parplan {

// This node, and how it measures links.
struct LinkProbeOptions {
  // This node as the server and other nodes see it; an empty `instance_id` is filled in.
  v1::AgentHello hello;
  // Interval between checks for a better replica of the server.
  absl::Duration look_interval = absl::Minutes(3);
  // How to measure; `on_job` is replaced.
  MeasurementOptions measurement;
  // Reads the node, before each measurement: GPUs come and go, and so do programs that use them.
  // Must not be empty; may be called from several threads, one at a time.
  std::function<absl::StatusOr<NodeInventory>()> read_inventory;
  // Limits of the plans that other nodes send; devices and nodes are those of `hello` and of the
  // lease.
  LinkProbeBounds bounds;
};

// Both sides of a link measurement. Joins measurements that other agents host without being asked,
// if their plans pass `CheckLinkProbe` (link_probe_plan.h): an agent measures for whoever may be an
// agent of its cluster. Must be used from one thread; its own threads are internal.
class LinkProbe {
 public:
  // Connects at once. Calls `wakes`, which must outlive this object, when a measurement has ended,
  // its own or one that another agent hosted.
  LinkProbe(ChannelOptions server, LinkProbeOptions options, WakeSet& wakes);
  // Ends a measurement under way, on this node and on the others, and waits for that; up to 10 s
  // while it asks for a lease.
  ~LinkProbe();

  // Sets whether the node's devices are in use, at first not; meanwhile this object measures no
  // links, its own or for others. Returns false and changes nothing if `is_busy` is true and
  // is_active().
  bool SetBusy(bool is_busy);
  // Returns whether this node measures links or waits for a lease.
  bool is_active();

  // Begins to borrow the nodes, this one first, and to measure `plan` (LinkProbePlan) with them.
  // Returns false, and does nothing, if the node is busy or is_active(). A result that was not
  // taken is lost when the next one is there.
  bool Begin(agent::v1::ProbePlan plan, std::vector<std::string> node_ids);
  // Returns the result of `Begin` once; absent while the measurement goes on, after the result was
  // taken, and for measurements that other agents host. UNAVAILABLE if no lease was granted within
  // 10 s, CANCELLED if the lease or the agent ended, FAILED_PRECONDITION if a node has other
  // devices, or this one has others than those of `hello`, else the errors of `MeasureNode` and of
  // the rendezvous.
  std::optional<absl::StatusOr<v1::Profile>> TakeProfile();

 private:
  LeaseAgentOptions AgentOptions();
  absl::StatusOr<v1::Profile> Host(agent::v1::ProbePlan plan,
                                   const std::vector<std::string>& node_ids);
  // Opens the rendezvous of a granted lease and measures.
  absl::StatusOr<v1::Profile> Meet(const v1::Lease& lease, agent::v1::ProbePlan plan);
  void Opened(const v1::Lease& lease);
  void Ended(const v1::LeaseEnd& end);
  // Returns FAILED_PRECONDITION if the node has GPUs of another kind than it offers.
  absl::Status CheckDevices(const NodeInventory& inventory) const;
  // Measures with the ranks of this node, which is number `node_index` of the lease.
  absl::StatusOr<v1::Profile> Measure(const v1::Lease& lease, agent::v1::ProbePlan plan,
                                      int node_index, const std::string& rendezvous);
  // Begins `work` on a thread of its own; returns false if something else is under way. `lease_id`
  // is empty while there is no lease.
  bool Enter(std::string lease_id, std::function<void()> work);
  void Leave();

  const LinkProbeOptions options_;
  WakeSet& wakes_;
  std::mutex mutex_;
  // Guarded by mutex_.
  bool is_busy_ = false;
  bool is_active_ = false;
  bool is_ending_ = false;
  NodeJob* job_ = nullptr;
  std::string lease_id_;
  // Reason why the lease ended before it was returned; empty while it holds.
  std::string end_;
  // Reasons, by lease id, of leases that ended before the waiting thread knew that they were
  // granted.
  std::map<std::string, std::string> early_ends_;
  std::optional<absl::StatusOr<v1::Profile>> profile_;
  // Thread of the work that was begun last.
  std::thread worker_;
  // Must be the last member, so that it is destroyed first: its threads call this object.
  LeaseAgent agent_;
};

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_DAEMON_LINK_PROBE_H_
