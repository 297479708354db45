// Every cell of the table of roles over a real connection, and what owners see of each other.

#include "server/access/access_table.h"

#include <gmock/gmock.h>
#include <grpcpp/client_context.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "clients/cpp/status_from_grpc.h"
#include "parplan/v1/agent_service.pb.h"
#include "parplan/v1/calibration_service.pb.h"
#include "parplan/v1/plan_service.grpc.pb.h"
#include "server/access/token_verifier.h"
#include "server/access/web_key_set.h"
#include "server/rpc/method_names.h"
#include "tests/server/rpc/reason_matcher.h"
#include "tests/server/rpc/rpc_harness.h"
#include "tests/server/rpc/small_world.h"
#include "tests/support/raw_call.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using absl::StatusCode;
using testing::ElementsAre;
using testing::SizeIs;

// Callers of the tests have no certificate, so their identity is `anonymous`.
Grant GrantTo(Role role, const std::string& identity = "anonymous") {
  Grant grant;
  grant.identities = {identity};
  grant.role = std::string(RoleName(role));
  grant.clusters = {"lab"};
  if (role == Role::kAgent) grant.nodes = {"node-0"};
  if (role == Role::kExecutor) grant.jobs = {"mine"};
  return grant;
}

// Another caller than that of the channel, with all roles that make plans.
std::shared_ptr<CallContext> CallOfAnother() {
  HeldRole held;
  held.role = Role::kOperator;
  held.clusters.has_all = true;
  const Identity identity =
      Identity::OfCertificate({.common_names = {"another"}}, {NameSource::kCommonName});
  return CallContext::Create("of-another", absl::InfiniteDuration(), Clock::Real(),
                             std::make_shared<const Caller>(identity, std::vector<HeldRole>{held}));
}

v1::CreatePlanRequest QuestionOf(const std::string& job) {
  v1::CreatePlanRequest request = SmallQuestion();
  request.set_job_id(job);
  return request;
}

// Asks in the process, as another caller.
v1::Plan PlanOfAnother(RpcHarness& harness, const v1::CreatePlanRequest& request) {
  absl::StatusOr<SharedPlan> plan;
  std::mutex mutex;
  std::condition_variable changed;
  bool is_done = false;
  harness.core().plans().CreatePlan(CallOfAnother(), request,
                                    [&](const absl::StatusOr<SharedPlan>& answer) {
                                      const std::lock_guard<std::mutex> lock(mutex);
                                      plan = answer;
                                      is_done = true;
                                      changed.notify_one();
                                    });
  std::unique_lock<std::mutex> lock(mutex);
  changed.wait(lock, [&is_done] { return is_done; });
  EXPECT_OK(plan.status());
  return plan.ok() ? **plan : v1::Plan();
}

std::string ExecutionOf(RpcHarness& harness, const std::string& plan) {
  v1::CreateExecutionRequest request;
  request.set_parent(plan);
  request.set_request_id("first");
  const absl::StatusOr<v1::Execution> execution = harness.core().executions().Create(request);
  EXPECT_OK(execution.status());
  return execution.ok() ? execution->name() : "";
}

// Things of one owner.
struct Things {
  std::string cluster;
  std::string node;
  std::string job;
  std::string plan;
  std::string execution;
};

