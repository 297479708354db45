// parplan-exec with real processes: what it does, and how it ends when something fails.

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <condition_variable>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "executor/device/backend/context_memory.h"
#include "executor/device/backend/machine.h"
#include "executor/device/backend/machine_use.h"
#include "executor/exec/exec_inputs.h"
#include "parplan/v1/execution_service.grpc.pb.h"
#include "tests/executor/exec/exec_world.h"
#include "tests/support/busy_process.h"
#include "tests/support/reserved_port.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kEndless[] = "100000000";

std::vector<std::string> With(std::vector<std::string> arguments,
                              const std::vector<std::string>& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

nlohmann::json ReadJson(const std::string& path) {
  std::ifstream file(path);
  return nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
}

// Returns the log lines `ended` of level `error` that the launcher wrote (`rank` -1), or a rank,
// whose lines the launcher passes on.
std::vector<nlohmann::json> EndsOf(const std::string& output, int rank) {
  const std::string mark = rank < 0 ? "" : absl::StrCat("rank ", rank, ": ");
  std::vector<nlohmann::json> ends;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    if (line.compare(0, mark.size(), mark) != 0) continue;
    const auto event = nlohmann::json::parse(line.substr(mark.size()), nullptr,
                                             /*allow_exceptions=*/false);
    if (!event.is_object() || event["event"] != "ended" || event["level"] != "error") continue;
    ends.push_back(event);
  }
  return ends;
}

class ParplanExec : public ::testing::Test {
 protected:
  // The losses of five steps under `plan`, with what else a test wants.
  std::vector<double> Losses(const std::string& plan_file, const std::vector<std::string>& more) {
    const std::string results = world_.PathOf("results.json");
    ExecProcess process(With(world_.LaunchArguments(plan_file),
                             With({"--steps", "5", "--results", results}, more)));
    EXPECT_EQ(process.Wait(), 0) << process.output();
    return ReadJson(results)["losses"].get<std::vector<double>>();
  }
  // Starts a job that never ends by itself, and waits until it trains.
  std::unique_ptr<ExecProcess> StartEndless(const std::vector<std::string>& more = {}) {
    auto process = std::make_unique<ExecProcess>(
        With(world_.LaunchArguments(world_.WritePlan("endless", world_.DataParallel())),
             With({"--steps", kEndless}, more)));
    EXPECT_TRUE(process->AwaitLine("step 3 ")) << process->output();
    return process;
  }
  // The exit status and what was said of a plan that is refused.
  void ExpectRefused(const std::string& plan_file, const std::vector<std::string>& more,
                     const std::string& why) {
    ExecProcess process(With(world_.LaunchArguments(plan_file), more));
    EXPECT_EQ(process.Wait(), 5) << process.output();
    EXPECT_THAT(process.output(), HasSubstr(why));
  }

  ExecWorld world_{2};
};

TEST_F(ParplanExec, TrainsAndSetsMeasuredBesidePredicted) {
  const std::string plan = world_.WritePlan("p", world_.Pipeline());
  const std::string results = world_.PathOf("results.json");
  ExecProcess process(
      With(world_.LaunchArguments(plan),
           {"--steps", "7", "--window-steps", "3", "--log-every", "2", "--results", results}));
  ASSERT_EQ(process.Wait(), 0) << process.output();
  EXPECT_THAT(process.output(), AllOf(HasSubstr("step 0 loss"), HasSubstr("step 6 loss"),
                                      HasSubstr("predicted"), HasSubstr("memory of stage 1")));
  EXPECT_THAT(process.output(), ::testing::Not(HasSubstr("step 1 loss")));
  const nlohmann::json json = ReadJson(results);
  ASSERT_EQ(json["losses"].size(), 7u);
  EXPECT_LT(json["losses"][6], json["losses"][0]);
  const nlohmann::json& only = json["plans"][0];
  EXPECT_EQ(only["plan"], "clusters/tests/plans/p");
  EXPECT_EQ(only["predicted_step_seconds"], 0.25);
  EXPECT_GT(only["measured_step_seconds"], 0.0);
  ASSERT_EQ(only["stages"].size(), 2u);
  EXPECT_GT(only["stages"][1]["measured_memory_bytes"]["parameters"], 0);
  // The same as in any other program with the processor's kernels, such as this one.
  EXPECT_GT(CpuContextMemory(), Bytes());
  EXPECT_EQ(only["stages"][1]["measured_memory_bytes"]["context"], CpuContextMemory().count());
  // Windows of 3, 3 and 1 steps at two ranks.
  ASSERT_EQ(only["windows"].size(), 6u);
  EXPECT_EQ(only["windows"][5]["first_step"], 6);
  EXPECT_EQ(only["windows"][5]["step_count"], 1);
  EXPECT_GT(only["windows"][0]["phase_seconds"]["backward"], 0.0);
}

