// Needs no server: what a sidecar refuses by its trust bundle it refuses before it calls.

#include "clients/kubernetes/plan_keeper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/error.h"
#include "clients/kubernetes/plan_fetcher.h"
#include "clients/kubernetes/plan_volume.h"
#include "proto/envelope/envelope_json.h"
#include "proto/envelope/trust_bundle.h"
#include "tests/proto/envelope/plan_fixture.h"
#include "tests/support/status_matchers.h"
#include "tests/support/test_folder.h"

namespace parplan::sidecar {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr absl::Duration kBundleLife = absl::Hours(24);

// A plan of a job on a volume, and a bundle that ends a day after the plan was issued.
class PlanKeeperTest : public testing::Test {
 protected:
  PlanKeeperTest() {
    v1::PlanPayload payload = MakePayload();
    payload.set_job_id("job");
    files_.folder = absl::StrCat(folder_, "/volume");
    wanted_.trust_file = absl::StrCat(folder_, "/trust.json");
    wanted_.file = absl::StrCat(folder_, "/plan.json");
    const std::string envelope = EnvelopeToJson(Sign(payload, {&key_}));
    Write(wanted_.file, envelope);
    WriteBundle(1, end_);
    absl::StatusOr<std::unique_ptr<PlanVolume>> volume = PlanVolume::Open(files_.folder);
    EXPECT_OK(volume.status());
    if (volume.ok()) {
      EXPECT_OK((*volume)->Write({{kPlanFile, envelope}}));
    }
    // Nobody listens there.
    server_.target = absl::StrCat("unix:", folder_, "/nobody");
  }

  static void Write(const std::string& path, const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
  }
  void WriteBundle(int64_t sequence, absl::Time end) {
    const TrustBundle bundle =
        *TrustBundle::Create(Trusting({&key_}).keys(), {sequence, IssueTime(), end});
    Write(wanted_.trust_file,
          bundle.WithSignatures({{key_.public_key().key_id(), key_.Sign(bundle.SignedBytes())}})
              .ToJson());
  }

  const std::string folder_ = MakeTestFolder();
  const PrivateKey key_ = FirstKey();
  const absl::Time end_ = IssueTime() + kBundleLife;
  PlanFilesOptions files_;
  PlanWanted wanted_;
  ChannelOptions server_;
};

TEST_F(PlanKeeperTest, AnExpiredTrustBundleIsNamedAndTakesNoNewPlan) {
  ASSERT_OK_AND_ASSIGN(const auto keeper, PlanKeeper::Open(files_, wanted_, server_));
  EXPECT_EQ(keeper->trust_expiry(), end_);
  const std::string plan = keeper->payload().plan();
  // The bundle still holds, but no server answers.
  EXPECT_EQ(keeper->Look(end_ - absl::Seconds(1), absl::Milliseconds(1)), LookOutcome::kFailed);
  EXPECT_EQ(keeper->Look(end_, absl::Milliseconds(1)), LookOutcome::kRefused);
  // The plan that was verified before stays in use.
  EXPECT_EQ(keeper->payload().plan(), plan);
  EXPECT_EQ(keeper->generation(), 1);
  WriteBundle(2, end_ + kBundleLife);
  EXPECT_EQ(keeper->Look(end_, absl::Milliseconds(1)), LookOutcome::kFailed);
  EXPECT_EQ(keeper->trust_expiry(), end_ + kBundleLife);
}

TEST_F(PlanKeeperTest, TheErrorSaysWhichBundleExpiredWhenAndWhatToDo) {
  PlanFetcher fetcher(wanted_, server_);
  const absl::Status status = fetcher.Fetch(end_, absl::Seconds(1)).status();
  EXPECT_THAT(
      status,
      StatusIs(absl::StatusCode::kPermissionDenied,
               AllOf(HasSubstr(absl::StrCat("`", wanted_.trust_file, "`, number 1")),
                     HasSubstr(absl::FormatTime(absl::RFC3339_sec, end_, absl::UTCTimeZone())),
                     HasSubstr("parplan-server keys bundle"))));
  ASSERT_TRUE(GetErrorDetail(status).has_value());
  EXPECT_EQ(GetErrorDetail(status)->reason, Reason::kSignatureInvalid);
}

// Also one that no look has read yet.
TEST_F(PlanKeeperTest, AnOlderBundleThanThatOfTheStartIsRefused) {
  WriteBundle(3, end_);
  ASSERT_OK_AND_ASSIGN(const auto keeper, PlanKeeper::Open(files_, wanted_, server_));
  WriteBundle(2, end_ + kBundleLife);
  EXPECT_EQ(keeper->Look(IssueTime(), absl::Milliseconds(1)), LookOutcome::kRefused);
  EXPECT_EQ(keeper->trust_expiry(), end_);
}

}  // namespace
}  // namespace parplan::sidecar
