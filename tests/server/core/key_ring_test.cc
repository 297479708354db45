#include "server/core/key_ring.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "tests/proto/envelope/plan_fixture.h"
#include "tests/support/status_matchers.h"
#include "tests/support/test_folder.h"

namespace parplan {
namespace {

constexpr absl::Duration kDay = absl::Hours(24);

// Returns the verdict of the ring's own verifier about a plan that the ring signs at `now`.
absl::Status VerifyOwnPlan(KeyRing& ring, absl::Time now) {
  v1::PlanPayload payload = MakePayload();
  payload.mutable_issue_time()->set_seconds(absl::ToUnixSeconds(now));
  payload.mutable_expire_time()->set_seconds(absl::ToUnixSeconds(now + kDay));
  const absl::StatusOr<v1::SignedPlan> plan = ring.Sign(payload.SerializeAsString(), now);
  if (!plan.ok()) return plan.status();
  return ring.Verifier()->Verify(*plan, ItsAudience(), now).status();
}

// A folder that is not empty stands where the bundle should be, so that it cannot be written.
void BlockBundle(const std::string& path) {
  std::filesystem::remove(path);
  std::filesystem::create_directories(path + "/in-the-way");
}

TEST(KeyRing, TrustsTheKeysItSignsWithThoughTheBundleCannotBeWritten) {
  const std::string folder = MakeTestFolder() + "/data";
  const absl::Time start = IssueTime();
  ASSERT_OK_AND_ASSIGN(KeyStore store, KeyStore::OpenOrCreate(folder, start));
  KeyRing ring(std::move(store), start);
  ASSERT_OK(VerifyOwnPlan(ring, start));
  const std::string bundle = ring.bundle_path();
  BlockBundle(bundle);

  // The rotation is durable, and for the overlap both keys sign.
  const absl::Time due = start + 85 * kDay;
  EXPECT_THAT(ring.RotateIfDue(due).status(), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_OK(VerifyOwnPlan(ring, due));
  // The older key has ended, and the disk refuses still.
  const absl::Time later = due + 8 * kDay;
  EXPECT_OK(VerifyOwnPlan(ring, later));
  EXPECT_FALSE(ring.RotateIfDue(later).ok());
  EXPECT_OK(VerifyOwnPlan(ring, later));

  std::filesystem::remove_all(bundle);
  EXPECT_THAT(ring.RotateIfDue(later), IsOkAndHolds(false));
  EXPECT_TRUE(std::filesystem::is_regular_file(bundle));
}

TEST(KeyRing, TrustsTheKeysItReloadsThoughTheBundleCannotBeWritten) {
  const std::string folder = MakeTestFolder() + "/data";
  const absl::Time start = IssueTime();
  ASSERT_OK_AND_ASSIGN(KeyStore store, KeyStore::OpenOrCreate(folder, start));
  KeyRing ring(std::move(store), start);
  // Another program rotates.
  ASSERT_OK_AND_ASSIGN(KeyStore other, KeyStore::Open(folder, start));
  ASSERT_OK(other.Rotate(start + kDay));
  BlockBundle(ring.bundle_path());
  const absl::Time now = start + 10 * kDay;
  EXPECT_THAT(ring.Reload(now), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_OK(VerifyOwnPlan(ring, now));
}

// `parplan-server keys revoke`, beside a server that runs.
TEST(KeyRing, AKeyThatAnotherProgramRevokedSignsNoMoreASecondLater) {
  const std::string folder = MakeTestFolder() + "/data";
  const absl::Time start = IssueTime();
  ASSERT_OK_AND_ASSIGN(KeyStore store, KeyStore::OpenOrCreate(folder, start));
  const std::string leaked = store.List(start)[0].key_id;
  KeyRing ring(std::move(store), start);
  const int64_t version = ring.TrustVersion(start);
  const v1::SignedPlan before = *ring.Sign(MakePayload().SerializeAsString(), start);

  ASSERT_OK_AND_ASSIGN(KeyStore other, KeyStore::Open(folder, start));
  ASSERT_OK(other.Revoke(leaked, start));
  const absl::Time now = start + absl::Seconds(1);
  EXPECT_GT(ring.TrustVersion(now), version);
  EXPECT_FALSE(ring.Verifier()->Verify(before, ItsAudience(), now).ok());
  ASSERT_OK_AND_ASSIGN(const v1::SignedPlan after,
                       ring.Sign(MakePayload().SerializeAsString(), now));
  ASSERT_EQ(after.signatures_size(), 1);
  EXPECT_NE(after.signatures(0).key_id(), leaked);
  EXPECT_OK(ring.Verifier()->Verify(after, ItsAudience(), now));
  EXPECT_EQ(ring.TrustVersion(now), ring.TrustVersion(now + kDay)) << "nothing changed since";
}

TEST(KeyRing, SaysHowManyKeysSign) {
  const absl::Time start = IssueTime();
  ASSERT_OK_AND_ASSIGN(KeyStore store, KeyStore::OpenOrCreate(MakeTestFolder() + "/data", start));
  ASSERT_OK(store.Rotate(start));
  const KeyRing ring(std::move(store), start);
  EXPECT_THAT(ring.SigningKeyCount(start), IsOkAndHolds(2));
  EXPECT_THAT(ring.SigningKeyCount(start + 7 * kDay), IsOkAndHolds(1));
  EXPECT_THAT(ring.SigningKeyCount(start + 91 * kDay),
              StatusIs(absl::StatusCode::kFailedPrecondition));
}

}  // namespace
}  // namespace parplan
