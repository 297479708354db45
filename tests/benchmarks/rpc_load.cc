// Asks a server for one plan again and again, as fast as it answers, and prints
// what it measured as one JSON object:
//
//   {"calls": 41218, "calls_per_second": 8243.6, "p50_ms": 1.1, "p99_ms": 3.9,
//    "max_ms": 12.0, "errors": 0, "connections": 4, "in_flight": 16,
//    "server_p50_ms": 0.2, "server_p99_ms": 1.1, "server_rss_bytes": 31457280}
//
// The figures that begin with `server` are those of the server: how long its calls took by its log.
// With --access it has mutual TLS, roles by certificate, and an audit log without which nothing
// changes (access_files.h); the result then has `audit_lines`.
//
// Starts a server of its own (../bin/parplan-server, or --server PATH) in a folder
// of its own, uploads the example profile, asks once, then counts answers from the
// plan cache. Client and server share the machine.

#include <grpc/grpc.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "clients/cpp/channel.h"
#include "clients/cpp/plan_client.h"
#include "clients/cpp/profile_client.h"
#include "parplan/v1/plan_service.grpc.pb.h"
#include "tests/benchmarks/access_files.h"
#include "tests/benchmarks/server_process.h"

namespace parplan {
namespace {

using SteadyClock = std::chrono::steady_clock;

struct LoadOptions {
  std::string server;
  std::string examples;
  int connections = 4;
  int in_flight = 16;
  double seconds = 5.0;
  bool with_access = false;
};

// The value below which a share of ascending `values` lies; 0 if there are none.
double Quantile(const std::vector<double>& values, double share) {
  if (values.empty()) return 0.0;
  const size_t index = static_cast<size_t>(share * static_cast<double>(values.size()));
  return values[std::min(index, values.size() - 1)];
}

// Milliseconds of the server's calls of `CreatePlan`, ascending, by its log.
std::vector<double> LoggedMilliseconds(const std::string& log_file) {
  std::vector<double> milliseconds;
  std::ifstream log(log_file);
  for (std::string line; std::getline(log, line);) {
    const auto entry = nlohmann::json::parse(line, nullptr, false);
    if (entry.is_discarded() || entry.value("event", "") != "call") continue;
    if (!absl::EndsWith(entry.value("method", ""), "CreatePlan")) continue;
    milliseconds.push_back(1e3 * entry.value("duration_seconds", 0.0));
  }
  std::sort(milliseconds.begin(), milliseconds.end());
  return milliseconds;
}

int64_t LineCount(const std::string& path) {
  std::ifstream file(path);
  int64_t count = 0;
  for (std::string line; std::getline(file, line);) ++count;
  return count;
}

// Uploads the example profile and gives the question about it.
v1::CreatePlanRequest Prepare(const LoadOptions& options, const ChannelOptions& channel_options) {
  const auto channel = MakeChannel(channel_options);
  if (!channel.ok()) FailBenchmark(channel.status().ToString());
  v1::CreatePlanRequest request;
  v1::PlanSpec& spec = *request.mutable_spec();
  *spec.mutable_model() = ReadMessage<v1::ModelSpec>(options.examples + "/llama2-7b.model.json");
  *spec.mutable_topology() =
      ReadMessage<v1::ClusterTopology>(options.examples + "/a100-40g-8.cluster.json");
  spec.set_global_batch_size(64);
  request.set_parent("clusters/" + spec.topology().cluster());
  const auto stored = ProfileClient(*channel).Upload(
      request.parent() + "/nodes/node-0",
      ReadMessage<v1::Profile>(options.examples + "/llama2-7b-a100.profile.json"));
  if (!stored.ok()) FailBenchmark(stored.status().ToString());
  const auto plan = PlanClient(*channel).CreatePlan(request);
  if (!plan.ok()) FailBenchmark(plan.status().ToString());
  return request;
}

// Calls in flight, each of which begins the next when it is answered.
class Load {
 public:
  Load(const LoadOptions& options, const ChannelOptions& channel, v1::CreatePlanRequest request)
      : options_(options), request_(std::move(request)) {
    std::shared_ptr<grpc::ChannelCredentials> credentials = grpc::InsecureChannelCredentials();
    if (options.with_access) {
      credentials =
          grpc::SslCredentials({ReadWholeFile(channel.ca_file), ReadWholeFile(channel.key_file),
                                ReadWholeFile(channel.certificate_file)});
    }
    for (int i = 0; i < options.connections; ++i) {
      grpc::ChannelArguments arguments;
      arguments.SetInt("rpc_load.connection", i);  // Else they would share one.
      arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
      arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
      if (options.with_access) arguments.SetSslTargetNameOverride(channel.server_name);
      stubs_.push_back(v1::PlanService::NewStub(
          grpc::CreateCustomChannel(channel.target, credentials, arguments)));
    }
  }