// Whatever else runs on this machine only adds to what others use.
TEST_F(ParplanExec, SaysThatOthersUsedItsProcessors) {
  std::vector<std::unique_ptr<BusyProcess>> others;
  for (int k = 0; k < 2 * UsableProcessorCount(); ++k) {
    others.push_back(std::make_unique<BusyProcess>());
    ASSERT_TRUE(others.back()->is_running());
  }
  const std::string plan = world_.WritePlan("p", world_.DataParallel());
  const std::string results = world_.PathOf("results.json");
  // Too few steps take too little time to say anything of.
  for (int steps = 100; steps < 1'000'000; steps *= 4) {
    ExecProcess process(
        With(world_.LaunchArguments(plan),
             {"--steps", absl::StrCat(steps), "--log-every", "100000", "--results", results}));
    ASSERT_EQ(process.Wait(), 0) << process.output();
    const nlohmann::json only = ReadJson(results)["plans"][0];
    if (!only.contains("machine_used_by_others_ratio")) continue;
    EXPECT_GT(only["machine_used_by_others_ratio"], kBusyMachineRatio);
    EXPECT_LE(only["machine_used_by_others_ratio"], 1.0);
    EXPECT_EQ(only["machine_is_busy"], true);
    EXPECT_THAT(process.output(), HasSubstr("busy machine"));
    return;
  }
  ADD_FAILURE() << "the steps were never long enough";
}

TEST_F(ParplanExec, ATextNeedsAVocabularyOfBytes) {
  // The model has 96 tokens only.
  const std::string text = world_.Write("text.txt", std::string(4096, 'a'));
  ExecProcess process(
      With(world_.LaunchArguments(world_.WritePlan("p", world_.Pipeline())), {"--text", text}));
  EXPECT_EQ(process.Wait(), 2) << process.output();
}

TEST_F(ParplanExec, GoesOnUnderAnotherPlan) {
  const std::string first = world_.WritePlan("first", world_.DataParallel());
  const std::string second = world_.WritePlan("second", world_.Pipeline());
  const std::vector<double> swapped = Losses(first, {"--swap-to", second, "--swap-at", "2"});
  const std::vector<double> plain = Losses(first, {});
  ASSERT_EQ(swapped.size(), plain.size());
  for (size_t step = 0; step < plain.size(); ++step) {
    EXPECT_NEAR(swapped[step], plain[step], 1e-5 * plain[step]) << step;
  }
}

TEST_F(ParplanExec, NamesTheRankThatIsKilledAndLeavesNone) {
  const auto process = StartEndless({"--grace", "60"});
  std::map<int, pid_t> ranks = process->Ranks();
  ASSERT_EQ(ranks.size(), 2u);
  ::kill(ranks[1], SIGKILL);
  EXPECT_EQ(process->Wait(), 1);
  // Launcher and ranks log it as every program that stays does.
  const std::vector<nlohmann::json> ends = EndsOf(process->output(), -1);
  ASSERT_EQ(ends.size(), 1u) << process->output();
  EXPECT_TRUE(ends[0].contains("time"));
  EXPECT_THAT(ends[0]["message"].get<std::string>(),
              AllOf(HasSubstr("rank 1 (process"), HasSubstr("was killed by SIGKILL")));
  const std::vector<nlohmann::json> ends_of_rank = EndsOf(process->output(), 0);
  ASSERT_EQ(ends_of_rank.size(), 1u) << process->output();
  EXPECT_THAT(ends_of_rank[0]["message"].get<std::string>(), HasSubstr("rank 1 is lost"));
  EXPECT_FALSE(IsRunning(ranks[0]));
}

