#include "proto/envelope/key_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_replace.h"
#include "proto/envelope/durable_file.h"
#include "proto/envelope/signer.h"
#include "proto/envelope/verifier.h"
#include "tests/proto/envelope/plan_fixture.h"
#include "tests/support/file_size_limit.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

constexpr absl::Duration kDay = absl::Hours(24);

class KeyStoreTest : public testing::Test {
 protected:
  KeyStoreTest() {
    std::string name = testing::TempDir() + "/key-store-XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~KeyStoreTest() override { std::filesystem::remove_all(folder_); }

  KeyStore MustOpen(absl::Time now) {
    absl::StatusOr<KeyStore> store = KeyStore::OpenOrCreate(folder_, now);
    EXPECT_OK(store);
    return *std::move(store);
  }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  std::string PemPath(const std::string& key_id) const { return Path("keys/" + key_id + ".pem"); }

  mode_t ModeOf(const std::string& path) const {
    struct stat facts {};
    EXPECT_EQ(stat(path.c_str(), &facts), 0) << path;
    return facts.st_mode & 07777;
  }

  // The bundle as a verifier finds it on disk.
  TrustBundle BundleOnDisk() const {
    const absl::StatusOr<std::string> json = ReadWholeFile(Path("trust-bundle.jwks.json"));
    EXPECT_OK(json);
    absl::StatusOr<TrustBundle> bundle = TrustBundle::FromJson(*json);
    EXPECT_OK(bundle);
    return *std::move(bundle);
  }

  std::string folder_;
  const absl::Time start_ = IssueTime();
};

std::vector<std::string> SigningKeyIds(const KeyStore& store, absl::Time now) {
  std::vector<std::string> key_ids;
  const auto keys = store.SigningKeys(now);
  if (!keys.ok()) return key_ids;
  for (const PrivateKey* key : *keys) key_ids.push_back(key->public_key().key_id());
  return key_ids;
}

// A plan the store signs at `now`, valid for a day.
v1::SignedPlan SignWith(const KeyStore& store, absl::Time now) {
  v1::PlanPayload payload = MakePayload();
  payload.mutable_issue_time()->set_seconds(absl::ToUnixSeconds(now));
  payload.mutable_expire_time()->set_seconds(absl::ToUnixSeconds(now + kDay));
  return Sign(payload, *store.SigningKeys(now));
}

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

// Whoever accepted one bundle follows to each later one, whatever happened in between, and to none
// before.
TEST_F(KeyStoreTest, BundlesFollowEachOtherAndNeverGoBack) {
  KeyStore store = MustOpen(start_);
  std::vector<TrustBundle> bundles = {BundleOnDisk()};
  const auto keep = [&](absl::Time now) {
    bundles.push_back(BundleOnDisk());
    EXPECT_OK(bundles.back().CheckLife(now));
  };
  absl::Time now = start_;
  ASSERT_OK(store.Generate(now));
  keep(now);
  ASSERT_OK(store.Revoke(store.List(now)[0].key_id, now += kDay));
  keep(now);
  ASSERT_OK(store.Rotate(now += kDay));
  keep(now);
  ASSERT_OK(store.Rotate(now -= 3 * kDay));
  keep(now);
  ASSERT_OK(store.Reload(now += 40 * kDay));
  keep(now);
  ASSERT_OK(store.Revoke(SigningKeyIds(store, now)[0], now += kDay));
  keep(now);
  for (size_t i = 0; i < bundles.size(); ++i) {
    for (size_t j = 0; j < bundles.size(); ++j) {
      const absl::Status followed = bundles[i].CheckSuccessor(bundles[j]);
      EXPECT_EQ(followed.ok(), i <= j) << i << " " << j << " " << followed;
    }
  }
}

TEST_F(KeyStoreTest, ABundleIsWrittenAgainOnlyIfSomethingChangedOrAThirdOfItsLifeIsOver) {
  KeyStore store = MustOpen(start_);
  const BundleVersion first = *BundleOnDisk().version();
  EXPECT_EQ(first.issue_time, start_);
  EXPECT_EQ(first.expire_time, start_ + 97 * kDay);
  for (const int day : {0, 1, 32}) {
    ASSERT_OK(store.Reload(start_ + day * kDay));
    MustOpen(start_ + day * kDay);
    EXPECT_EQ(BundleOnDisk().version(), first) << day;
  }
  ASSERT_OK(store.Reload(start_ + 33 * kDay));
  EXPECT_GT(BundleOnDisk().version()->sequence, first.sequence);
  EXPECT_EQ(BundleOnDisk().version()->expire_time, start_ + 130 * kDay);
}

TEST_F(KeyStoreTest, TheNumberOfABundleGrowsThoughItsFileIsLostOrTheFolderOld) {
  MustOpen(start_);
  const TrustBundle lost = BundleOnDisk();
  std::filesystem::remove(Path("trust-bundle.jwks.json"));
  MustOpen(start_);
  EXPECT_GT(BundleOnDisk().version()->sequence, lost.version()->sequence);
  // A backup of day 0 is restored on day 10, after changes that it does not have.
  ASSERT_OK_AND_ASSIGN(const std::string backup, ReadWholeFile(Path("keys/keys.json")));
  ASSERT_OK(MustOpen(start_ + 9 * kDay).Rotate(start_ + 9 * kDay));
  const TrustBundle before = BundleOnDisk();
  std::filesystem::remove(Path("trust-bundle.jwks.json"));
  ASSERT_OK(WriteDurably(Path("keys/keys.json"), backup, 0600));
  MustOpen(start_ + 10 * kDay);
  EXPECT_GT(BundleOnDisk().version()->sequence, before.version()->sequence);
}

TEST_F(KeyStoreTest, AStoreOfAnEarlierReleaseOpensAndGetsAVersion) {
  const KeyStore store = MustOpen(start_);
  ASSERT_OK_AND_ASSIGN(std::string state, ReadWholeFile(Path("keys/keys.json")));
  const size_t begin = state.find("\"bundle_sequence\"");
  state.erase(begin, state.find("\"keys\"") - begin);
  ASSERT_OK(WriteDurably(Path("keys/keys.json"), state, 0600));
  ASSERT_OK(WriteDurably(store.bundle_path(), store.PublicBundle(start_).ToJson(), 0644));
  EXPECT_FALSE(BundleOnDisk().version().has_value());
  MustOpen(start_);
  EXPECT_TRUE(BundleOnDisk().version().has_value());
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

TEST_F(KeyStoreTest, ChangesOfAnotherProcessAreSeenAndKept) {
  KeyStore server = MustOpen(start_);
  KeyStore planctl = MustOpen(start_);
  ASSERT_OK_AND_ASSIGN(const std::string second, planctl.Rotate(start_));
  EXPECT_THAT(SigningKeyIds(server, start_), SizeIs(1));
  ASSERT_OK(server.Reload(start_));
  EXPECT_EQ(server.List(start_), planctl.List(start_));
  ASSERT_OK(planctl.Rotate(start_));
  ASSERT_OK(server.Rotate(start_));
  EXPECT_THAT(server.List(start_), SizeIs(4)) << "nobody's key was lost";
}

TEST_F(KeyStoreTest, AWriterStoppedBeforeTheRenameChangedNothing) {
  const std::string key_id = MustOpen(start_).List(start_)[0].key_id;
  const PrivateKey unborn = PrivateKey::Generate();
  const std::string unborn_path = PemPath(unborn.public_key().key_id());
  ASSERT_OK(WriteDurably(unborn_path + kStagedSuffix, unborn.ToPem(), 0600));
  ASSERT_OK(WriteDurably(Path("keys/keys.json") + kStagedSuffix, "{\"keys\": [", 0600));
  ASSERT_OK(WriteDurably(Path("trust-bundle.jwks.json") + kStagedSuffix, "{", 0644));

  const KeyStore store = MustOpen(start_);
  EXPECT_THAT(SigningKeyIds(store, start_), ElementsAre(key_id));
  EXPECT_EQ(BundleOnDisk().keys(), store.PublicBundle(start_).keys());
  EXPECT_FALSE(std::filesystem::exists(unborn_path + kStagedSuffix)) << "no secret is left about";
}

TEST_F(KeyStoreTest, AWriterStoppedBetweenTwoFilesIsMadeUpFor) {
  MustOpen(start_);
  // After the key, before the state: the key was never in use.
  const PrivateKey unborn = PrivateKey::Generate();
  ASSERT_OK(WriteDurably(PemPath(unborn.public_key().key_id()), unborn.ToPem(), 0600));
  EXPECT_THAT(MustOpen(start_).List(start_), SizeIs(1));

  // After the state, before the bundle: the bundle is made anew.
  ASSERT_OK_AND_ASSIGN(const std::string stale, ReadWholeFile(Path("trust-bundle.jwks.json")));
  ASSERT_OK(MustOpen(start_).Rotate(start_));
  ASSERT_OK(WriteDurably(Path("trust-bundle.jwks.json"), stale, 0644));
  const KeyStore store = MustOpen(start_);
  EXPECT_EQ(BundleOnDisk().keys(), store.PublicBundle(start_).keys());
  EXPECT_THAT(BundleOnDisk().keys(), SizeIs(2));
}

TEST_F(KeyStoreTest, KilledAtAnyMomentItOpensWithEveryKeyItAnnounced) {
  MustOpen(start_);
  absl::Time now = start_;
  for (int round = 0; round < 12; ++round) {
    int pipe_ends[2];
    ASSERT_EQ(pipe(pipe_ends), 0);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      // Rotates for ever, a week at a time, and announces each new key.
      for (absl::Time time = now;; time += 8 * kDay) {
        absl::StatusOr<KeyStore> store = KeyStore::OpenOrCreate(folder_, time);
        if (!store.ok()) _exit(1);
        const absl::StatusOr<std::string> key_id = store->Rotate(time);
        if (!key_id.ok() || write(pipe_ends[1], key_id->data(), 64) != 64) _exit(1);
      }
    }
    close(pipe_ends[1]);
    // Kills it after some announcements, wherever it is then.
    std::string key_id(64, '\0');
    for (int i = 0; i <= round % 3; ++i) {
      size_t have = 0;
      while (have < 64) {
        const ssize_t count = read(pipe_ends[0], key_id.data() + have, 64 - have);
        ASSERT_GT(count, 0) << "the rotation failed";
        have += static_cast<size_t>(count);
      }
      now += 8 * kDay;
    }
    kill(child, SIGKILL);
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
    close(pipe_ends[0]);

    const KeyStore store = MustOpen(now);
    EXPECT_NE(BundleOnDisk().Find(key_id), nullptr) << "announced, then lost";
    EXPECT_EQ(BundleOnDisk().keys(), store.PublicBundle(now).keys());
    // The child may have run ahead; time passes it before the next round.
    for (const KeyInfo& key : store.List(now)) now = std::max(now, key.not_before + 8 * kDay);
  }
}

TEST_F(KeyStoreTest, AFullDiskStopsNoServerThatHasABundle) {
  const KeyStore first = MustOpen(start_);
  // The bundle is to be written again, with a later end.
  const absl::Time later = start_ + 40 * kDay;
  {
    const FileSizeLimit limit(10);
    ASSERT_OK_AND_ASSIGN(KeyStore again, KeyStore::OpenOrCreate(folder_, later));
    EXPECT_EQ(SigningKeyIds(again, later), SigningKeyIds(first, later));
    EXPECT_FALSE(again.RotateIfDue(later).ok());
    // Commands say at once that they cannot do their work.
    EXPECT_FALSE(KeyStore::Open(folder_, later).ok());
  }
  const int64_t before = BundleOnDisk().version()->sequence;
  EXPECT_OK(MustOpen(later).RotateIfDue(later));
  EXPECT_GT(BundleOnDisk().version()->sequence, before);
}

}  // namespace
}  // namespace parplan
