#include "profiler-agent/daemon/link_probe.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/service/log/event_log.h"
#include "base/status_macros.h"
#include "executor/device/comm/rendezvous_server.h"
#include "profiler-agent/daemon/status_text.h"

namespace parplan {
namespace {

// How long to ask for a lease. An agent that is asked to stop waits for this, so it is kept to what
// a person accepts.
constexpr absl::Duration kLeasePatience = absl::Seconds(10);

}  // namespace

LeaseAgentOptions LinkProbe::AgentOptions() {
  LeaseAgentOptions agent;
  agent.machine.hello = options_.hello;
  agent.machine.look_interval = options_.look_interval;
  agent.on_opened = [this](const v1::Lease& lease) { Opened(lease); };
  agent.on_ended = [this](const v1::LeaseEnd& end) { Ended(end); };
  agent.on_connected = [](const std::string& server) {
    LogEvent("info", "connected for leases", {{"server", server}});
  };
  return agent;
}

LinkProbe::LinkProbe(ChannelOptions server, LinkProbeOptions options, WakeSet& wakes)
    : options_(std::move(options)), wakes_(wakes), agent_(std::move(server), AgentOptions()) {}

LinkProbe::~LinkProbe() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    // Prevents new work.
    is_ending_ = true;
    if (job_ != nullptr) job_->Stop("the agent ends");
  }
  // Joined while the stream lives, because the worker returns its lease over it.
  if (worker_.joinable()) worker_.join();
}

bool LinkProbe::SetBusy(bool is_busy) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (is_busy && is_active_) return false;
    is_busy_ = is_busy;
  }
  agent_.SetBusy(is_busy);
  return true;
}

bool LinkProbe::is_active() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return is_active_;
}

bool LinkProbe::Enter(std::string lease_id, std::function<void()> work) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (is_busy_ || is_active_ || is_ending_) return false;
  // The previous worker has finished but for its thread, which no longer takes the lock.
  if (worker_.joinable()) worker_.join();
  end_.clear();
  early_ends_.clear();
  lease_id_ = std::move(lease_id);
  worker_ = std::thread(std::move(work));
  is_active_ = true;
  return true;
}

void LinkProbe::Leave() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_active_ = false;
    lease_id_.clear();
  }
  wakes_.Call();
}

bool LinkProbe::Begin(agent::v1::ProbePlan plan, std::vector<std::string> node_ids) {
  return Enter("", [this, plan = std::move(plan), node_ids = std::move(node_ids)] {
    absl::StatusOr<v1::Profile> profile = Host(plan, node_ids);
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      profile_ = std::move(profile);
    }
    Leave();
  });
}

std::optional<absl::StatusOr<v1::Profile>> LinkProbe::TakeProfile() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::exchange(profile_, std::nullopt);
}

absl::StatusOr<v1::Profile> LinkProbe::Host(agent::v1::ProbePlan plan,
                                            const std::vector<std::string>& node_ids) {
  LeaseWish wish;
  wish.node_ids = node_ids;
  wish.even_if_busy = options_.measurement.even_if_busy;
  wish.task = plan.SerializeAsString();
  PARPLAN_ASSIGN_OR_RETURN(const v1::Lease lease, agent_.Acquire(wish, kLeasePatience));
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    lease_id_ = lease.lease_id();
    const auto end = early_ends_.find(lease_id_);
    if (end != early_ends_.end()) return absl::CancelledError(end->second);
  }
  const absl::StatusOr<v1::Profile> profile = Meet(lease, std::move(plan));
  agent_.Return(lease.lease_id(), profile.ok() ? "" : StatusText(profile.status()));
  return profile;
}

absl::StatusOr<v1::Profile> LinkProbe::Meet(const v1::Lease& lease, agent::v1::ProbePlan plan) {
  RendezvousServerOptions meeting;
  // Listens on all interfaces: the node's own name may resolve to a loopback address here, which
  // others cannot reach. The token keeps other programs out.
  meeting.host = "";
  meeting.token = lease.token();
  meeting.world_size = plan.rank_count();
  PARPLAN_ASSIGN_OR_RETURN(const std::unique_ptr<RendezvousServer> rendezvous,
                           RendezvousServer::Start(meeting));
  const std::string address = rendezvous->address();
  int port = 0;
  if (!absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port)) {
    return absl::InternalError(absl::StrCat("the rendezvous listens on ", address,
                                            ", which has no port; please report it"));
  }
  agent_.Open(lease.lease_id(), port);
  return Measure(lease, std::move(plan), 0, absl::StrCat("127.0.0.1:", port));
}

