#include "tests/executor/exec/exec_world.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "base/check.h"
#include "executor/device/backend/device_backend.h"
#include "proto/envelope/envelope_json.h"
#include "proto/envelope/trust_bundle.h"
#include "proto/wire/json_file.h"
#include "proto/wire/model_wire.h"
#include "proto/wire/topology_wire.h"
#include "tests/executor/apply/apply_cases.h"
#include "tests/planner/program/program_cases.h"
#include "tests/proto/envelope/plan_fixture.h"

extern char** environ;

namespace parplan {
namespace {

constexpr int64_t kBatch = 8;

Topology HereWith(int rank_count) {
  const DeviceFacts facts = *MakeCpuBackend()->Describe(0);
  absl::StatusOr<Topology> topology =
      Topology::Create("tests",
                       {{.node_group_id = "here",
                         .device_kind = facts.kind,
                         .node_count = 1,
                         .node_names = {"this-node"},
                         .devices_per_node = rank_count,
                         .device_memory = facts.memory}},
                       {{.tier_id = "node", .reach_device_count = rank_count}});
  PARPLAN_CHECK(topology.ok());
  return *std::move(topology);
}

}  // namespace

ExecWorld::ExecWorld(int rank_count)
    : rank_count_(rank_count),
      folder_(MakeTestFolder()),
      model_(SmallGpt(2)),
      topology_(HereWith(rank_count)) {
  const PrivateKey key = FirstKey();
  const absl::StatusOr<TrustBundle> trust =
      TrustBundle::Create({{.public_key = key.public_key(),
                            .not_before = absl::Now() - absl::Hours(24),
                            .not_after = absl::Now() + absl::Hours(48)}});
  PARPLAN_CHECK(trust.ok());
  Write("trust.json", trust->ToJson());
  Write("model.json", ToReadableJson(ModelToProto(model_)));
  Write("topology.json", ToReadableJson(TopologyToProto(topology_)));
}

std::string ExecWorld::PathOf(const std::string& name) const {
  return absl::StrCat(folder_, "/", name);
}

std::string ExecWorld::Write(const std::string& name, const std::string& text) {
  std::ofstream(PathOf(name), std::ios::binary) << text;
  return PathOf(name);
}

std::string ExecWorld::WritePlan(const std::string& name, const Plan& plan,
                                 const std::function<void(v1::PlanPayload&)>& change) {
  v1::PlanPayload payload = PayloadOf(plan, model_, topology_);
  payload.set_plan(absl::StrCat("clusters/tests/plans/", name));
  payload.add_node_names("this-node");
  payload.mutable_issue_time()->set_seconds(absl::ToUnixSeconds(absl::Now()));
  payload.mutable_expire_time()->set_seconds(absl::ToUnixSeconds(absl::Now()) + 86400);
  if (change) change(payload);
  const PrivateKey key = FirstKey();
  return Write(name + ".dsse.json", EnvelopeToJson(Sign(payload, {&key})));
}

std::vector<std::string> ExecWorld::Arguments(const std::string& plan_file) const {
  return {"--plan",     plan_file,
          "--trust",    PathOf("trust.json"),
          "--model",    PathOf("model.json"),
          "--topology", PathOf("topology.json")};
}

std::vector<std::string> ExecWorld::LaunchArguments(const std::string& plan_file) const {
  std::vector<std::string> arguments = Arguments(plan_file);
  // Tests run side by side; bound ranks of all of them would share the first cores.
  arguments.insert(arguments.end(), {"--ranks", absl::StrCat(rank_count_), "--no-pin"});
  return arguments;
}

Plan ExecWorld::DataParallel() const {
  return PlanOf(model_, 2, {4}, {{.data_parallel_degree = 2}}, kBatch, 2);
}

Plan ExecWorld::Pipeline() const { return PlanOf(model_, 2, {2, 2}, {{}}, kBatch, 4); }

ExecProcess::ExecProcess(const std::vector<std::string>& arguments,
                         const std::map<std::string, std::string>& environment) {
  // One pipe for both outputs.
  ChildOptions options = {.argv = {"/bin/sh", "-c", "exec \"$0\" \"$@\" 1>&2", PARPLAN_EXEC}};
  options.argv.insert(options.argv.end(), arguments.begin(), arguments.end());
  for (char** entry = environ; *entry != nullptr; ++entry) options.environment.emplace_back(*entry);
  for (const auto& [name, value] : environment) {
    options.environment.push_back(absl::StrCat(name, "=", value));
  }
  absl::StatusOr<ChildProcess> child = StartChild(options);
  PARPLAN_CHECK(child.ok());
  child_ = *std::move(child);
}

ExecProcess::~ExecProcess() {
  if (has_ended_) return;
  ::kill(child_.pid, SIGKILL);
  ::waitpid(child_.pid, nullptr, 0);
}

bool ExecProcess::Read() {
  if (!child_.errors.is_open()) return false;
  pollfd readable = {.fd = child_.errors.descriptor(), .events = POLLIN, .revents = 0};
  if (::poll(&readable, 1, /*timeout=*/-1) < 0) return true;
  std::array<char, 4096> bytes;
  const ssize_t count = ::read(readable.fd, bytes.data(), bytes.size());
  if (count > 0) output_.append(bytes.data(), count);
  if (count == 0) child_.errors.Close();
  return true;
}

bool ExecProcess::AwaitLine(const std::string& text) {
  while (true) {
    const size_t found = output_.find(text, looked_at_);
    const size_t end = found == std::string::npos ? found : output_.find('\n', found);
    if (end != std::string::npos) {
      looked_at_ = end;
      return true;
    }
    if (!Read()) return false;
  }
}

int ExecProcess::Wait() {
  // Its ranks have its output too, so this ends with the last of them.
  while (Read()) {
  }
  int status = 0;
  ::waitpid(child_.pid, &status, 0);
  has_ended_ = true;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

std::map<int, pid_t> ExecProcess::Ranks() const {
  std::map<int, pid_t> ranks;
  for (const auto& thread :
       std::filesystem::directory_iterator(absl::StrCat("/proc/", child_.pid, "/task"))) {
    std::istringstream children(ReadText(thread.path().string() + "/children"));
    for (pid_t pid = 0; children >> pid;) {
      const std::string environment = ReadText(absl::StrCat("/proc/", pid, "/environ"));
      for (const absl::string_view variable : absl::StrSplit(environment, '\0')) {
        int rank = 0;
        if (absl::StartsWith(variable, "PARPLAN_RANK=") &&
            absl::SimpleAtoi(variable.substr(sizeof("PARPLAN_RANK=") - 1), &rank)) {
          ranks[rank] = pid;
        }
      }
    }
  }
  return ranks;
}

std::string ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

bool IsRunning(pid_t pid) {
  // "PID (NAME) STATE ..."
  const std::string stat = ReadText(absl::StrCat("/proc/", pid, "/stat"));
  const size_t name_end = stat.rfind(')');
  return name_end != std::string::npos && name_end + 2 < stat.size() && stat[name_end + 2] != 'Z';
}

}  // namespace parplan
