// A core that several identities ask, for tests of quotas and of fairness between them.

#ifndef PARPLAN_TESTS_SERVER_CORE_QUOTA_FIXTURE_H_
#define PARPLAN_TESTS_SERVER_CORE_QUOTA_FIXTURE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/server/core/core_fixture.h"
#include "tests/support/status_matchers.h"

namespace parplan {

// The answer to a question that is asked while others are.
using Answer = std::future<absl::StatusOr<SharedPlan>>;

// A core whose callers have names, numbered questions, and profiles to upload.
class QuotaTest : public CoreTest {
 protected:
  // Returns a call of the identity `cn:{name}`, which has this role everywhere.
  std::shared_ptr<CallContext> CallOf(const std::string& name, Role role = Role::kPlanner) const {
    HeldRole held;
    held.role = role;
    held.clusters.has_all = true;
    held.nodes.has_all = role == Role::kAgent;
    const Identity identity =
        Identity::OfCertificate({.common_names = {name}}, {NameSource::kCommonName});
    return CallContext::Create(
        "call", absl::InfiniteDuration(), clock,
        std::make_shared<const Caller>(identity, std::vector<HeldRole>{held}));
  }

  Answer AskLaterAs(const std::string& name, const v1::CreatePlanRequest& request) {
    return AskLater(request, CallOf(name));
  }
  absl::StatusOr<SharedPlan> AskAs(const std::string& name, const v1::CreatePlanRequest& request) {
    return AskLaterAs(name, request).get();
  }

  // Question `number`, which no other number asks.
  v1::CreatePlanRequest Numbered(int number) const {
    v1::CreatePlanRequest request = Question();
    request.mutable_spec()->set_global_batch_size(8 * number);
    return request;
  }

  // Uploads the measurements as the agent of a node.
  absl::Status UploadAs(const std::string& name, const std::string& request_id) {
    const v1::Profile profile = SyntheticProfile({});
    v1::UploadProfileRequest first;
    v1::UploadHeader& header = *first.mutable_header();
    header.set_parent("clusters/synthetic/nodes/node-1");
    header.set_request_id(request_id);
    *header.mutable_provenance() = profile.provenance();
    header.set_device_kind(profile.device_kind());
    header.set_devices_per_node(profile.devices_per_node());
    header.set_precision(profile.precision());
    v1::UploadProfileRequest second;
    *second.mutable_measurements()->mutable_collective_timings() = profile.collective_timings();
    const auto session = core().profiles().StartUpload(CallOf(name, Role::kAgent));
    for (const v1::UploadProfileRequest& request : {first, second}) {
      const absl::Status added = session->Add(request);
      if (!added.ok()) return added;
    }
    return session->Finish().status();
  }

  static void ExpectExceeded(const absl::Status& status, const std::string& quota,
                             const std::string& holder, const std::string& limit) {
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted, testing::HasSubstr(quota)));
    EXPECT_EQ(ReasonOf(status), Reason::kQuotaExceeded);
    EXPECT_EQ(FactOf(status, "quota"), quota);
    EXPECT_EQ(FactOf(status, "holder"), holder);
    EXPECT_EQ(FactOf(status, "limit"), limit);
    EXPECT_GT(GetRetryDelay(status).value_or(absl::ZeroDuration()), absl::ZeroDuration());
  }
};

}  // namespace parplan

#endif  // PARPLAN_TESTS_SERVER_CORE_QUOTA_FIXTURE_H_
