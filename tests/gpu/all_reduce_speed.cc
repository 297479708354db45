// Times an all-reduce of 8 KiB on all visible GPUs as nccl-tests does and as the agent's probe
// does:
//
//   all_reduce_speed [--plugin FILE]
//
// and prints both times and their ratio as JSON. Ends with 1 if the probe's time is more than 1.1
// times the other, and with 77 and the reason where fewer than two GPUs are visible.

#include <cstdio>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "executor/device/backend/load_backend.h"
#include "executor/device/comm/job_fabric.h"
#include "executor/device/comm/rendezvous_server.h"
#include "tests/gpu/all_reduce_methods.h"

namespace parplan {
namespace {

constexpr int64_t kMessageBytes = 8192;
constexpr char kToken[] = "all-reduce";

// One rank's part, on a thread of its own.
absl::StatusOr<AllReduceTimes> Measure(DeviceBackend& backend, const std::string& rendezvous,
                                       int rank, int size) {
  PARPLAN_ASSIGN_OR_RETURN(const std::unique_ptr<Device> device, backend.Open(rank));
  PARPLAN_ASSIGN_OR_RETURN(
      const auto fabric,
      JobFabric::Join(
          {.rendezvous = rendezvous, .token = kToken, .rank = rank, .world_size = size}));
  std::vector<int> ranks(static_cast<size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  PARPLAN_ASSIGN_OR_RETURN(const auto control, fabric->MakeGroup("control", ranks));
  const AllReduceRank self = {
      .job = fabric.get(), .device = device.get(), .control = control.get(), .device_index = rank};
  AllReduceTimes times = {.ranks = size, .message_bytes = kMessageBytes};
  PARPLAN_ASSIGN_OR_RETURN(times.nccl_tests, TimeAsNcclTests(self, kMessageBytes));
  PARPLAN_ASSIGN_OR_RETURN(times.probe, TimeAsProbe(self, kMessageBytes));
  return times;
}

absl::Status Report(const std::string& plugin) {
  // Sets variables of CUDA's, so it comes before CUDA's first call.
  PARPLAN_ASSIGN_OR_RETURN(
      const auto backend,
      LoadBackend("cuda", {.plugin = plugin, .groups = GroupTransport::kNative}));
  const int size = backend->device_count();
  if (size < 2) return absl::NotFoundError("one GPU is visible; an all-reduce needs two");
  PARPLAN_ASSIGN_OR_RETURN(const auto server,
                           RendezvousServer::Start({.token = kToken, .world_size = size}));
  std::vector<absl::StatusOr<AllReduceTimes>> times(static_cast<size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back(
        [&, rank] { times[rank] = Measure(*backend, server->address(), rank, size); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& each : times) PARPLAN_RETURN_IF_ERROR(each.status());
  std::printf("%s\n", ToJson(*times.front()).c_str());
  return CheckRatio(*times.front());
}

int Main(const std::vector<std::string>& arguments) {
  const bool has_plugin = arguments.size() == 2 && arguments[0] == "--plugin";
  if (!arguments.empty() && !has_plugin) {
    std::fprintf(stderr, "usage: all_reduce_speed [--plugin FILE]\n");
    return 2;
  }
  const absl::Status status = Report(has_plugin ? arguments[1] : "");
  if (status.ok()) return 0;
  std::fprintf(stderr, "all_reduce_speed: %s\n", std::string(status.message()).c_str());
  return absl::IsNotFound(status) || GetBackendFault(status).has_value() ? 77 : 1;
}

}  // namespace
}  // namespace parplan

int main(int argc, char** argv) {
  return parplan::Main(std::vector<std::string>(argv + 1, argv + argc));
}
