// A client of several servers that share a store, as schedulers, executors and agents are:
// asks for plans, opens, reports and closes executions, uploads profiles, and looks each time
// whether what one server acknowledged is there at the next, whichever that is.
//
//   replica_load run --target ipv4:127.0.0.2:9477,127.0.0.3:9477 --profile FILE
//       --question FILE --journal FILE [--threads 4]
//
// goes on until SIGTERM, then prints one JSON object: calls, failures, latencies. Each
// resource that was acknowledged is a line of the journal.
//
//   replica_load look --target ... --journal FILE
//
// counts those of the journal that are there, and those that are not.

#include <signal.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <fstream>
#include <functional>
#include <iostream>
#include <iterator>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "clients/cpp/channel.h"
#include "clients/cpp/execution_client.h"
#include "clients/cpp/plan_client.h"
#include "clients/cpp/profile_client.h"
#include "parplan/v1/plan_service.pb.h"
#include "parplan/v1/profile.pb.h"
#include "proto/wire/json_file.h"

namespace parplan {
namespace {

struct Options {
  std::string target;
  std::string profile;
  std::string question;
  std::string journal;
  int threads = 4;
};

std::atomic<bool> stopping = false;

template <typename Message>
Message ReadMessage(const std::string& path) {
  std::ifstream file(path);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  Message message;
  const absl::Status status = ParseJson(text, path, &message);
  if (!status.ok()) {
    std::cerr << status << std::endl;
    std::exit(2);
  }
  return message;
}

// Records the calls, their results, and what was acknowledged. Safe to use from any thread.
class Record {
 public:
  explicit Record(const std::string& journal) : journal_(journal, std::ios::app) {}

  // Makes a call, measured. Gives its value, or notes its failure.
  template <typename Value>
  bool Call(const char* method, const std::function<absl::StatusOr<Value>()>& call, Value* value) {
    const absl::Time start = absl::Now();
    absl::StatusOr<Value> result = call();
    const double milliseconds = absl::ToDoubleMilliseconds(absl::Now() - start);
    const std::lock_guard<std::mutex> lock(mutex_);
    latencies_[method].push_back(milliseconds);
    if (!result.ok()) {
      ++failures_[absl::StrCat(method, " ", absl::StatusCodeToString(result.status().code()))];
      if (examples_.size() < 20) examples_.push_back(result.status().ToString());
      return false;
    }
    *value = *std::move(result);
    return true;
  }

  // The server has said that it has this.
  void Promise(const std::string& name) {
    const std::lock_guard<std::mutex> lock(mutex_);
    journal_ << name << std::endl;
  }

  // Something was not as one server said before.
  void Wrong(const std::string& what) {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++failures_["incoherent"];
    if (examples_.size() < 20) examples_.push_back(what);
  }

  void Print() {
    nlohmann::ordered_json object;
    std::vector<double> all;
    for (auto& [method, latencies] : latencies_) {
      all.insert(all.end(), latencies.begin(), latencies.end());
      object["milliseconds"][method] = Summary(latencies);
    }
    object["calls"] = all.size();
    object["milliseconds"]["all"] = Summary(all);
    int failure_count = 0;
    for (const auto& [kind, count] : failures_) failure_count += count;
    object["failures"] = failure_count;
    object["failures_by_kind"] = failures_;
    object["examples"] = examples_;
    std::cout << object.dump() << std::endl;
  }

 private:
  static nlohmann::ordered_json Summary(std::vector<double>& values) {
    std::sort(values.begin(), values.end());
    if (values.empty()) return {};
    return {{"median", values[values.size() / 2]},
            {"p99", values[values.size() * 99 / 100]},
            {"worst", values.back()}};
  }

  std::mutex mutex_;
  std::ofstream journal_;
  std::map<std::string, std::vector<double>> latencies_;
  std::map<std::string, int> failures_;
  std::vector<std::string> examples_;
};

// One of those who call: a round is a job from its question to its end.
class Caller {
 public:
  Caller(const Options& options, int number, Record& record)
      : number_(number),
        record_(record),
        channel_(*MakeChannel({.target = options.target})),
        plans_(channel_),
        profiles_(channel_),
        executions_(channel_),
        profile_(ReadMessage<v1::Profile>(options.profile)),
        question_(ReadMessage<v1::CreatePlanRequest>(options.question)) {}

  void Round(int round) {
    if (round % 5 == 0 && !Upload(round)) return;
    v1::CreatePlanRequest question = question_;
    question.set_job_id(absl::StrCat("job-", number_, "-", round));
    v1::Plan plan;
    if (!record_.Call<v1::Plan>(
            "CreatePlan", [&] { return plans_.CreatePlan(question, patience_); }, &plan)) {
      return;
    }
    record_.Promise(plan.name());
    v1::GetPlanRequest get;
    get.set_name(plan.name());
    v1::Plan again;
    if (!record_.Call<v1::Plan>(
            "GetPlan", [&] { return plans_.GetPlan(get, patience_); }, &again)) {
      return;
    }
    if (again.signed_plan().payload() != plan.signed_plan().payload()) {
      record_.Wrong(absl::StrCat(plan.name(), " is another one than was given"));
    }
    Execute(plan.name());
  }

