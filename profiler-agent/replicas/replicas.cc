#include "profiler-agent/replicas/replicas.h"

#include <chrono>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/system/steady_clock.h"
#include "profiler-agent/replicas/replica_order.h"
#include "profiler-agent/replicas/resolve_name.h"

namespace parplan {
namespace {

using Kind = ServerTarget::Kind;

// Time allowed for the connection to a replica. A running one answers in milliseconds; one that is
// away costs the whole time. Not measured.
constexpr std::chrono::seconds kConnectionPatience(10);
// Interval at which a wait checks whether it is stopped.
constexpr std::chrono::milliseconds kSlice(100);

// Returns an address as a target of its own. A URI needs its brackets escaped.
std::string TargetOf(const std::string& address) {
  if (!absl::StartsWith(address, "[")) return absl::StrCat("ipv4:", address);
  return absl::StrCat("ipv6:", absl::StrReplaceAll(address, {{"[", "%5B"}, {"]", "%5D"}}));
}

}  // namespace

Replicas::Replicas(ChannelOptions server, std::string cluster)
    : server_(std::move(server)),
      cluster_(std::move(cluster)),
      target_(ReadServerTarget(server_.target)) {
  if (target_.kind == Kind::kOther) known_ = {server_.target};
  if (target_.kind == Kind::kAddresses) known_ = OrderReplicas(cluster_, target_.addresses);
}

absl::StatusOr<std::vector<std::string>> Replicas::Order() {
  if (target_.kind != Kind::kName) return known_;
  absl::StatusOr<std::vector<std::string>> found = ResolveName(target_, is_stopped_);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (found.ok()) {
    known_ = OrderReplicas(cluster_, *std::move(found));
  } else if (known_.empty()) {
    return found.status();
  }
  return known_;
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> Replicas::MakeChannelTo(
    const std::string& address) const {
  ChannelOptions options = server_;
  if (target_.kind != Kind::kOther) options.target = TargetOf(address);
  if (target_.kind == Kind::kName && options.server_name.empty()) {
    options.server_name = target_.name;
  }
  return MakeChannel(options);
}

grpc_connectivity_state Replicas::AwaitReady(grpc::Channel& channel) const {
  // The channel watches the server's health, so it is ready only when the server serves.
  const absl::Duration end = SteadyNow() + absl::FromChrono(kConnectionPatience);
  while (!is_stopped_ && SteadyNow() < end) {
    const grpc_connectivity_state state = channel.GetState(true);
    if (state == GRPC_CHANNEL_READY || state == GRPC_CHANNEL_TRANSIENT_FAILURE) return state;
    channel.WaitForStateChange(state, std::chrono::system_clock::now() + kSlice);
  }
  return GRPC_CHANNEL_CONNECTING;
}

bool Replicas::IsThereBetter(const std::string& address) {
  const absl::StatusOr<std::vector<std::string>> order = Order();
  if (!order.ok()) return false;
  for (const std::string& better : *order) {
    if (better == address) return false;
    const absl::StatusOr<std::shared_ptr<grpc::Channel>> channel = MakeChannelTo(better);
    if (channel.ok() && AwaitReady(**channel) == GRPC_CHANNEL_READY) return true;
  }
  return false;
}

}  // namespace parplan