  nlohmann::ordered_json Run() {
    const auto start = SteadyClock::now();
    live_ = options_.in_flight;
    for (int i = 0; i < options_.in_flight; ++i) Ask(stubs_[i % stubs_.size()].get());
    std::this_thread::sleep_for(std::chrono::duration<double>(options_.seconds));
    ending_ = true;
    std::unique_lock<std::mutex> lock(mutex_);
    ended_.wait(lock, [this] { return live_ == 0; });
    const double elapsed = std::chrono::duration<double>(SteadyClock::now() - start).count();
    std::sort(milliseconds_.begin(), milliseconds_.end());
    return {{"calls", milliseconds_.size()},
            {"calls_per_second", static_cast<double>(milliseconds_.size()) / elapsed},
            {"p50_ms", Quantile(milliseconds_, 0.5)},
            {"p99_ms", Quantile(milliseconds_, 0.99)},
            {"max_ms", Quantile(milliseconds_, 1.0)},
            {"errors", errors_},
            {"connections", options_.connections},
            {"in_flight", options_.in_flight}};
  }

 private:
  struct OneCall {
    grpc::ClientContext context;
    v1::Plan plan;
    SteadyClock::time_point start;
  };

  void Ask(v1::PlanService::Stub* stub) {
    auto* const call = new OneCall;
    call->start = SteadyClock::now();
    call->context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
    stub->async()->CreatePlan(&call->context, &request_, &call->plan,
                              [this, stub, call](const grpc::Status& status) {
                                Answered(*call, status);
                                delete call;
                                if (!ending_) return Ask(stub);
                                const std::lock_guard<std::mutex> lock(mutex_);
                                if (--live_ == 0) ended_.notify_all();
                              });
  }

  void Answered(const OneCall& call, const grpc::Status& status) {
    const double milliseconds =
        std::chrono::duration<double, std::milli>(SteadyClock::now() - call.start).count();
    const std::lock_guard<std::mutex> lock(mutex_);
    if (status.ok() && call.plan.from_cache()) {
      milliseconds_.push_back(milliseconds);
    } else {
      ++errors_;
    }
  }

  const LoadOptions& options_;
  const v1::CreatePlanRequest request_;
  std::vector<std::unique_ptr<v1::PlanService::Stub>> stubs_;
  std::atomic<bool> ending_ = false;
  std::mutex mutex_;
  std::condition_variable ended_;
  int live_ = 0;  // Guarded by mutex_, as the rest.
  int64_t errors_ = 0;
  std::vector<double> milliseconds_;  // Of each call answered from the cache.
};

int Main(int argc, char** argv) {
  LoadOptions options;
  options.server = BuiltServer();
  options.examples = PARPLAN_EXAMPLES_DIR;
  CLI::App app("Measures how fast a server gives plans it has.", "rpc_load");
  app.allow_extras();  // Flags for the other benchmarks.
  app.add_option("--server", options.server, "The parplan-server to start");
  app.add_option("--examples", options.examples, "Folder of the example files");
  app.add_option("--connections", options.connections)->check(CLI::Range(1, 1000));
  app.add_option("--in-flight", options.in_flight)->check(CLI::Range(1, 10000));
  app.add_option("--seconds", options.seconds)->check(CLI::Range(0.1, 3600.0));
  app.add_flag("--access", options.with_access,
               "Measure with mutual TLS, roles by certificate and an audit log");
  CLI11_PARSE(app, argc, argv);

  std::optional<AccessFiles> access;
  if (options.with_access) access.emplace();
  const ServerProcess server(options.server,
                             access ? access->server_flags() : std::vector<std::string>());
  ChannelOptions channel;
  if (access) channel = access->Channel(server.address());
  channel.target = server.address();
  Load load(options, channel, Prepare(options, channel));
  nlohmann::ordered_json result = load.Run();
  const std::vector<double> logged = LoggedMilliseconds(server.log_file());
  result["server_p50_ms"] = Quantile(logged, 0.5);
  result["server_p99_ms"] = Quantile(logged, 0.99);
  if (access) result["audit_lines"] = LineCount(access->audit_file());
  result["server_rss_bytes"] = server.RssBytes();
  std::cout << result.dump() << std::endl;
  return result["errors"] == 0 ? 0 : 1;
}

}  // namespace
}  // namespace parplan

int main(int argc, char** argv) { return parplan::Main(argc, argv); }