TEST_F(ParplanExec, ARankThatStandsStillEndsTheJobAtTheDeadlineOfAnOperation) {
  const auto process = StartEndless({"--operation-timeout", "10", "--grace", "0.5"});
  std::map<int, pid_t> ranks = process->Ranks();
  ASSERT_EQ(ranks.size(), 2u);
  ::kill(ranks[1], SIGSTOP);
  EXPECT_EQ(process->Wait(), 1);
  const std::vector<nlohmann::json> ends = EndsOf(process->output(), -1);
  ASSERT_EQ(ends.size(), 1u) << process->output();
  EXPECT_THAT(ends[0]["message"].get<std::string>(),
              AllOf(HasSubstr("rank 0 (process"), HasSubstr("rank 1")));
  EXPECT_FALSE(IsRunning(ranks[0]));
  EXPECT_FALSE(IsRunning(ranks[1]));
}

TEST_F(ParplanExec, ASignalEndsAllRanks) {
  const auto process = StartEndless();
  const std::map<int, pid_t> ranks = process->Ranks();
  ::kill(process->pid(), SIGTERM);
  EXPECT_EQ(process->Wait(), 1);
  EXPECT_THAT(process->output(), HasSubstr("ended by SIGTERM"));
  for (const auto& [rank, pid] : ranks) EXPECT_FALSE(IsRunning(pid)) << rank;
}

TEST_F(ParplanExec, NoRankOutlivesALauncherThatIsKilled) {
  const auto process = StartEndless();
  const std::map<int, pid_t> ranks = process->Ranks();
  ASSERT_EQ(ranks.size(), 2u);
  ::kill(process->pid(), SIGKILL);
  // Only ends when no rank has its output any more.
  EXPECT_EQ(process->Wait(), -SIGKILL);
}

TEST_F(ParplanExec, RefusesAPlanWithOneBitChanged) {
  const std::string file = world_.WritePlan("p", world_.DataParallel());
  std::ifstream stream(file);
  nlohmann::json envelope = nlohmann::json::parse(stream);
  std::string payload = envelope["payload"];
  payload[40] = payload[40] == 'A' ? 'B' : 'A';
  envelope["payload"] = payload;
  ExpectRefused(world_.Write("changed.dsse.json", envelope.dump()), {}, "SIGNATURE_INVALID");
}

TEST_F(ParplanExec, RefusesAnExpiredPlan) {
  ExpectRefused(world_.WritePlan("p", world_.DataParallel(),
                                 [](v1::PlanPayload& payload) {
                                   const int64_t issued = payload.issue_time().seconds() - 7200;
                                   payload.mutable_issue_time()->set_seconds(issued);
                                   payload.mutable_expire_time()->set_seconds(issued + 3600);
                                 }),
                {}, "PLAN_EXPIRED");
}

TEST_F(ParplanExec, RefusesAPlanForOtherNodes) {
  ExpectRefused(world_.WritePlan("p", world_.DataParallel()), {"--node", "other-node"},
                "AUDIENCE_MISMATCH");
}

TEST_F(ParplanExec, RefusesAPlanForOtherDevices) {
  ExpectRefused(
      world_.WritePlan("p", world_.DataParallel(),
                       [](v1::PlanPayload& payload) { payload.set_topology_digest("00"); }),
      {}, "TOPOLOGY_MISMATCH");
}

TEST_F(ParplanExec, RefusesAPlanForAnotherModel) {
  ExpectRefused(world_.WritePlan("p", world_.DataParallel(),
                                 [](v1::PlanPayload& payload) { payload.set_model_digest("00"); }),
                {}, "model_digest");
}

