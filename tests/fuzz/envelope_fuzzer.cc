// Reads whatever comes as an envelope in JSON, as one in protobuf, as a trust
// bundle, and as a payload that a trusted key did sign. The first byte picks.

#include <google/protobuf/stubs/logging.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "proto/envelope/envelope_json.h"
#include "proto/envelope/signer.h"
#include "proto/envelope/trust_bundle.h"
#include "proto/envelope/verdict.h"
#include "proto/envelope/verifier.h"

namespace parplan {
namespace {

// A key and a verifier that trusts it from 2001 to 2033.
struct Fixture {
  Fixture()
      : key(PrivateKey::Generate()),
        verifier(*TrustBundle::Create({{key.public_key(), absl::FromUnixSeconds(1'000'000'000),
                                        absl::FromUnixSeconds(2'000'000'000)}})) {
    google::protobuf::SetLogHandler(nullptr);
  }
  PrivateKey key;
  PlanVerifier verifier;
};

const absl::Time kNow = absl::FromUnixSeconds(1'772'366'400);

void ReadEnvelope(const Fixture& fixture, const v1::SignedPlan& plan) {
  // Only the holder of the key can make an envelope that is accepted.
  const auto verified = fixture.verifier.Verify(plan, {"atlas", "job", "node", "digest"}, kNow);
  PARPLAN_CHECK(VerdictOf(verified.status()) == v1::VerifyPlanResponse::BAD_SIGNATURE);
}

void ReadEnvelopeJson(const Fixture& fixture, const std::string& text) {
  const absl::StatusOr<v1::SignedPlan> plan = EnvelopeFromJson(text);
  if (!plan.ok()) {
    PARPLAN_CHECK(VerdictOf(plan.status()) == v1::VerifyPlanResponse::MALFORMED);
    return;
  }
  const absl::StatusOr<v1::SignedPlan> again = EnvelopeFromJson(EnvelopeToJson(*plan));
  PARPLAN_CHECK(again.ok() && again->SerializeAsString() == plan->SerializeAsString());
  ReadEnvelope(fixture, *plan);
}

void ReadTrustBundle(const std::string& text) {
  const absl::StatusOr<TrustBundle> bundle = TrustBundle::FromJson(text);
  if (!bundle.ok()) return;
  const absl::StatusOr<TrustBundle> again = TrustBundle::FromJson(bundle->ToJson());
  PARPLAN_CHECK(again.ok() && again->keys() == bundle->keys());
}

void ReadSignedPayload(const Fixture& fixture, std::string payload) {
  const absl::StatusOr<v1::SignedPlan> plan = SignPayload(payload, {&fixture.key});
  PARPLAN_CHECK(plan.ok());
  const auto verified = fixture.verifier.Verify(*plan, {}, kNow);
  if (verified.ok()) {
    PARPLAN_CHECK(verified->bytes() == payload && !verified->payload().stages().empty());
    return;
  }
  const v1::VerifyPlanResponse::Verdict verdict = VerdictOf(verified.status());
  PARPLAN_CHECK(verdict == v1::VerifyPlanResponse::MALFORMED ||
                verdict == v1::VerifyPlanResponse::EXPIRED);
}

}  // namespace
}  // namespace parplan

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const parplan::Fixture fixture;
  if (size == 0) return 0;
  const std::string rest(reinterpret_cast<const char*>(data + 1), size - 1);
  switch (data[0] % 4) {
    case 0:
      parplan::ReadEnvelopeJson(fixture, rest);
      break;
    case 1: {
      parplan::v1::SignedPlan plan;
      if (plan.ParseFromString(rest)) parplan::ReadEnvelope(fixture, plan);
      break;
    }
    case 2:
      parplan::ReadTrustBundle(rest);
      break;
    default:
      parplan::ReadSignedPayload(fixture, rest);
      break;
  }
  return 0;
}
