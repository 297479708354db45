#include "proto/envelope/verifier.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "proto/envelope/payload_type.h"
#include "proto/envelope/rfc3339.h"
#include "proto/envelope/signers.h"

namespace parplan {
namespace {

// Returns a time of the payload; absent if it is not set or not valid.
std::optional<absl::Time> ReadTime(bool is_set, const google::protobuf::Timestamp& timestamp) {
  if (!is_set || timestamp.nanos() < 0 || timestamp.nanos() > 999'999'999) return std::nullopt;
  const absl::Time time =
      absl::FromUnixSeconds(timestamp.seconds()) + absl::Nanoseconds(timestamp.nanos());
  if (!IsRfc3339Time(time)) return std::nullopt;
  return time;
}

// Returns text of an envelope for an error: short, without control characters, and cut between
// characters of UTF-8.
std::string Printable(absl::string_view text) {
  constexpr size_t kMaxSize = 128;
  const bool is_long = text.size() > kMaxSize;
  if (is_long) {
    size_t size = kMaxSize;
    while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xc0) == 0x80) --size;
    text = text.substr(0, size);
  }
  std::string printable(text);
  for (char& c : printable) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return is_long ? printable + "..." : printable;
}

std::string Quote(absl::string_view text) { return absl::StrCat("`", Printable(text), "`"); }

// The window in which a plan is valid.
struct Validity {
  absl::Time issue_time;
  absl::Time expire_time;
};

absl::Status Malformed(const v1::SignedPlan& signed_plan, absl::string_view key_id,
                       absl::string_view what) {
  return MakeError(
      absl::StatusCode::kInvalidArgument, Reason::kPayloadMalformed,
      absl::StrCat(what,
                   "; ask the server for a new plan, or upgrade this program to "
                   "the release of the server"),
      {{"payloadType", Printable(signed_plan.payload_type())}, {"keyId", std::string(key_id)}});
}

absl::StatusOr<Validity> CheckEssentials(const v1::SignedPlan& signed_plan,
                                         const v1::PlanPayload& payload, absl::string_view key_id) {
  const auto missing = [&](absl::string_view field) {
    return Malformed(signed_plan, key_id,
                     absl::StrCat("the plan is signed, but its `", field, "` is missing or wrong"));
  };
  if (payload.plan().empty()) return missing("plan");
  if (payload.device_count() < 1) return missing("device_count");
  if (payload.micro_batch_count() < 1) return missing("micro_batch_count");
  if (payload.stages().empty()) return missing("stages");
  const std::optional<absl::Time> issue_time =
      ReadTime(payload.has_issue_time(), payload.issue_time());
  if (!issue_time) return missing("issue_time");
  const std::optional<absl::Time> expire_time =
      ReadTime(payload.has_expire_time(), payload.expire_time());
  if (!expire_time || *expire_time <= *issue_time) return missing("expire_time");
  return Validity{*issue_time, *expire_time};
}

absl::Status Expired(const Validity& validity, absl::string_view key_id,
                     absl::string_view message) {
  return MakeError(
      absl::StatusCode::kFailedPrecondition, Reason::kPlanExpired, message,
      {{"expireTime", FormatRfc3339(validity.expire_time)}, {"keyId", std::string(key_id)}});
}

absl::Status CheckTime(const Validity& validity, absl::string_view key_id, absl::Time now) {
  if (now >= validity.expire_time) {
    return Expired(validity, key_id,
                   absl::StrCat("the plan expired at ", FormatRfc3339(validity.expire_time),
                                "; ask the server for a new one"));
  }
  if (validity.issue_time > now + PlanVerifier::kIssueTimeTolerance) {
    return Expired(validity, key_id,
                   absl::StrCat("the plan is valid from ", FormatRfc3339(validity.issue_time),
                                " on, which is in the future; correct the clock of this machine or "
                                "of the server"));
  }
  if (validity.expire_time - validity.issue_time > PlanVerifier::kLongestPlanLife) {
    return Expired(
        validity, key_id,
        absl::StrCat("the plan would be valid until ", FormatRfc3339(validity.expire_time),
                     ", over a year after its issue, which no server signs; revoke the "
                     "key ",
                     key_id, ", and ask the server for a new plan"));
  }
  return absl::OkStatus();
}

absl::Status WrongAudience(absl::string_view whose, absl::string_view expected,
                           absl::string_view actual, absl::string_view key_id) {
  return MakeError(absl::StatusCode::kPermissionDenied, Reason::kAudienceMismatch,
                   absl::StrCat("the plan is for the ", whose, " ", Quote(actual), ", not for ",
                                Quote(expected), "; ask the server for a plan of your own"),
                   {{"expected", Printable(expected)},
                    {"actual", Printable(actual)},
                    {"keyId", std::string(key_id)}});
}

absl::Status CheckAudience(const v1::PlanPayload& payload, const ExpectedAudience& expected,
                           absl::string_view key_id) {
  if (!expected.cluster.empty() && payload.cluster() != expected.cluster) {
    return WrongAudience("cluster", expected.cluster, payload.cluster(), key_id);
  }
  if (!expected.job_id.empty() && !payload.job_id().empty() &&
      payload.job_id() != expected.job_id) {
    return WrongAudience("job", expected.job_id, payload.job_id(), key_id);
  }
  const auto& nodes = payload.node_names();
  if (!expected.node_name.empty() && !nodes.empty() &&
      std::find(nodes.begin(), nodes.end(), expected.node_name) == nodes.end()) {
    return WrongAudience("nodes", expected.node_name, absl::StrJoin(nodes, ","), key_id);
  }
  return absl::OkStatus();
}

