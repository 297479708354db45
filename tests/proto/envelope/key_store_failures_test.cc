// Key stores that several processes change, whose writers are stopped, and whose disk is full.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>

#include "tests/proto/envelope/key_store_fixture.h"
#include "tests/support/file_size_limit.h"

namespace parplan {
namespace {

using testing::ElementsAre;
using testing::SizeIs;

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