// Returns the bytes of a request of each method about these things.
std::map<std::string, std::string> RequestsAbout(const Things& things) {
  std::map<std::string, std::string> requests;
  const auto named = [&]<typename Request>(const char* method, Request request,
                                           const std::string& name) {
    request.set_name(name);
    requests[method] = request.SerializeAsString();
  };
  const auto below = [&]<typename Request>(const char* method, Request request,
                                           const std::string& parent) {
    request.set_parent(parent);
    requests[method] = request.SerializeAsString();
  };
  const std::string node = absl::StrCat(things.cluster, "/nodes/", things.node);
  const std::string calibration = absl::StrCat(things.cluster, "/calibrations/none");
  v1::ConnectAgentRequest connect;
  connect.mutable_hello()->set_node(node);
  connect.mutable_hello()->set_instance_id("one");
  connect.mutable_hello()->set_host("127.0.0.1");
  connect.mutable_hello()->set_device_kind("CPU");
  connect.mutable_hello()->set_device_count(1);
  requests["ConnectAgent"] = connect.SerializeAsString();
  below("ListAgents", v1::ListAgentsRequest(), things.cluster);
  below("UploadCalibration", v1::UploadCalibrationRequest(), things.cluster);
  named("GetCalibration", v1::GetCalibrationRequest(), calibration);
  below("ListCalibrations", v1::ListCalibrationsRequest(), things.cluster);
  below("ActivateCalibration", v1::ActivateCalibrationRequest(), things.cluster);
  below("GetActiveCalibration", v1::GetActiveCalibrationRequest(), things.cluster);
  below("CreateExecution", v1::CreateExecutionRequest(), things.plan);
  v1::ReportMetricsRequest report;
  report.set_execution(things.execution);
  requests["ReportMetrics"] = report.SerializeAsString();
  named("CompleteExecution", v1::CompleteExecutionRequest(), things.execution);
  named("FailExecution", v1::FailExecutionRequest(), things.execution);
  named("GetExecution", v1::GetExecutionRequest(), things.execution);
  below("ListExecutions", v1::ListExecutionsRequest(), things.plan);
  below("ShapePlan", v1::ShapePlanRequest(), things.cluster);
  v1::CreatePlanRequest question = QuestionOf(things.job);
  question.set_parent(things.cluster);
  question.mutable_spec()->mutable_topology()->set_cluster(
      things.cluster.substr(things.cluster.find('/') + 1));
  requests["CreatePlan"] = question.SerializeAsString();
  requests["SearchPlan"] = question.SerializeAsString();
  named("GetPlan", v1::GetPlanRequest(), things.plan);
  below("ListPlans", v1::ListPlansRequest(), things.cluster);
  requests["VerifyPlan"] = "";
  v1::ExportPlanRequest exported;
  exported.set_target("megatron");
  named("ExportPlan", exported, things.plan);
  requests["GetCapabilities"] = "";
  v1::UploadProfileRequest upload;
  upload.mutable_header()->set_parent(node);
  upload.mutable_header()->set_request_id("r");
  requests["UploadProfile"] = upload.SerializeAsString();
  named("GetProfile", v1::GetProfileRequest(), absl::StrCat(node, "/profiles/none"));
  below("ListProfiles", v1::ListProfilesRequest(), node);
  named("DeleteProfile", v1::DeleteProfileRequest(), absl::StrCat(node, "/profiles/none"));
  return requests;
}

// A measured cluster with things of the caller and of another one.
class AccessWorld {
 public:
  AccessWorld() {
    EXPECT_OK(harness.UploadSmallProfile().status());
    harness.Allow({GrantTo(Role::kOperator)});
    const absl::StatusOr<v1::Plan> plan = harness.plans().CreatePlan(QuestionOf("mine"));
    EXPECT_OK(plan.status());
    mine = {kCluster, "node-0", "mine", plan.ok() ? plan->name() : "", ""};
    mine.execution = ExecutionOf(harness, mine.plan);
    theirs = {kCluster, "node-9", "theirs", PlanOfAnother(harness, QuestionOf("theirs")).name(),
              ""};
    theirs.execution = ExecutionOf(harness, theirs.plan);
    far = mine;
    far.cluster = "clusters/far";
    for (std::string* const name : {&far.plan, &far.execution}) {
      name->replace(0, std::string(kCluster).size(), far.cluster);
    }
  }

  // Returns the status of a call with these bytes.
  absl::Status Call(const AccessRow& row, const std::string& bytes) {
    return FromGrpcStatus(CallRaw(
        harness.channel(), absl::StrCat("/parplan.v1.", row.service, "/", row.method), bytes));
  }

  bool IsAllowed(const AccessRow& row, const std::string& bytes) {
    const absl::Status status = Call(row, bytes);
    if (status.code() != StatusCode::kPermissionDenied) return true;
    EXPECT_THAT(status, IsRefused(StatusCode::kPermissionDenied, Reason::kRoleRequired))
        << row.method;
    return false;
  }

  RpcHarness harness;
  Things mine;
  Things theirs;
  Things far;
};

TEST(Access, TheTableHasARowForEveryMethodOfTheContract) {
  std::set<std::string> methods;
  for (const AccessRow& row : AccessTable()) methods.insert(std::string(row.method));
  const std::vector<std::string> names = MethodNames();
  EXPECT_EQ(methods, std::set<std::string>(names.begin(), names.end()));
}

TEST(Access, EachCellOfTheTableIsEnforced) {
  for (int i = 0; i < kRoleCount; ++i) {
    const Role role = static_cast<Role>(i);
    AccessWorld world;
    world.harness.Allow({GrantTo(role)});
    std::map<std::string, std::string> mine = RequestsAbout(world.mine);
    std::map<std::string, std::string> theirs = RequestsAbout(world.theirs);
    std::map<std::string, std::string> far = RequestsAbout(world.far);
    for (const AccessRow& row : AccessTable()) {
      const std::string cell = absl::StrCat(row.method, " by ", RoleName(role));
      const std::string method(row.method);
      ASSERT_TRUE(mine.contains(method)) << "write a request of the new method";
      const Access access = row.is_public ? Access::kAny : row.of(role);
      // These two are about nothing that is stored, and a list of plans has what is one's own.
      const bool is_everywhere = method == "VerifyPlan" || method == "GetCapabilities";
      const bool is_list = method == "ListPlans";
      EXPECT_EQ(world.IsAllowed(row, mine[method]), access != Access::kNone) << cell;
      EXPECT_EQ(world.IsAllowed(row, theirs[method]),
                access == Access::kAny || (is_list && access == Access::kOwn))
          << cell << " on another's";
      EXPECT_EQ(world.IsAllowed(row, far[method]), is_everywhere && access == Access::kAny)
          << cell << " in another cluster";
    }
  }
}

