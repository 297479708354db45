// The bundle of trusted keys that a key store writes: its versions and its end.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/proto/envelope/key_store_fixture.h"

namespace parplan {
namespace {

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

}  // namespace
}  // namespace parplan
