#include "proto/envelope/key_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_replace.h"
#include "proto/envelope/durable_file.h"
#include "proto/envelope/verifier.h"
#include "tests/proto/envelope/key_store_fixture.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

TEST_F(KeyStoreTest, FirstUseMakesOneKeyAndALaterOneFindsIt) {
  const std::string key_id = MustOpen(start_).List(start_)[0].key_id;
  const KeyStore store = MustOpen(start_ + kDay);
  ASSERT_THAT(store.List(start_), SizeIs(1));
  EXPECT_EQ(store.List(start_)[0], (KeyInfo{key_id, start_, start_ - absl::Hours(1),
                                            start_ + 90 * kDay, KeyStatus::kActive}));
  EXPECT_THAT(SigningKeyIds(store, start_), ElementsAre(key_id));
  EXPECT_EQ(BundleOnDisk().keys(), store.PublicBundle(start_).keys());
  EXPECT_EQ(store.bundle_path(), Path("trust-bundle.jwks.json"));
}

TEST_F(KeyStoreTest, MakesTheFolderItself) {
  folder_ += "/data";
  MustOpen(start_);
  EXPECT_OK(KeyStore::Open(folder_, start_));
  folder_ = std::filesystem::path(folder_).parent_path();
}

TEST_F(KeyStoreTest, OpenAloneMakesNothing) {
  EXPECT_THAT(KeyStore::Open(folder_, start_), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(KeyStoreTest, SecretsAreTheOwnersAndTheBundleIsEverybodys) {
  for (const mode_t mask : {0077, 0000}) {
    const mode_t before = umask(mask);
    const KeyStore store = MustOpen(start_);
    umask(before);
    EXPECT_EQ(ModeOf(Path("keys")), 0700u);
    EXPECT_EQ(ModeOf(PemPath(store.List(start_)[0].key_id)), 0600u);
    EXPECT_EQ(ModeOf(Path("keys/keys.json")), 0600u);
    EXPECT_EQ(ModeOf(store.bundle_path()), 0644u);
    std::filesystem::remove_all(Path("keys"));
    std::filesystem::remove(store.bundle_path());
  }
}

TEST_F(KeyStoreTest, RefusesKeysOthersMayRead) {
  const std::string pem = PemPath(MustOpen(start_).List(start_)[0].key_id);
  for (const mode_t mode : {0640, 0604, 0620, 0610}) {
    ASSERT_EQ(chmod(pem.c_str(), mode), 0);
    EXPECT_THAT(KeyStore::OpenOrCreate(folder_, start_),
                StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("chmod 600 " + pem)));
  }
  ASSERT_EQ(chmod(pem.c_str(), 0400), 0);
  EXPECT_OK(KeyStore::OpenOrCreate(folder_, start_));
  ASSERT_EQ(chmod(Path("keys").c_str(), 0750), 0);
  EXPECT_THAT(KeyStore::OpenOrCreate(folder_, start_),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("chmod 700")));
}

TEST_F(KeyStoreTest, RefusesAKeyUnderAnothersNameAndAKeyThatIsGone) {
  const std::string pem = PemPath(MustOpen(start_).List(start_)[0].key_id);
  ASSERT_OK(WriteDurably(pem, PrivateKey::Generate().ToPem(), 0600));
  EXPECT_THAT(KeyStore::OpenOrCreate(folder_, start_),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("named after")));
  std::filesystem::remove(pem);
  EXPECT_THAT(KeyStore::OpenOrCreate(folder_, start_),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("is gone")));
}

TEST_F(KeyStoreTest, RefusesAStateThatIsDamagedOrGone) {
  MustOpen(start_);
  ASSERT_OK_AND_ASSIGN(const std::string state, ReadWholeFile(Path("keys/keys.json")));
  for (const std::string& damaged :
       {std::string(), state.substr(0, state.size() / 2), std::string(R"({"keys": []})"),
        absl::StrReplaceAll(state, {{"\"active\"", "\"idle\""}}),
        absl::StrReplaceAll(state, {{"\"key_id\": \"", "\"key_id\": \"../"}}),
        absl::StrReplaceAll(state, {{"not_after", "not_later"}})}) {
    ASSERT_OK(WriteDurably(Path("keys/keys.json"), damaged, 0600));
    EXPECT_THAT(KeyStore::OpenOrCreate(folder_, start_),
                StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("backup")))
        << damaged;
  }
  std::filesystem::remove(Path("keys/keys.json"));
  EXPECT_THAT(KeyStore::OpenOrCreate(folder_, start_),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("start over")));
}