TEST(Access, WithoutARoleOnlyPublicMethodsAnswer) {
  AccessWorld world;
  world.harness.Allow({});
  std::map<std::string, std::string> mine = RequestsAbout(world.mine);
  for (const AccessRow& row : AccessTable()) {
    EXPECT_EQ(world.IsAllowed(row, mine[std::string(row.method)]), row.is_public) << row.method;
  }
}

TEST(Access, APlanOfAnotherLooksLikeOneThatDoesNotExist) {
  AccessWorld world;
  world.harness.Allow({GrantTo(Role::kPlanner)});
  v1::GetPlanRequest request;
  request.set_name(world.theirs.plan);
  const absl::Status theirs = world.harness.plans().GetPlan(request).status();
  request.set_name("clusters/lab/plans/none");
  const absl::Status none = world.harness.plans().GetPlan(request).status();
  EXPECT_EQ(theirs.code(), none.code());
  std::string message(theirs.message());
  const size_t at = message.find(world.theirs.plan);
  ASSERT_NE(at, std::string::npos);
  message.replace(at, world.theirs.plan.size(), request.name());
  EXPECT_EQ(message, none.message());
}

TEST(Access, ListsHoldWhatIsOnesOwn) {
  AccessWorld world;
  const auto listed = [&world] {
    v1::ListPlansRequest request;
    request.set_parent(kCluster);
    const absl::StatusOr<v1::ListPlansResponse> response = world.harness.plans().ListPlans(request);
    EXPECT_OK(response.status());
    std::set<std::string> names;
    if (response.ok()) {
      for (const v1::Plan& plan : response->plans()) names.insert(plan.name());
    }
    return names;
  };
  const std::set<std::string> both = {world.mine.plan, world.theirs.plan};
  for (const Role role : {Role::kReader, Role::kOperator}) {
    world.harness.Allow({GrantTo(role)});
    EXPECT_EQ(listed(), both);
  }
  for (const Role role : {Role::kPlanner, Role::kExecutor}) {
    world.harness.Allow({GrantTo(role)});
    EXPECT_EQ(listed(), std::set<std::string>{world.mine.plan});
  }
  Grant every_job = GrantTo(Role::kExecutor);
  every_job.jobs = {"*"};
  world.harness.Allow({every_job});
  EXPECT_EQ(listed(), both);
}

// `anonymous` means the same thing whatever a caller writes into its call.
TEST(Access, MetadataDoesNotChangeTheCaller) {
  RpcHarness harness;
  harness.Allow({GrantTo(Role::kOperator, "cn:boss")});
  const auto stub = v1::PlanService::NewStub(harness.channel());
  grpc::ClientContext context;
  for (const char* key : {"x-identity", "x-forwarded-client-cert", "authorization"}) {
    context.AddMetadata(key, "cn:boss");
  }
  v1::ListPlansRequest request;
  request.set_parent(kCluster);
  v1::ListPlansResponse response;
  EXPECT_THAT(FromGrpcStatus(stub->ListPlans(&context, request, &response)),
              IsRefused(StatusCode::kPermissionDenied, Reason::kRoleRequired));
  EXPECT_EQ(harness.records().back().identity, "anonymous");
}

// The settings allow no such server; somebody on the way may have read the token.
TEST(Access, ATokenOverTcpWithoutTlsIsRefused) {
  // The point of RFC 7517, appendix A.1.
  ASSERT_OK_AND_ASSIGN(
      WebKeySet keys,
      WebKeySet::Create(R"({"keys": [{"kty": "EC", "crv": "P-256", "kid": "1", "use": "sig",
                             "x": "MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4",
                             "y": "4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM"}]})",
                        "keys"));
  RpcHarness harness;
  harness.Allow({GrantTo(Role::kOperator)},
                std::make_shared<const TokenVerifier>(
                    TokenVerifier::Rules{.issuer = "i", .audience = "a"}, std::move(keys)));
  const auto stub = v1::PlanService::NewStub(harness.channel());
  grpc::ClientContext context;
  context.AddMetadata("authorization", "Bearer x");
  v1::ListPlansRequest request;
  request.set_parent(kCluster);
  v1::ListPlansResponse response;
  EXPECT_THAT(FromGrpcStatus(stub->ListPlans(&context, request, &response)),
              StatusIs(StatusCode::kUnauthenticated, testing::HasSubstr("without TLS")));
  grpc::ClientContext without_token;
  EXPECT_TRUE(stub->ListPlans(&without_token, request, &response).ok());
}