void LinkProbe::Opened(const v1::Lease& lease) {
  agent::v1::ProbePlan plan;
  int index = 0;
  while (index < lease.nodes_size() &&
         options_.hello.node() !=
             absl::StrCat(options_.hello.node().substr(0, options_.hello.node().rfind('/') + 1),
                          lease.nodes(index).node_id())) {
    ++index;
  }
  if (index == lease.nodes_size() || !plan.ParseFromString(lease.task())) {
    agent_.Return(lease.lease_id(),
                  "this agent does not understand the measurement plan; install the same release "
                  "on all nodes");
    return;
  }
  LinkProbeBounds bounds = options_.bounds;
  bounds.devices_per_node = options_.hello.device_count();
  bounds.node_count = lease.nodes_size();
  if (const absl::Status checked = CheckLinkProbe(plan, bounds); !checked.ok()) {
    LogEvent("warning", "refused to measure links for another node",
             {{"lease_id", lease.lease_id()}, {"message", StatusText(checked)}});
    agent_.Return(lease.lease_id(), absl::StrCat("this agent does not measure by this plan: ",
                                                 StatusText(checked).substr(0, 1000)));
    return;
  }
  const bool has_begun = Enter(lease.lease_id(), [this, lease, plan = std::move(plan), index] {
    LogEvent("info", "measuring links for another node", {{"lease_id", lease.lease_id()}});
    const absl::Status status = Measure(lease, plan, index, lease.rendezvous_address()).status();
    // If all went well, the host returns the lease.
    if (!status.ok()) {
      LogEvent("warning", "links were not measured", {{"message", StatusText(status)}});
      agent_.Return(lease.lease_id(), StatusText(status).substr(0, 1000));
    }
    Leave();
  });
  if (!has_begun) agent_.Return(lease.lease_id(), "this agent is already measuring");
}

void LinkProbe::Ended(const v1::LeaseEnd& end) {
  const std::lock_guard<std::mutex> lock(mutex_);
  // After a regular return the ranks end by themselves.
  if (end.cause() == v1::LEASE_END_CAUSE_RETURNED) return;
  std::string why = absl::StrCat("the lease is over: ", end.detail());
  if (end.lease_id() != lease_id_) {
    if (is_active_ && lease_id_.empty()) early_ends_[end.lease_id()] = std::move(why);
    return;
  }
  end_ = std::move(why);
  if (job_ != nullptr) job_->Stop(end_);
}

absl::Status LinkProbe::CheckDevices(const NodeInventory& inventory) const {
  if (options_.measurement.device_type == DeviceType::kCpu) return absl::OkStatus();
  PARPLAN_ASSIGN_OR_RETURN(const std::string kind,
                           DeviceKind(inventory, options_.measurement.device_type));
  if (kind == options_.hello.device_kind()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("this node has devices of the kind ", kind, ", and had ",
                   options_.hello.device_kind(), " when its agent began; start the agent again"));
}

absl::StatusOr<v1::Profile> LinkProbe::Measure(const v1::Lease& lease, agent::v1::ProbePlan plan,
                                               int node_index, const std::string& rendezvous) {
  PARPLAN_ASSIGN_OR_RETURN(const NodeInventory inventory, options_.read_inventory());
  PARPLAN_RETURN_IF_ERROR(CheckDevices(inventory));
  int first_rank = 0;
  for (int i = 0; i < lease.nodes_size(); ++i) {
    const v1::LeaseNode& node = lease.nodes(i);
    if (node.device_kind() != options_.hello.device_kind() ||
        node.device_count() != plan.devices_per_node()) {
      return absl::FailedPreconditionError(
          absl::StrCat("node ", node.node_id(), " has ", node.device_count(), " x ",
                       node.device_kind(), ", but the measurement needs ", plan.devices_per_node(),
                       " x ", options_.hello.device_kind(), " on each node"));
    }
    if (i < node_index) first_rank += node.device_count();
  }
  agent::v1::ProbeMeeting& meeting = *plan.mutable_meeting();
  meeting.set_rendezvous(rendezvous);
  meeting.set_token(lease.token());
  meeting.set_first_rank(first_rank);
  meeting.set_host(options_.hello.host());
  MeasurementOptions measurement = options_.measurement;
  measurement.on_job = [this](NodeJob* job) {
    const std::lock_guard<std::mutex> lock(mutex_);
    job_ = job;
    if (job_ == nullptr) return;
    if (is_ending_) job_->Stop("the agent ends");
    if (!end_.empty()) job_->Stop(end_);
  };
  return MeasureNode(inventory, plan, measurement);
}

}  // namespace parplan