TEST_F(ParplanExec, RefusesAPlanThatWasPredictedForAnotherRuntime) {
  const std::string plan =
      world_.WritePlan("p", world_.DataParallel(),
                       [](v1::PlanPayload& payload) { payload.set_runtime_id("megatron-core"); });
  ExpectRefused(plan, {}, "runtime_id");
  ExecProcess process(With(world_.LaunchArguments(plan), {"--steps", "1", "--any-runtime"}));
  EXPECT_EQ(process.Wait(), 0) << process.output();
  const std::string own =
      world_.WritePlan("own", world_.DataParallel(),
                       [](v1::PlanPayload& payload) { payload.set_runtime_id("parplan-exec"); });
  ExecProcess another(With(world_.LaunchArguments(own), {"--steps", "1"}));
  EXPECT_EQ(another.Wait(), 0) << another.output();
}

TEST_F(ParplanExec, ALossThatIsNoNumberEndsTheJobAsFailed) {
  ExecProcess process(With(world_.LaunchArguments(world_.WritePlan("p", world_.DataParallel())),
                           {"--steps", kEndless, "--learning-rate", "1e38"}));
  EXPECT_EQ(process.Wait(), 1) << process.output();
  EXPECT_THAT(process.output(), HasSubstr("the loss is "));
}

TEST_F(ParplanExec, RefusesAnotherNumberOfRanks) {
  std::vector<std::string> arguments =
      world_.Arguments(world_.WritePlan("p", world_.DataParallel()));
  ExecProcess process(With(arguments, {"--ranks", "3"}));
  EXPECT_EQ(process.Wait(), 5) << process.output();
  EXPECT_THAT(process.output(), HasSubstr("device_count"));
}

TEST_F(ParplanExec, SaysWhyThereIsNoBackEnd) {
  ExecProcess process(With(world_.LaunchArguments(world_.WritePlan("p", world_.DataParallel())),
                           {"--backend", "cuda"}),
                      {{"PARPLAN_CUDA_PLUGIN", "/nonexistent/plugin.so"}});
  EXPECT_EQ(process.Wait(), 6) << process.output();
  EXPECT_THAT(process.output(), HasSubstr("/nonexistent/plugin.so"));
  EXPECT_THAT(process.output(), HasSubstr("ask for plans for GPUs with --runtime parplan-exec"));
}

TEST_F(ParplanExec, SaysNothingOfAPlanForItsGpus) {
  const std::string plan =
      world_.WritePlan("p", world_.DataParallel(),
                       [](v1::PlanPayload& payload) { payload.set_runtime_id("parplan-exec"); });
  ExecProcess process(With(world_.LaunchArguments(plan), {"--backend", "cuda"}),
                      {{"PARPLAN_CUDA_PLUGIN", "/nonexistent/plugin.so"}});
  EXPECT_EQ(process.Wait(), 6) << process.output();
  EXPECT_THAT(process.output(), ::testing::Not(HasSubstr("warning")));
}

TEST_F(ParplanExec, JoinsUnderAnotherLauncher) {
  const std::string plan = world_.WritePlan("p", world_.DataParallel());
  const ReservedPort reserved;
  const std::string port = absl::StrCat(reserved.number());
  const auto environment = [&](int rank) {
    return std::map<std::string, std::string>{
        {"RANK", absl::StrCat(rank)}, {"LOCAL_RANK", absl::StrCat(rank)}, {"WORLD_SIZE", "2"},
        {"LOCAL_WORLD_SIZE", "2"},    {"MASTER_ADDR", "127.0.0.1"},       {"MASTER_PORT", "1"},
        {"PARPLAN_PORT", port}};
  };
  // Without a token ranks of one node agree on one.
  for (const std::map<std::string, std::string>& secret :
       {std::map<std::string, std::string>{{"PARPLAN_TOKEN", "secret"}}, {}}) {
    std::map<std::string, std::string> first_variables = environment(0);
    std::map<std::string, std::string> second_variables = environment(1);
    first_variables.insert(secret.begin(), secret.end());
    second_variables.insert(secret.begin(), secret.end());
    ExecProcess first(world_.Arguments(plan), first_variables);
    ExecProcess second(world_.Arguments(plan), second_variables);
    EXPECT_EQ(first.Wait(), 0) << first.output();
    EXPECT_EQ(second.Wait(), 0) << second.output();
    EXPECT_THAT(first.output(), HasSubstr("step 9 loss"));
  }
}

