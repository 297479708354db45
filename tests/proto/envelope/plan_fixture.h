// A small plan, keys known beforehand, and the reading of refusals.

#ifndef PARPLAN_TESTS_PROTO_ENVELOPE_PLAN_FIXTURE_H_
#define PARPLAN_TESTS_PROTO_ENVELOPE_PLAN_FIXTURE_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/error.h"
#include "parplan/v1/plan.pb.h"
#include "proto/envelope/private_key.h"
#include "proto/envelope/trust_bundle.h"
#include "proto/envelope/verifier.h"

namespace parplan {

// 2026-03-01T12:00:00Z, when the plan of `MakePayload` is issued; it expires a
// day later.
absl::Time IssueTime();

// The private key of a 32-byte seed of RFC 8032, in hexadecimal.
PrivateKey KeyFromSeed(absl::string_view seed_hex);

// The keys of tests 1 and 2 of RFC 8032 §7.1.
PrivateKey FirstKey();
PrivateKey SecondKey();

// A bundle of these keys, each good from 30 days before to 60 after `IssueTime`.
TrustBundle Trusting(const std::vector<const PrivateKey*>& keys);

// A plan for the job `job-7` on `node-a` and `node-b` of the cluster `atlas`.
v1::PlanPayload MakePayload();

// Whom the plan of `MakePayload` is for.
ExpectedAudience ItsAudience();

// The payload, serialized and signed.
v1::SignedPlan Sign(const v1::PlanPayload& payload, const std::vector<const PrivateKey*>& keys);

// The reason of a refusal; nothing for OK or an error without one.
std::optional<Reason> ReasonOf(const absl::Status& status);

template <typename T>
std::optional<Reason> ReasonOf(const absl::StatusOr<T>& result) {
  return ReasonOf(result.status());
}

}  // namespace parplan

#endif  // PARPLAN_TESTS_PROTO_ENVELOPE_PLAN_FIXTURE_H_