TEST(Audit, EachChangeAndRefusalHasOneLineAndReadsHaveNone) {
  for (const Role role : {Role::kOperator, Role::kReader}) {
    AccessWorld world;
    world.harness.Allow({GrantTo(role)});
    std::map<std::string, std::string> theirs = RequestsAbout(world.theirs);
    for (const AccessRow& row : AccessTable()) {
      const std::string method(row.method);
      const size_t before = world.harness.audit().records().size();
      const absl::Status status = world.Call(row, theirs[method]);
      const std::vector<AuditRecord> records = world.harness.audit().records();
      const bool is_refused = status.code() == StatusCode::kPermissionDenied;
      const bool makes_plan = method == "CreatePlan" || method == "SearchPlan";
      // The operator's first question makes a plan of its own, the second finds it.
      const bool has_line = is_refused || (row.changes && method != "SearchPlan");
      ASSERT_EQ(records.size(), before + (has_line ? 1 : 0)) << method;
      if (!has_line) continue;
      const AuditRecord& record = records.back();
      EXPECT_EQ(record.event, is_refused   ? AuditRecord::Event::kRefusal
                              : makes_plan ? AuditRecord::Event::kSignature
                                           : AuditRecord::Event::kCall);
      EXPECT_EQ(record.identity, "anonymous");
      EXPECT_EQ(record.role, RoleName(role));
      EXPECT_EQ(record.method, method);
      EXPECT_THAT(record.resource, testing::StartsWith("clusters/lab"));
      EXPECT_EQ(record.request_id, world.harness.records().back().request_id);
    }
  }
}

TEST(Audit, ASignatureNamesPlanJobAndKeys) {
  RpcHarness harness;
  ASSERT_OK(harness.UploadSmallProfile());
  ASSERT_OK_AND_ASSIGN(const v1::Plan plan, harness.plans().CreatePlan(QuestionOf("4711")));
  ASSERT_OK(harness.plans().CreatePlan(QuestionOf("4711")));  // From the cache.
  const std::vector<AuditRecord> records = harness.audit().records();
  ASSERT_THAT(records, SizeIs(2));
  EXPECT_EQ(records[0].method, "UploadProfile");
  EXPECT_EQ(records[0].resource, kNode);
  EXPECT_EQ(records[1].event, AuditRecord::Event::kSignature);
  EXPECT_EQ(records[1].plan, plan.name());
  EXPECT_EQ(records[1].job_id, "4711");
  EXPECT_THAT(records[1].key_ids, ElementsAre(plan.signed_plan().signatures(0).key_id()));
}

// More calls wait for the disk of the audit log than gRPC has threads.
TEST(Audit, ADiskThatHangsDelaysOnlyWhatItRecords) {
  RpcHarness harness;
  ASSERT_OK(harness.UploadSmallProfile());
  // The answer is known from here on: what is left to do is to sign, record and store.
  ASSERT_OK(harness.plans().CreatePlan(QuestionOf("first")));
  harness.audit().Hold(true);
  std::vector<std::thread> callers;
  for (int i = 0; i < 64; ++i) {
    callers.emplace_back([&harness, i] {
      EXPECT_OK(harness.plans().CreatePlan(QuestionOf(absl::StrCat("job-", i))));
    });
  }
  harness.audit().AwaitHeld();
  for (int i = 0; i < 20; ++i) EXPECT_OK(harness.plans().GetCapabilities());
  harness.audit().Hold(false);
  for (std::thread& caller : callers) caller.join();
  EXPECT_THAT(harness.audit().records(), SizeIs(2 + 64));
}

TEST(Audit, NothingChangesThatCannotBeRecorded) {
  AccessWorld world;
  std::map<std::string, std::string> mine = RequestsAbout(world.mine);
  v1::CreatePlanRequest question = QuestionOf("new");
  mine["CreatePlan"] = mine["SearchPlan"] = question.SerializeAsString();
  world.harness.Allow({GrantTo(Role::kOperator), GrantTo(Role::kAgent)});
  world.harness.audit().SetBroken(true);
  const int plan_count = world.harness.store().put_plan_count();
  for (const AccessRow& row : AccessTable()) {
    const absl::Status status = world.Call(row, mine[std::string(row.method)]);
    const auto detail = GetErrorDetail(status);
    EXPECT_EQ(detail.has_value() && detail->reason == Reason::kAuditUnavailable, row.changes)
        << row.method << " " << status;
  }
  EXPECT_EQ(world.harness.store().put_plan_count(), plan_count);
  world.harness.audit().SetBroken(false);
  EXPECT_OK(world.harness.plans().CreatePlan(question).status());
}

}  // namespace
}  // namespace parplan