TEST_F(KeyStoreTest, ARotationNeverLeavesAVerifierWithoutATrustedSignature) {
  KeyStore store = MustOpen(start_);
  const TrustBundle old_bundle = BundleOnDisk();
  const std::string old_key = SigningKeyIds(store, start_)[0];
  const auto accepts = [&](const TrustBundle& bundle, absl::Time now) {
    return PlanVerifier(bundle).Verify(SignWith(store, now), ItsAudience(), now).ok();
  };

  // Day 50: the next key is published and does not sign.
  const absl::Time published = start_ + 50 * kDay;
  ASSERT_OK_AND_ASSIGN(const std::string new_key, store.Generate(published));
  EXPECT_THAT(store.Generate(published), IsOkAndHolds(new_key)) << "one waits at a time";
  EXPECT_EQ(store.List(published)[1].status, KeyStatus::kNext);
  EXPECT_THAT(SigningKeyIds(store, published), ElementsAre(old_key));
  const TrustBundle next_bundle = BundleOnDisk();
  EXPECT_THAT(next_bundle.keys(), SizeIs(2));

  // Day 55: both sign, and every bundle ever handed out accepts the plans.
  const absl::Time rotated = start_ + 55 * kDay;
  EXPECT_THAT(store.Rotate(rotated), IsOkAndHolds(new_key));
  for (const absl::Duration later : {absl::ZeroDuration(), 3 * kDay, 7 * kDay - absl::Seconds(1)}) {
    EXPECT_THAT(SigningKeyIds(store, rotated + later), ElementsAre(old_key, new_key));
    EXPECT_TRUE(accepts(old_bundle, rotated + later));
    EXPECT_TRUE(accepts(next_bundle, rotated + later));
    EXPECT_TRUE(accepts(BundleOnDisk(), rotated + later));
  }
  const v1::SignedPlan last_of_both = SignWith(store, rotated + 7 * kDay - absl::Seconds(1));

  // Day 62: the old key has retired by itself; its last plan still holds.
  const absl::Time retired = rotated + 7 * kDay;
  EXPECT_THAT(SigningKeyIds(store, retired), ElementsAre(new_key));
  EXPECT_EQ(store.List(retired)[0].status, KeyStatus::kRetired);
  EXPECT_FALSE(accepts(old_bundle, retired));
  EXPECT_TRUE(accepts(next_bundle, retired));
  EXPECT_EQ(store.PublicBundle(retired).keys()[0].status, TrustStatus::kRetired);
  v1::SignedPlan old_signature_only = last_of_both;
  old_signature_only.mutable_signatures()->DeleteSubrange(1, 1);
  EXPECT_OK(PlanVerifier(store.PublicBundle(retired))
                .Verify(old_signature_only, ItsAudience(), retired + absl::Hours(1)));

  // However long ago it retired, the next rotation keeps it.
  ASSERT_OK_AND_ASSIGN(const std::string third_key, store.Rotate(retired + 70 * kDay));
  EXPECT_THAT(SigningKeyIds(store, retired + 70 * kDay), ElementsAre(new_key, third_key));
  EXPECT_TRUE(std::filesystem::exists(PemPath(old_key)));
  EXPECT_NE(BundleOnDisk().Find(old_key), nullptr);
}

TEST_F(KeyStoreTest, OfMoreThanSixteenKeysTheOldestRetiredOnesAreSetAside) {
  KeyStore store = MustOpen(start_);
  const std::string first_key = store.List(start_)[0].key_id;
  absl::Time now = start_;
  for (int i = 0; i < 16; ++i) {
    now += 80 * kDay;
    ASSERT_OK(store.Rotate(now));
  }
  ASSERT_THAT(store.List(now), SizeIs(17));
  ASSERT_OK(store.Rotate(now + 80 * kDay));
  EXPECT_THAT(store.List(now), SizeIs(17));
  EXPECT_EQ(BundleOnDisk().Find(first_key), nullptr);
  EXPECT_FALSE(std::filesystem::exists(PemPath(first_key)));
  EXPECT_TRUE(std::filesystem::exists(PemPath(first_key) + ".dropped")) << "nothing is deleted";
}

// The server starts once with its clock days ahead, and is then right again.
TEST_F(KeyStoreTest, AClockFarAheadOnceCostsNeitherKeysNorPlansNorSigning) {
  for (const int days : {60, 86, 100, 130, 400}) {
    KeyStore store = MustOpen(start_);
    const std::string key_id = store.List(start_)[0].key_id;
    const v1::SignedPlan before = SignWith(store, start_);
    ASSERT_OK(MustOpen(start_ + days * kDay).RotateIfDue(start_ + days * kDay));

    const absl::Time after = start_ + absl::Minutes(5);
    KeyStore again = MustOpen(after);
    ASSERT_OK(again.RotateIfDue(after));
    ASSERT_OK(again.SigningKeys(after)) << days;
    EXPECT_TRUE(std::filesystem::exists(PemPath(key_id))) << days;
    const PlanVerifier verifier(BundleOnDisk());
    EXPECT_OK(verifier.Verify(before, ItsAudience(), after)) << days;
    EXPECT_OK(verifier.Verify(SignWith(again, after), ItsAudience(), after)) << days;
    std::filesystem::remove_all(Path("keys"));
    std::filesystem::remove(Path("trust-bundle.jwks.json"));
  }
}

