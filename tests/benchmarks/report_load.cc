// Lets the ranks of a large job report windows to a server, each on a stream of its own as
// their meters do, and prints what it measured as one JSON object:
//
//   {"ranks": 1000, "windows": 20000, "windows_per_second": 1830.2, "p50_ms": 12.1, "p99_ms": 40.7,
//    "max_ms": 93.0, "close_ms": 210.4, "server_cpu_seconds": 9.1, "server_rss_bytes": 41943040}
//
// A window counts when the server has acknowledged it; in the end the server has to have every
// one of them. `close_ms` is CompleteExecution, which looks at all windows. Without --period
// ranks report as fast as they are answered; with it, each once in so many seconds.

#include <grpc/grpc.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "clients/cpp/execution_client.h"
#include "clients/cpp/plan_client.h"
#include "clients/cpp/profile_client.h"
#include "tests/benchmarks/server_process.h"

namespace parplan {
namespace {

using SteadyClock = std::chrono::steady_clock;

struct LoadOptions {
  std::string server;
  std::string examples;
  int ranks = 1000;
  int windows = 20;  // Of each rank.
  int threads = 32;  // Ranks are shared out among them; each has a connection.
  double period = 0.0;
};

double Milliseconds(SteadyClock::duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

std::shared_ptr<grpc::Channel> Connect(const std::string& address) {
  ChannelOptions options;
  options.target = address;
  const auto channel = MakeChannel(options);
  if (!channel.ok()) FailBenchmark(channel.status().ToString());
  return *channel;
}

// A connection that no other channel shares.
std::shared_ptr<grpc::Channel> OwnConnection(const std::string& address, int number) {
  grpc::ChannelArguments arguments;
  arguments.SetInt("report_load.connection", number);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

// An execution of a plan for at least `ranks` devices.
v1::Execution OpenExecution(const LoadOptions& options, const std::string& address) {
  const std::shared_ptr<grpc::Channel> channel = Connect(address);
  v1::CreatePlanRequest request;
  v1::PlanSpec& spec = *request.mutable_spec();
  *spec.mutable_model() = ReadMessage<v1::ModelSpec>(options.examples + "/llama2-7b.model.json");
  *spec.mutable_topology() =
      ReadMessage<v1::ClusterTopology>(options.examples + "/a100-40g-16.cluster.json");
  const int node_count = (options.ranks + 7) / 8;
  spec.mutable_topology()->mutable_node_groups(0)->set_node_count(node_count);
  for (v1::LinkTier& tier : *spec.mutable_topology()->mutable_link_tiers()) {
    if (tier.reach_device_count() > 8) tier.set_reach_device_count(8 * node_count);
  }
  spec.set_global_batch_size(16 * node_count);
  spec.mutable_options()->set_planner("sdp");
  spec.mutable_options()->set_allow_estimates(true);
  request.set_parent("clusters/" + spec.topology().cluster());
  const auto stored = ProfileClient(channel).Upload(
      request.parent() + "/nodes/node-0",
      ReadMessage<v1::Profile>(options.examples + "/llama2-7b-a100-2-nodes.profile.json"));
  if (!stored.ok()) FailBenchmark(stored.status().ToString());
  const auto plan = PlanClient(channel).CreatePlan(request);
  if (!plan.ok()) FailBenchmark(plan.status().ToString());
  v1::CreateExecutionRequest open;
  open.set_parent(plan->name());
  const auto execution = ExecutionClient(channel).Create(open);
  if (!execution.ok()) FailBenchmark(execution.status().ToString());
  return *execution;
}

// The measurements of a rank: time by phase and memory by item, as predicted.
v1::MeasuredWindow Window(const v1::Execution& execution, int rank, int number) {
  v1::MeasuredWindow window;
  window.set_rank(rank);
  window.set_first_step(10 * number);
  window.set_step_count(10);
  *window.mutable_median_step_duration() = execution.predicted_step_duration();
  window.set_peak_memory_bytes(execution.predicted_peak_memory_bytes());
  for (const v1::ExecutionStage& stage : execution.stages()) {
    if (rank < stage.first_rank() || rank >= stage.first_rank() + stage.rank_count()) continue;
    *window.mutable_phase_durations() = stage.predicted_phase_durations();
    *window.mutable_memory_items() = stage.predicted_memory_items();
  }
  return window;
}

// Reports all windows of the ranks that belong to one thread; gives the times of its calls.
std::vector<double> ReportRanks(const LoadOptions& options, const v1::Execution& execution,
                                ExecutionClient& client, int thread, std::atomic<int64_t>& stored) {
  std::vector<double> milliseconds;
  const auto begin = SteadyClock::now();
  for (int number = 0; number < options.windows; ++number) {
    for (int rank = thread; rank < options.ranks; rank += options.threads) {
      if (options.period > 0.0) {
        const double share = static_cast<double>(rank) / options.ranks;
        std::this_thread::sleep_until(
            begin + std::chrono::duration_cast<SteadyClock::duration>(
                        std::chrono::duration<double>(options.period * (number + share))));
      }
      const v1::MeasuredWindow window = Window(execution, rank, number);
      const auto start = SteadyClock::now();
      const auto answer = client.Report(execution.name(), {window});
      if (!answer.ok()) FailBenchmark(answer.status().ToString());
      milliseconds.push_back(Milliseconds(SteadyClock::now() - start));
      stored += answer->stored_window_count();
    }
  }
  return milliseconds;
}

int Main(int argc, char** argv) {
  LoadOptions options;
  options.server = BuiltServer();
  options.examples = PARPLAN_EXAMPLES_DIR;
  CLI::App app("Measures how a server takes the windows of a large job.", "report_load");
  app.allow_extras();  // Flags for the other benchmarks.
  app.add_option("--server", options.server, "The parplan-server to start");
  app.add_option("--examples", options.examples, "Folder of the example files");
  app.add_option("--ranks", options.ranks)->check(CLI::Range(1, 4096));
  app.add_option("--windows", options.windows, "Windows of each rank")
      ->check(CLI::Range(1, 100000));
  app.add_option("--threads", options.threads)->check(CLI::Range(1, 1000));
  app.add_option("--period", options.period, "Seconds between windows of a rank [none]");
  CLI11_PARSE(app, argc, argv);

  const ServerProcess server(options.server);
  const v1::Execution execution = OpenExecution(options, server.address());
  std::vector<std::unique_ptr<ExecutionClient>> clients;
  for (int i = 0; i < options.threads; ++i) {
    clients.push_back(std::make_unique<ExecutionClient>(OwnConnection(server.address(), i)));
  }
  const double cpu_before = server.CpuSeconds();
  const auto start = SteadyClock::now();
  std::atomic<int64_t> stored = 0;
  std::vector<std::vector<double>> times(options.threads);
  std::vector<std::thread> threads;
  for (int i = 0; i < options.threads; ++i) {
    threads.emplace_back(
        [&, i] { times[i] = ReportRanks(options, execution, *clients[i], i, stored); });
  }
  for (std::thread& thread : threads) thread.join();
  const double elapsed = Milliseconds(SteadyClock::now() - start) * 1e-3;

  std::vector<double> all;
  for (const std::vector<double>& some : times) all.insert(all.end(), some.begin(), some.end());
  std::sort(all.begin(), all.end());
  const auto quantile = [&all](double share) {
    return all[std::min(all.size() - 1,
                        static_cast<size_t>(share * static_cast<double>(all.size())))];
  };
  const auto close_start = SteadyClock::now();
  v1::CompleteExecutionRequest complete;
  complete.set_name(execution.name());
  const auto closed = clients[0]->Complete(complete);
  if (!closed.ok()) FailBenchmark(closed.status().ToString());
  const double close_ms = Milliseconds(SteadyClock::now() - close_start);
  const int64_t expected = int64_t{options.ranks} * options.windows;
  const nlohmann::ordered_json result = {
      {"ranks", options.ranks},
      {"windows", stored.load()},
      {"windows_per_second", static_cast<double>(stored.load()) / elapsed},
      {"p50_ms", quantile(0.5)},
      {"p99_ms", quantile(0.99)},
      {"max_ms", quantile(1.0)},
      {"close_ms", close_ms},
      {"server_cpu_seconds", server.CpuSeconds() - cpu_before},
      {"server_rss_bytes", server.RssBytes()}};
  std::cout << result.dump() << std::endl;
  if (stored != expected || closed->window_count() != expected) {
    FailBenchmark("the server has " + std::to_string(closed->window_count()) + " windows of " +
                  std::to_string(expected));
  }
  return 0;
}

}  // namespace
}  // namespace parplan

int main(int argc, char** argv) { return parplan::Main(argc, argv); }