absl::Status CheckTopology(const v1::PlanPayload& payload, const ExpectedAudience& expected,
                           absl::string_view key_id) {
  if (expected.topology_digest.empty() || payload.topology_digest() == expected.topology_digest) {
    return absl::OkStatus();
  }
  return MakeError(
      absl::StatusCode::kFailedPrecondition, Reason::kTopologyMismatch,
      absl::StrCat("the plan was made for the topology ", Quote(payload.topology_digest()),
                   ", but the devices here are ", Quote(expected.topology_digest),
                   "; ask the server for a plan for these devices"),
      {{"expected", Printable(expected.topology_digest)},
       {"actual", Printable(payload.topology_digest())},
       {"keyId", std::string(key_id)}});
}

// Returns a key of `trust` that is revoked and named by one of the signatures; null if there is
// none. Whether that key made the signature does not matter: the plan is refused either way.
const TrustedKey* FindRevoked(const TrustBundle& trust, const v1::SignedPlan& signed_plan) {
  for (const v1::Signature& signature : signed_plan.signatures()) {
    const TrustedKey* const key = trust.Find(signature.key_id());
    if (key != nullptr && key->is_revoked()) return key;
  }
  return nullptr;
}

absl::Status NotSigned(const TrustBundle& trust, const v1::SignedPlan& signed_plan) {
  std::vector<std::string> key_ids;
  for (const v1::Signature& signature : signed_plan.signatures()) {
    if (key_ids.size() == PlanVerifier::kMaxSignatureCount) break;
    key_ids.push_back(Printable(signature.key_id()));
  }
  std::string message =
      "no trusted key made any of the signatures: the plan was altered, or its key is not in the "
      "trust bundle; get the plan again, and the bundle from the owner of the cluster";
  if (static_cast<size_t>(signed_plan.signatures_size()) > PlanVerifier::kMaxSignatureCount) {
    message =
        absl::StrCat("the envelope has ", signed_plan.signatures_size(), " signatures; at most ",
                     PlanVerifier::kMaxSignatureCount, " are looked at, so get the plan again");
  } else if (const TrustedKey* const revoked = FindRevoked(trust, signed_plan)) {
    message = absl::StrCat("the key ", revoked->public_key.key_id(), " of the plan was revoked at ",
                           FormatRfc3339(*revoked->revoke_time),
                           ", and no other trusted key signed it; ask the server for a new plan");
  }
  return MakeError(absl::StatusCode::kPermissionDenied, Reason::kSignatureInvalid, message,
                   {{"keyIds", absl::StrJoin(key_ids, ",")}});
}

}  // namespace

PlanVerifier::PlanVerifier(TrustBundle trust_bundle) : trust_bundle_(std::move(trust_bundle)) {}

absl::StatusOr<VerifiedPlan> PlanVerifier::Verify(const v1::SignedPlan& signed_plan,
                                                  const ExpectedAudience& expected,
                                                  absl::Time now) const {
  PARPLAN_RETURN_IF_ERROR(trust_bundle_.CheckLife(now));
  const std::vector<const TrustedKey*> signers = FindSigners(trust_bundle_, signed_plan);
  if (signers.empty()) return NotSigned(trust_bundle_, signed_plan);
  const std::string& first_key_id = signers.front()->public_key.key_id();

  if (signed_plan.payload_type() != kPlanPayloadType) {
    return Malformed(signed_plan, first_key_id,
                     absl::StrCat("the bytes are signed as ", Quote(signed_plan.payload_type()),
                                  ", not as a plan (`", kPlanPayloadType, "`)"));
  }
  v1::PlanPayload payload;
  if (signed_plan.payload().size() > kMaxPayloadBytes ||
      !payload.ParseFromString(signed_plan.payload())) {
    return Malformed(signed_plan, first_key_id, "the bytes are signed, but are no `PlanPayload`");
  }
  PARPLAN_ASSIGN_OR_RETURN(const Validity validity,
                           CheckEssentials(signed_plan, payload, first_key_id));

  PARPLAN_RETURN_IF_ERROR(CheckTime(validity, first_key_id, now));
  const auto allowed = std::find_if(signers.begin(), signers.end(), [&](const TrustedKey* key) {
    return key->MayIssueAt(validity.issue_time);
  });
  if (allowed == signers.end()) {
    return Expired(
        validity, first_key_id,
        absl::StrCat("the plan was issued at ", FormatRfc3339(validity.issue_time),
                     ", outside the window of the key ", first_key_id,
                     " that signed it; renew the trust bundle, then ask for a new plan"));
  }
  const std::string& key_id = (*allowed)->public_key.key_id();
  PARPLAN_RETURN_IF_ERROR(CheckAudience(payload, expected, key_id));
  PARPLAN_RETURN_IF_ERROR(CheckTopology(payload, expected, key_id));
  return VerifiedPlan(signed_plan.payload(), std::move(payload), key_id);
}

}  // namespace parplan
