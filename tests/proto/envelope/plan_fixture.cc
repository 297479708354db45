#include "tests/proto/envelope/plan_fixture.h"

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "proto/envelope/signer.h"

namespace parplan {

absl::Time IssueTime() { return absl::FromUnixSeconds(1772366400); }

PrivateKey KeyFromSeed(absl::string_view seed_hex) {
  // PKCS#8 of an Ed25519 key (RFC 8410 §7): this prefix, then the seed.
  const std::string der =
      absl::HexStringToBytes(absl::StrCat("302e020100300506032b657004220420", seed_hex));
  absl::StatusOr<PrivateKey> key =
      PrivateKey::FromPem(absl::StrCat("-----BEGIN ", "PRIVATE KEY-----\n", absl::Base64Escape(der),
                                       "\n-----END ", "PRIVATE KEY-----\n"));
  PARPLAN_CHECK(key.ok());
  return *std::move(key);
}

PrivateKey FirstKey() {
  return KeyFromSeed("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60");
}

PrivateKey SecondKey() {
  return KeyFromSeed("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb");
}

TrustBundle Trusting(const std::vector<const PrivateKey*>& keys) {
  std::vector<TrustedKey> trusted;
  for (const PrivateKey* key : keys) {
    trusted.push_back(TrustedKey{key->public_key(), IssueTime() - absl::Hours(24 * 30),
                                 IssueTime() + absl::Hours(24 * 60)});
  }
  absl::StatusOr<TrustBundle> bundle = TrustBundle::Create(std::move(trusted));
  PARPLAN_CHECK(bundle.ok());
  return *std::move(bundle);
}

v1::PlanPayload MakePayload() {
  v1::PlanPayload payload;
  payload.set_plan("clusters/atlas/plans/p1");
  payload.set_cluster("atlas");
  payload.set_job_id("job-7");
  payload.add_node_names("node-a");
  payload.add_node_names("node-b");
  payload.set_topology_digest(std::string(64, 'a'));
  payload.mutable_issue_time()->set_seconds(absl::ToUnixSeconds(IssueTime()));
  payload.mutable_expire_time()->set_seconds(absl::ToUnixSeconds(IssueTime()) + 86400);
  payload.set_device_count(2);
  payload.set_global_batch_size(8);
  payload.set_micro_batch_count(4);
  payload.add_stages()->set_rank_count(2);
  return payload;
}

ExpectedAudience ItsAudience() { return {"atlas", "job-7", "node-b", std::string(64, 'a')}; }

v1::SignedPlan Sign(const v1::PlanPayload& payload, const std::vector<const PrivateKey*>& keys) {
  absl::StatusOr<v1::SignedPlan> signed_plan = SignPayload(payload.SerializeAsString(), keys);
  PARPLAN_CHECK(signed_plan.ok());
  return *std::move(signed_plan);
}

std::optional<Reason> ReasonOf(const absl::Status& status) {
  const std::optional<ErrorDetail> detail = GetErrorDetail(status);
  if (!detail) return std::nullopt;
  return detail->reason;
}

}  // namespace parplan