TEST_F(ParplanExec, SaysWhatIsMissingWhereNobodyLaunched) {
  ExecProcess process(world_.Arguments(world_.WritePlan("p", world_.DataParallel())));
  EXPECT_EQ(process.Wait(), 2);
  EXPECT_THAT(process.output(), HasSubstr("--ranks"));
}

// Later the reporter takes files that cannot be read for files that are being renewed.
TEST_F(ParplanExec, RefusesWrongFlagsForTheServerBeforeTheFirstStep) {
  const std::string plan = world_.WritePlan("p", world_.DataParallel());
  const std::vector<std::string> flags = {"--server", "127.0.0.1:1", "--ca",
                                          world_.PathOf("none.pem")};
  ExecProcess launcher(With(world_.LaunchArguments(plan), flags));
  EXPECT_EQ(launcher.Wait(), 2);
  EXPECT_THAT(launcher.output(), AllOf(HasSubstr("tls_ca"), HasSubstr("none.pem")));
  ExecProcess rank(With(world_.Arguments(plan), flags), {{"RANK", "0"},
                                                         {"LOCAL_RANK", "0"},
                                                         {"WORLD_SIZE", "2"},
                                                         {"LOCAL_WORLD_SIZE", "2"},
                                                         {"MASTER_ADDR", "127.0.0.1"},
                                                         {"MASTER_PORT", "1"},
                                                         {"PARPLAN_TOKEN", "secret"}});
  EXPECT_EQ(rank.Wait(), 2);
  EXPECT_THAT(rank.output(), AllOf(HasSubstr("tls_ca"), HasSubstr("none.pem")));
}

// Takes windows until it is shut down.
class WindowService : public v1::ExecutionService::Service {
 public:
  grpc::Status CreateExecution(grpc::ServerContext*, const v1::CreateExecutionRequest* request,
                               v1::Execution* execution) override {
    execution->set_name(request->parent() + "/executions/e1");
    return grpc::Status::OK;
  }
  grpc::Status ReportMetrics(grpc::ServerContext*,
                             grpc::ServerReader<v1::ReportMetricsRequest>* reader,
                             v1::ReportMetricsResponse*) override {
    for (v1::ReportMetricsRequest request; reader->Read(&request);) {
      const std::lock_guard<std::mutex> lock(mutex_);
      windows_.push_back(request.window());
      changed_.notify_all();
    }
    return grpc::Status::OK;
  }
  grpc::Status CompleteExecution(grpc::ServerContext*, const v1::CompleteExecutionRequest*,
                                 v1::Execution*) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    ends_.emplace_back("complete");
    return grpc::Status::OK;
  }
  grpc::Status FailExecution(grpc::ServerContext*, const v1::FailExecutionRequest* request,
                             v1::Execution*) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    ends_.push_back(request->reason());
    return grpc::Status::OK;
  }

  void AwaitWindow() {
    std::unique_lock<std::mutex> lock(mutex_);
    EXPECT_TRUE(
        changed_.wait_for(lock, std::chrono::minutes(3), [this] { return !windows_.empty(); }));
  }
  const std::vector<v1::MeasuredWindow>& windows() const { return windows_; }
  const std::vector<std::string>& ends() const { return ends_; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<v1::MeasuredWindow> windows_;
  std::vector<std::string> ends_;
};

class ReportingExec : public ParplanExec {
 protected:
  ReportingExec() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
  }
  std::string Address() const { return absl::StrCat("127.0.0.1:", port_); }

  int port_ = 0;
  WindowService service_;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(ReportingExec, ReportsTheWindowsOfAllRanksAndTheEnd) {
  ExecProcess process(With(world_.LaunchArguments(world_.WritePlan("p", world_.DataParallel())),
                           {"--steps", "4", "--window-steps", "2", "--server", Address()}));
  ASSERT_EQ(process.Wait(), 0) << process.output();
  server_->Shutdown();
  ASSERT_EQ(service_.windows().size(), 4u);
  EXPECT_EQ(service_.windows()[3].rank(), 1);
  EXPECT_EQ(service_.windows()[3].first_step(), 2);
  EXPECT_GT(service_.windows()[3].phase_durations_size(), 2);
  EXPECT_GT(service_.windows()[3].memory_items_size(), 2);
  EXPECT_GT(service_.windows()[3].collective_timings_size(), 0);
  EXPECT_THAT(service_.ends(), ::testing::ElementsAre("complete"));
}

