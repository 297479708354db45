#include <netinet/in.h>
#include <prometheus/registry.h>
#include <sys/socket.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/service/metrics/exposer.h"
#include "base/system/posix_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/metrics/prometheus_observer.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(PrometheusObserver, CountsUnderNamesAndLabelsOfTheDocument) {
  PrometheusObserver observer({"galvatron-base", "dp"}, {"CreatePlan", "GetPlan"});
  observer.CallFinished("CreatePlan", absl::StatusCode::kResourceExhausted, Reason::kQueueFull,
                        absl::Milliseconds(3));
  observer.QueueChanged(3, 2);
  observer.CacheLookedUp(CacheKind::kPlan, true);
  SearchReport search;
  search.planner = "dp";
  search.outcome = SearchOutcome::kCheckFailed;
  search.expanded_state_count = 41;
  observer.SearchFinished(search);
  observer.UploadFinished(std::nullopt, true, 100);
  observer.PlanVerified(VerifyOutcome::kBadSignature);
  observer.ExecutionClosed("lab", true, 1.03);
  observer.PeakMemoryMeasured("lab", 0.99);
  observer.PhaseMeasured(10, 1.2);
  observer.PhaseMeasured(77, 1.2);
  observer.MemoryItemMeasured(4, 1.0);
  observer.AgentsChanged(7, 2);
  observer.ClusterAgentsChanged("lab", 6);
  observer.StoreCalled("put_plan", absl::StatusCode::kUnavailable, absl::Seconds(2));
  observer.SigningKeysSeen(absl::FromUnixSeconds(1900000000));
  observer.SigningKeysCounted(2);
  observer.StoreTried(false);
  observer.AuditFailed(5);
  observer.AnswerBrokenOff();
  observer.SetLimits(64, 3);
  observer.LeaseEnded(LeaseOutcome::kExpired, absl::Seconds(3));
  observer.LeaseRefused(LeaseRefusalKind::kNodeBusy);
  const std::string text = observer.Text();
  for (const char* line :
       {"parplan_requests_total{code=\"RESOURCE_EXHAUSTED\",method=\"CreatePlan\"} 1",
        "parplan_rejects_total{reason=\"QUEUE_FULL\"} 1",
        "parplan_searches_waiting 3",
        "parplan_searches_running 2",
        "parplan_cache_lookups_total{cache=\"plan\",result=\"hit\"} 1",
        "parplan_searches_total{outcome=\"check_failed\",planner=\"dp\"} 1",
        "parplan_search_states_total{planner=\"dp\"} 41",
        "parplan_uploads_total{result=\"stored\"} 1",
        "parplan_plan_verifications_total{verdict=\"bad_signature\"} 1",
        "parplan_executions_closed_total{cluster=\"lab\",state=\"succeeded\"} 1",
        "parplan_step_duration_ratio_bucket{cluster=\"lab\",le=\"1.05\"} 1",
        "parplan_peak_memory_ratio_count{cluster=\"lab\"} 1",
        "parplan_phase_duration_ratio_count{phase=\"gradient_sync\"} 1",
        "parplan_memory_item_ratio_count{item=\"activations\"} 1",
        "parplan_agents_connected{cluster=\"lab\"} 6",

        "parplan_store_calls_total{code=\"UNAVAILABLE\",operation=\"put_plan\"} 1",
        "parplan_store_call_duration_seconds_sum{operation=\"put_plan\"} 2",
        "parplan_signing_key_expiry_timestamp_seconds 1900000000",
        "parplan_signing_keys 2",
        "parplan_store_writable 0",
        "parplan_audit_failures_total 5",
        "parplan_unread_answers_total 1",
        "parplan_search_queue_limit 64",
        "parplan_search_workers 3",
        "parplan_leases_active 2",
        "parplan_leases_ended_total{outcome=\"expired\"} 1",
        "parplan_lease_refusals_total{cause=\"node_busy\"} 1"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

TEST(PrometheusObserver, ANameThatIsNoPlannerMakesNoSeriesOfItsOwn) {
  PrometheusObserver observer({"dp"}, {"CreatePlan"});
  PlanReport plan;
  plan.planner = "name-of-somebody";
  observer.PlanIssued(plan);
  EXPECT_THAT(observer.Text(), Not(HasSubstr("name-of-somebody")));
  EXPECT_THAT(observer.Text(), HasSubstr("parplan_plans_issued_total{planner=\"other\"} 1"));
}

TEST(PrometheusObserver, ANameThatIsNoMethodMakesNoSeriesOfItsOwn) {
  PrometheusObserver observer({"dp"}, {"CreatePlan"});
  EXPECT_THAT(observer.Text(), Not(HasSubstr("method=\"other\"")));
  for (const char* method : {"made-up", "made-up-too"}) {
    observer.CallStarted(method);
    observer.CallFinished(method, absl::StatusCode::kOk, std::nullopt, absl::Seconds(1));
  }
  EXPECT_THAT(observer.Text(), Not(HasSubstr("made-up")));
  EXPECT_THAT(observer.Text(), HasSubstr("parplan_requests_total{code=\"OK\",method=\"other\"} 2"));
  EXPECT_THAT(observer.Text(), HasSubstr("parplan_requests_in_flight{method=\"other\"} 0"));
}

TEST(PrometheusObserver, EveryOperationOfTheStoreIsALabelFromTheStart) {
  PrometheusObserver observer({"dp"}, {"CreatePlan"});
  for (const char* operation : kStoreOperations) {
    EXPECT_THAT(observer.Text(), HasSubstr(std::string("parplan_store_calls_total{code=") +
                                           "\"UNAVAILABLE\",operation=\"" + operation + "\"} 0"));
  }
}

TEST(PrometheusObserver, ReportsTheGainOfPlansThatWereCompared) {
  PrometheusObserver observer({"dp"}, {"CreatePlan"});
  PlanReport plan;
  observer.PlanIssued(plan);
  EXPECT_THAT(observer.Text(), HasSubstr("parplan_baseline_gain_ratio_count 0"));
  plan.baseline_gain = 1.25;
  observer.PlanIssued(plan);
  EXPECT_THAT(observer.Text(), HasSubstr("parplan_baseline_gain_ratio_sum 1.25"));
  EXPECT_THAT(observer.Text(), HasSubstr("parplan_baseline_gain_ratio_bucket{le=\"1.3\"} 1"));
}

TEST(MetricsExposer, TakesAFreePortAndSaysWhenAPortIsTaken) {
  PrometheusObserver observer({"dp"}, {"CreatePlan"});
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<MetricsExposer> exposer,
                       MetricsExposer::Start("127.0.0.1:0", {observer.registry(), nullptr}));
  EXPECT_GT(exposer->port(), 0);
  const std::string taken = "127.0.0.1:" + std::to_string(exposer->port());
  const absl::Status refused =
      MetricsExposer::Start(taken, {observer.registry(), nullptr}).status();
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kUnavailable, HasSubstr(taken)));
  // The store has nothing to do with it.
  EXPECT_FALSE(GetErrorDetail(refused).has_value());
  EXPECT_THAT(MetricsExposer::Start("9464", {observer.registry(), nullptr}),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

// Connects to a port of this machine.
FileDescriptor ConnectTo(int port) {
  FileDescriptor descriptor(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(descriptor.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  return descriptor;
}

// Left alone, the thread that accepts looks every 2 s whether it is to end.
TEST(MetricsExposer, EndsWithoutWaitingForAConnection) {
  const PrometheusObserver observer({"dp"}, {"CreatePlan"});
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 20; ++i) {
    for (const char* const address : {"127.0.0.1:0", "0.0.0.0:0"}) {
      EXPECT_OK(MetricsExposer::Start(address, {observer.registry()}));
    }
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
}

TEST(MetricsExposer, AnswersBesideRequestsThatNeverEnd) {
  PrometheusObserver observer({"dp"}, {"CreatePlan"});
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<MetricsExposer> exposer,
                       MetricsExposer::Start("127.0.0.1:0", {observer.registry()}));
  std::vector<FileDescriptor> held;
  for (int index = 0; index < 30; ++index) {
    held.push_back(ConnectTo(exposer->port()));
    EXPECT_EQ(WriteAll(held.back().get(), "GET /metr"), 0);
  }
  const FileDescriptor scrape = ConnectTo(exposer->port());
  EXPECT_EQ(WriteAll(scrape.get(), "GET /metrics HTTP/1.0\r\n\r\n"), 0);
  ASSERT_OK_AND_ASSIGN(const std::string answer,
                       ReadDescriptor(scrape.get(), "scrape", size_t{1} << 20));
  EXPECT_THAT(answer, HasSubstr("parplan_searches_waiting"));
}

}  // namespace
}  // namespace parplan