TEST_F(KeyStoreTest, ANewKeySignsThoughTheClockWasAlmostAnHourAheadWhenItWasMade) {
  const KeyStore store = MustOpen(start_);
  EXPECT_OK(store.SigningKeys(start_ - absl::Minutes(59)));
}

TEST_F(KeyStoreTest, ARevokedKeySignsNothingAndNothingItSignedIsTrusted) {
  KeyStore store = MustOpen(start_);
  const std::string leaked = store.List(start_)[0].key_id;
  const v1::SignedPlan forged = SignWith(store, start_);
  ASSERT_OK_AND_ASSIGN(const std::string second, store.Rotate(start_));
  const v1::SignedPlan of_both = SignWith(store, start_);
  const TrustBundle before = BundleOnDisk();
  ASSERT_OK(PlanVerifier(before).Verify(forged, ItsAudience(), start_));

  const absl::Time now = start_ + absl::Hours(1);
  EXPECT_THAT(store.Revoke(leaked.substr(0, 8), now), IsOkAndHolds(leaked));
  EXPECT_THAT(SigningKeyIds(store, now), ElementsAre(second));
  EXPECT_EQ(store.List(now)[0].status, KeyStatus::kRevoked);
  const TrustBundle after = BundleOnDisk();
  const absl::StatusOr<VerifiedPlan> refused =
      PlanVerifier(after).Verify(forged, ItsAudience(), now);
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kPermissionDenied,
                                HasSubstr(leaked + " of the plan was revoked at "
                                                   "2026-03-01T13:00:00Z")));
  EXPECT_EQ(ReasonOf(refused), Reason::kSignatureInvalid);
  EXPECT_OK(PlanVerifier(after).Verify(of_both, ItsAudience(), now));
  EXPECT_EQ(after.Find(leaked)->revoke_time, now);
  EXPECT_GT(after.version()->sequence, before.version()->sequence);

  // For good: through a restart, a rotation, its window and a second revocation.
  ASSERT_OK(store.Rotate(now));
  KeyStore reopened = MustOpen(now + 100 * kDay);
  EXPECT_EQ(reopened.List(now + 100 * kDay)[0].status, KeyStatus::kRevoked);
  EXPECT_THAT(reopened.Revoke(leaked, now + 100 * kDay), IsOkAndHolds(leaked));
  EXPECT_EQ(BundleOnDisk().Find(leaked)->revoke_time, now);
}

TEST_F(KeyStoreTest, RevokingTheOnlyKeyMakesTheWaitingOrANewOneSign) {
  KeyStore store = MustOpen(start_);
  const std::string first = store.List(start_)[0].key_id;
  ASSERT_OK(store.Revoke(first, start_));
  ASSERT_THAT(SigningKeyIds(store, start_), SizeIs(1));
  const std::string second = SigningKeyIds(store, start_)[0];
  EXPECT_NE(second, first);
  ASSERT_OK_AND_ASSIGN(const std::string waiting, store.Generate(start_));
  ASSERT_OK(store.Revoke(second, start_));
  EXPECT_THAT(SigningKeyIds(store, start_), ElementsAre(waiting));
}

// Else a key that leaked would go on to sign, with "wait until retired ones are dropped".
TEST_F(KeyStoreTest, AKeyOfAFullBundleCanBeRevoked) {
  KeyStore store = MustOpen(start_);
  std::vector<std::string> revoked;
  const auto revoke = [&] {
    revoked.push_back(SigningKeyIds(store, start_)[0]);
    return store.Revoke(revoked.back(), start_);
  };
  while (revoked.size() + 1 < TrustBundle::kMaxKeyCount) ASSERT_OK(revoke());
  const v1::SignedPlan forged = SignWith(store, start_);
  ASSERT_THAT(BundleOnDisk().keys(), SizeIs(TrustBundle::kMaxKeyCount));
  for (int k = 0; k < 2; ++k) {
    ASSERT_OK(revoke());
    ASSERT_THAT(SigningKeyIds(store, start_), SizeIs(1));
    EXPECT_NE(SigningKeyIds(store, start_)[0], revoked.back());
  }
  const TrustBundle bundle = BundleOnDisk();
  EXPECT_THAT(PlanVerifier(bundle).Verify(forged, ItsAudience(), start_),
              StatusIs(absl::StatusCode::kPermissionDenied));
  EXPECT_THAT(bundle.keys(), SizeIs(TrustBundle::kMaxKeyCount));
  // The oldest made room.
  for (size_t k = 0; k < revoked.size(); ++k) {
    EXPECT_EQ(bundle.Find(revoked[k]) == nullptr, k < 2) << k;
  }
  EXPECT_THAT(SigningKeyIds(MustOpen(start_), start_), SizeIs(1));
}