TEST_F(ReportingExec, ALostServerDoesNotEndTheJob) {
  ExecProcess process(With(world_.LaunchArguments(world_.WritePlan("p", world_.DataParallel())),
                           {"--steps", "400", "--window-steps", "1", "--server", Address()}));
  service_.AwaitWindow();
  server_->Shutdown();
  server_.reset();
  EXPECT_EQ(process.Wait(), 0) << process.output();
  EXPECT_THAT(process.output(), HasSubstr("step 399 loss"));
}

TEST_F(ReportingExec, TheServerIsToldWhyAJobFailed) {
  const auto process =
      StartEndless({"--server", Address(), "--window-steps", "5", "--grace", "60"});
  service_.AwaitWindow();
  std::map<int, pid_t> ranks = process->Ranks();
  ASSERT_EQ(ranks.size(), 2u);
  ::kill(ranks[1], SIGKILL);
  EXPECT_EQ(process->Wait(), 1);
  server_->Shutdown();
  EXPECT_THAT(service_.ends(), ::testing::ElementsAre(HasSubstr("rank 1 is lost")));
}

TEST_F(ReportingExec, TheLauncherReportsARankZeroThatIsKilled) {
  const auto process =
      StartEndless({"--server", Address(), "--window-steps", "5", "--grace", "60"});
  service_.AwaitWindow();
  std::map<int, pid_t> ranks = process->Ranks();
  ASSERT_EQ(ranks.size(), 2u);
  ::kill(ranks[0], SIGKILL);
  EXPECT_EQ(process->Wait(), 1);
  server_->Shutdown();
  EXPECT_THAT(service_.ends(),
              ::testing::ElementsAre(AllOf(HasSubstr("rank 0"), HasSubstr("SIGKILL"))));
}

TEST_F(ReportingExec, TheLauncherReportsASignalThatEndsTheRanks) {
  const auto process = StartEndless({"--server", Address(), "--window-steps", "5"});
  service_.AwaitWindow();
  ::kill(process->pid(), SIGTERM);
  EXPECT_EQ(process->Wait(), 1);
  server_->Shutdown();
  EXPECT_THAT(service_.ends(), ::testing::ElementsAre(HasSubstr("ended by SIGTERM")));
}

TEST(LinkShapes, AreReadStrictly) {
  ASSERT_OK_AND_ASSIGN(const auto shape, ParseLinkShapes(R"({"ranks_per_node": 2,
                          "between_nodes": {"bytes_per_second": 1e8, "latency_seconds": 1e-4}})",
                                                         "links.json"));
  EXPECT_FALSE(shape(0, 1).is_shaped());
  EXPECT_EQ(shape(1, 2).bytes_per_second, 1e8);
  EXPECT_EQ(shape(3, 0).latency, absl::Microseconds(100));
  for (const char* const wrong :
       {"", "[]", "{}", R"({"ranks_per_node": 0})", R"({"ranks_per_node": 1, "x": 1})",
        R"({"ranks_per_node": 1, "within_node": {"bytes_per_second": -1}})",
        R"({"ranks_per_node": 1, "ranks_per_node": 2})",
        R"({"ranks_per_node": 1, "within_node": {"latency": 1}})"}) {
    EXPECT_FALSE(ParseLinkShapes(wrong, "links.json").ok()) << wrong;
  }
  EXPECT_THAT(ParseLinkShapes(R"({"ranks_per_node": 0})", "links.json").status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("must be at least 1")));
  EXPECT_THAT(ParseLinkShapes(R"({"ranks_per_node": 1, "x": 1})", "links.json").status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("fields are ranks_per_node")));
}

}  // namespace
}  // namespace parplan
