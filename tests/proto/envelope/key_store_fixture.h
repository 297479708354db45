// A key store in a folder of its own, for tests of the store.

#ifndef PARPLAN_TESTS_PROTO_ENVELOPE_KEY_STORE_FIXTURE_H_
#define PARPLAN_TESTS_PROTO_ENVELOPE_KEY_STORE_FIXTURE_H_

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "proto/envelope/durable_file.h"
#include "proto/envelope/key_store.h"
#include "proto/envelope/signer.h"
#include "tests/proto/envelope/plan_fixture.h"
#include "tests/support/status_matchers.h"

namespace parplan {

inline constexpr absl::Duration kDay = absl::Hours(24);

// A folder of its own, empty at first, and the time at which tests begin.
class KeyStoreTest : public testing::Test {
 protected:
  KeyStoreTest() {
    std::string name = testing::TempDir() + "/key-store-XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~KeyStoreTest() override { std::filesystem::remove_all(folder_); }

  // Opens the store, which is made if the folder has none.
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

  // Returns the bundle as a verifier finds it on disk.
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

// Returns the ids of the keys that sign at `now`; none if none can.
inline std::vector<std::string> SigningKeyIds(const KeyStore& store, absl::Time now) {
  std::vector<std::string> key_ids;
  const auto keys = store.SigningKeys(now);
  if (!keys.ok()) return key_ids;
  for (const PrivateKey* key : *keys) key_ids.push_back(key->public_key().key_id());
  return key_ids;
}

// Returns a plan that the store signs at `now`, valid for a day.
inline v1::SignedPlan SignWith(const KeyStore& store, absl::Time now) {
  v1::PlanPayload payload = MakePayload();
  payload.mutable_issue_time()->set_seconds(absl::ToUnixSeconds(now));
  payload.mutable_expire_time()->set_seconds(absl::ToUnixSeconds(now + kDay));
  return Sign(payload, *store.SigningKeys(now));
}

}  // namespace parplan

#endif  // PARPLAN_TESTS_PROTO_ENVELOPE_KEY_STORE_FIXTURE_H_