// The key that waits takes the place, so no plan of another loses its key.
TEST_F(KeyStoreTest, AFullBundleKeepsAllItsKeysWhereOneWaits) {
  KeyStore store = MustOpen(start_);
  while (BundleOnDisk().keys().size() + 1 < TrustBundle::kMaxKeyCount) {
    ASSERT_OK(store.Revoke(SigningKeyIds(store, start_)[0], start_));
  }
  ASSERT_OK_AND_ASSIGN(const std::string waiting, store.Generate(start_));
  const TrustBundle before = BundleOnDisk();
  ASSERT_THAT(before.keys(), SizeIs(TrustBundle::kMaxKeyCount));
  ASSERT_OK(store.Revoke(SigningKeyIds(store, start_)[0], start_));
  EXPECT_THAT(SigningKeyIds(store, start_), ElementsAre(waiting));
  const TrustBundle after = BundleOnDisk();
  for (const auto& key : before.keys()) EXPECT_NE(after.Find(key.public_key.key_id()), nullptr);
}

TEST_F(KeyStoreTest, RevokesOnlyAKeyThatIsNamedWell) {
  KeyStore store = MustOpen(start_);
  const std::string key_id = store.List(start_)[0].key_id;
  for (const std::string& name :
       {std::string(), key_id.substr(0, 7), key_id + "0", std::string(64, '0')}) {
    const absl::StatusOr<std::string> revoked = store.Revoke(name, start_);
    EXPECT_THAT(revoked, StatusIs(absl::StatusCode::kNotFound, HasSubstr("keys list"))) << name;
    EXPECT_EQ(ReasonOf(revoked), Reason::kResourceNotFound);
  }
  EXPECT_THAT(SigningKeyIds(store, start_), ElementsAre(key_id));
}

TEST_F(KeyStoreTest, RotatingByItselfKeepsAKeyAtHandForYears) {
  KeyStore store = MustOpen(start_);
  int rotations = 0;
  for (int day = 0; day < 3 * 365; ++day) {
    const absl::Time now = start_ + day * kDay;
    const TrustBundle yesterdays = BundleOnDisk();
    ASSERT_OK_AND_ASSIGN(const bool rotated, store.RotateIfDue(now));
    rotations += rotated;
    ASSERT_OK(store.SigningKeys(now));
    ASSERT_OK(PlanVerifier(yesterdays).Verify(SignWith(store, now), ItsAudience(), now));
    ASSERT_LE(store.List(now).size(), 16u);
  }
  // Every 83 days: 90 less the overlap.
  EXPECT_EQ(rotations, 13);
}

TEST_F(KeyStoreTest, AnUnattendedKeySignsNoMoreAfterItsWindow) {
  KeyStore store = MustOpen(start_);
  EXPECT_THAT(
      store.SigningKeys(start_ + 90 * kDay),
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("parplan-server keys rotate")));
  EXPECT_THAT(store.SigningKeys(start_ - absl::Hours(1) - absl::Seconds(1)),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("clock")));
  EXPECT_THAT(store.RotateIfDue(start_ + 90 * kDay), IsOkAndHolds(true));
  EXPECT_THAT(SigningKeyIds(store, start_ + 90 * kDay), SizeIs(1));
}

TEST_F(KeyStoreTest, SoManyKeysSignAtOnceAndNoMore) {
  KeyStore store = MustOpen(start_);
  for (int i = 0; i < 3; ++i) ASSERT_OK(store.Rotate(start_));
  EXPECT_THAT(SigningKeyIds(store, start_), SizeIs(4));
  EXPECT_THAT(store.Rotate(start_),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("2026-03-08T12:00:00Z")));
  EXPECT_OK(store.Rotate(start_ + 7 * kDay));
}

TEST_F(KeyStoreTest, AClockSetBackStillLeavesAGoodStore) {
  KeyStore store = MustOpen(start_);
  ASSERT_OK(store.Rotate(start_ - 365 * kDay));
  EXPECT_OK(KeyStore::OpenOrCreate(folder_, start_));
}

}  // namespace
}  // namespace parplan