 private:
  bool Upload(int round) {
    const std::string node = absl::StrCat("node-", number_);
    const std::string parent = absl::StrCat(question_.parent(), "/nodes/", node);
    v1::Profile stored;
    if (!record_.Call<v1::Profile>(
            "UploadProfile",
            [&] {
              v1::Profile profile = profile_;
              profile.set_overlap_slowdown(1.1 + 0.001 * (round % 100));
              return profiles_.Upload(parent, profile, "", patience_);
            },
            &stored)) {
      return false;
    }
    record_.Promise(stored.name());
    // No other caller uploads for this node.
    v1::ListProfilesRequest list;
    list.set_parent(parent);
    list.set_page_size(1);
    v1::ListProfilesResponse newest;
    if (!record_.Call<v1::ListProfilesResponse>(
            "ListProfiles", [&] { return profiles_.List(list, patience_); }, &newest)) {
      return false;
    }
    if (newest.profiles_size() != 1 || newest.profiles(0).name() != stored.name()) {
      record_.Wrong(absl::StrCat(stored.name(), " is not the newest of its node"));
    }
    return true;
  }

  void Execute(const std::string& plan) {
    v1::CreateExecutionRequest create;
    create.set_parent(plan);
    v1::Execution execution;
    if (!record_.Call<v1::Execution>(
            "CreateExecution", [&] { return executions_.Create(create, patience_); }, &execution)) {
      return;
    }
    std::vector<v1::MeasuredWindow> windows;
    for (int step = 0; step < 3; ++step) {
      v1::MeasuredWindow& window = windows.emplace_back();
      window.set_first_step(10 * step);
      window.set_step_count(10);
      window.mutable_median_step_duration()->set_nanos(5000000);
    }
    v1::ReportMetricsResponse reported;
    if (!record_.Call<v1::ReportMetricsResponse>(
            "ReportMetrics",
            [&] { return executions_.Report(execution.name(), windows, patience_); }, &reported)) {
      return;
    }
    v1::CompleteExecutionRequest complete;
    complete.set_name(execution.name());
    if (!record_.Call<v1::Execution>(
            "CompleteExecution", [&] { return executions_.Complete(complete, patience_); },
            &execution)) {
      return;
    }
    record_.Promise(execution.name());
    if (execution.state() != v1::Execution::SUCCEEDED) {
      record_.Wrong(absl::StrCat(execution.name(), " was closed and is open"));
    }
  }

  const int number_;
  Record& record_;
  const CallOptions patience_ = {.timeout = absl::Minutes(2)};
  const std::shared_ptr<grpc::Channel> channel_;
  PlanClient plans_;
  ProfileClient profiles_;
  ExecutionClient executions_;
  const v1::Profile profile_;
  const v1::CreatePlanRequest question_;
};

int Run(const Options& options) {
  Record record(options.journal);
  std::vector<std::thread> threads;
  for (int number = 0; number < options.threads; ++number) {
    threads.emplace_back([&, number] {
      Caller caller(options, number, record);
      for (int round = 0; !stopping; ++round) caller.Round(round);
    });
  }
  for (std::thread& thread : threads) thread.join();
  record.Print();
  return 0;
}

// Whether the servers have it.
absl::Status Look(const std::string& name, PlanClient& plans, ProfileClient& profiles,
                  ExecutionClient& executions) {
  if (absl::StrContains(name, "/executions/")) {
    v1::GetExecutionRequest request;
    request.set_name(name);
    const absl::StatusOr<v1::Execution> execution = executions.Get(request);
    if (!execution.ok()) return execution.status();
    return execution->state() == v1::Execution::SUCCEEDED
               ? absl::OkStatus()
               : absl::DataLossError(absl::StrCat(name, " was closed and is open"));
  }
  if (absl::StrContains(name, "/plans/")) {
    v1::GetPlanRequest request;
    request.set_name(name);
    return plans.GetPlan(request).status();
  }
  v1::GetProfileRequest request;
  request.set_name(name);
  return profiles.Get(request).status();
}

int LookAtAll(const Options& options) {
  const std::shared_ptr<grpc::Channel> channel = *MakeChannel({.target = options.target});
  PlanClient plans(channel);
  ProfileClient profiles(channel);
  ExecutionClient executions(channel);
  std::ifstream journal(options.journal);
  nlohmann::ordered_json object = {{"found", 0}, {"lost", 0}};
  for (std::string name; std::getline(journal, name);) {
    const absl::Status status = Look(name, plans, profiles, executions);
    object[status.ok() ? "found" : "lost"] = object[status.ok() ? "found" : "lost"].get<int>() + 1;
    if (!status.ok()) std::cerr << name << ": " << status << std::endl;
  }
  std::cout << object.dump() << std::endl;
  return object["lost"] == 0 ? 0 : 1;
}

}  // namespace
}  // namespace parplan

int main(int argc, char** argv) {
  signal(SIGTERM, [](int) { parplan::stopping = true; });
  parplan::Options options;
  CLI::App app("Calls several servers that share a store", "replica_load");
  app.require_subcommand(1);
  CLI::App* run = app.add_subcommand("run", "Calls until SIGTERM");
  CLI::App* look = app.add_subcommand("look", "Looks for what a journal says");
  for (CLI::App* command : {run, look}) {
    command->add_option("--target", options.target)->required();
    command->add_option("--journal", options.journal)->required();
  }
  run->add_option("--profile", options.profile)->required();
  run->add_option("--question", options.question)->required();
  run->add_option("--threads", options.threads);
  CLI11_PARSE(app, argc, argv);
  return run->parsed() ? parplan::Run(options) : parplan::LookAtAll(options);
}
