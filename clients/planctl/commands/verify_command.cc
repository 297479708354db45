// `planctl verify`: whether a signed plan may be acted on, here and now. Needs no
// server.

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/civil_time.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/error.h"
#include "base/service/shell/exit_code.h"
#include "base/status_macros.h"
#include "clients/files/input_files.h"
#include "clients/planctl/commands/command.h"
#include "clients/planctl/files.h"
#include "proto/envelope/envelope_json.h"
#include "proto/envelope/evidence.h"
#include "proto/envelope/public_key.h"
#include "proto/envelope/trust_bundle.h"
#include "proto/envelope/verdict.h"
#include "proto/envelope/verifier.h"
#include "proto/wire/digest.h"
#include "proto/wire/topology_wire.h"

namespace parplan::planctl {
namespace {

struct VerifyFlags {
  std::string plan_path;
  std::string trust_path;
  std::string trust_memory_path;
  std::string cluster;
  std::string job_id;
  std::string node_name;
  std::string topology_path;
  std::string at;
  std::string evidence_path;
  std::string evidence_key_path;
};

// A plan that may be acted on, with the evidence about it if a file was named.
struct Checked {
  VerifiedPlan plan;
  std::optional<Evidence> evidence;
};

// Returns the keys that evidence may be signed with: the one of --evidence-key, at any time, else
// those that sign plans.
absl::StatusOr<TrustBundle> EvidenceKeys(const VerifyFlags& flags, const TrustBundle& trust) {
  if (flags.evidence_key_path.empty()) return trust;
  PARPLAN_ASSIGN_OR_RETURN(const std::string pem, ReadFile(flags.evidence_key_path));
  PARPLAN_ASSIGN_OR_RETURN(PublicKey key, PublicKey::FromPem(pem));
  return TrustBundle::Create({TrustedKey{
      std::move(key), absl::UnixEpoch(),
      absl::FromCivil(absl::CivilDay(9999, 1, 1), absl::UTCTimeZone()), TrustStatus::kActive}});
}

absl::StatusOr<Checked> Check(const VerifyFlags& flags) {
  PARPLAN_ASSIGN_OR_RETURN(const std::string envelope_text, ReadFile(flags.plan_path));
  PARPLAN_ASSIGN_OR_RETURN(const v1::SignedPlan envelope, EnvelopeFromJson(envelope_text));
  PARPLAN_ASSIGN_OR_RETURN(const std::string trust_text, ReadFile(flags.trust_path));
  PARPLAN_ASSIGN_OR_RETURN(TrustBundle trust,
                           AcceptTrustBundle(trust_text, flags.trust_memory_path));
  ExpectedAudience expected;
  expected.cluster = flags.cluster;
  expected.job_id = flags.job_id;
  expected.node_name = flags.node_name;
  if (!flags.topology_path.empty()) {
    PARPLAN_ASSIGN_OR_RETURN(const v1::ClusterTopology cluster, ReadCluster(flags.topology_path));
    PARPLAN_ASSIGN_OR_RETURN(const Topology topology, TopologyFromProto(cluster));
    expected.topology_digest = TopologyDigest(topology);
  }
  absl::Time now = absl::Now();
  if (!flags.at.empty()) {
    std::string problem;
    if (!absl::ParseTime(absl::RFC3339_full, flags.at, &now, &problem)) {
      return FieldError(Reason::kSpecInvalid, "--at",
                        "must be a time such as 2026-11-21T12:00:00Z");
    }
  }
  PARPLAN_ASSIGN_OR_RETURN(VerifiedPlan plan, PlanVerifier(trust).Verify(envelope, expected, now));
  Checked checked{std::move(plan), std::nullopt};
  if (flags.evidence_path.empty()) return checked;
  PARPLAN_ASSIGN_OR_RETURN(const std::string evidence_text, ReadFile(flags.evidence_path));
  PARPLAN_ASSIGN_OR_RETURN(const v1::SignedPlan evidence, EnvelopeFromJson(evidence_text));
  PARPLAN_ASSIGN_OR_RETURN(const TrustBundle keys, EvidenceKeys(flags, trust));
  PARPLAN_ASSIGN_OR_RETURN(checked.evidence, VerifyEvidence(evidence, keys, checked.plan, now));
  return checked;
}

std::string EvidenceText(const Evidence& evidence) {
  return absl::StrCat(
      "checked: ", evidence.summary, "\nevidence of ",
      absl::FormatTime(absl::RFC3339_sec, evidence.finish_time, absl::UTCTimeZone()),
      ", signed by ", evidence.key_id, "\n");
}

absl::Status Verify(const Session& session, const VerifyFlags& flags) {
  const absl::StatusOr<Checked> checked = Check(flags);
  if (!session.json) {
    if (!checked.ok()) return checked.status();
    const v1::PlanPayload& payload = checked->plan.payload();
    return Print(
        session,
        absl::StrCat("valid: ", payload.plan(), "\nsigned by ", checked->plan.key_id(),
                     "\nexpires ",
                     absl::FormatTime(absl::RFC3339_sec,
                                      absl::FromUnixSeconds(payload.expire_time().seconds()),
                                      absl::UTCTimeZone()),
                     "\n", checked->evidence.has_value() ? EvidenceText(*checked->evidence) : ""));
  }
  // A refusal is an answer; the exit code says it too.
  const v1::VerifyPlanResponse::Verdict verdict = VerdictOf(checked.status());
  const bool is_verdict =
      checked.ok() || shell::ExitCodeOf(checked.status()) == shell::ExitCode::kNotVerified;
  if (!is_verdict) return checked.status();
  nlohmann::ordered_json object;
  object["valid"] = checked.ok();
  object["verdict"] = absl::AsciiStrToLower(v1::VerifyPlanResponse::Verdict_Name(verdict));
  object["detail"] = std::string(checked.status().message());
  if (checked.ok()) {
    object["plan"] = checked->plan.payload().plan();
    object["key_id"] = checked->plan.key_id();
    if (checked->evidence.has_value()) {
      // The statement was parsed before it was accepted.
      object["evidence"]["key_id"] = checked->evidence->key_id;
      object["evidence"]["statement"] = nlohmann::ordered_json::parse(checked->evidence->statement);
    }
  }
  PARPLAN_RETURN_IF_ERROR(Print(session, object.dump(2) + "\n"));
  return checked.status();
}

}  // namespace

void AddVerifyCommand(Command app, const Session& session, Action& action) {
  auto flags = std::make_shared<VerifyFlags>();
  Command command =
      app.AddCommand("verify", "Check a signed plan against keys installed beforehand");
  command.Footer(
      "Checks bytes, type, content, time, audience, topology, in this order. Exit code 5 when "
      "one fails.\nExample:\n  planctl verify plan.dsse.json --trust trust-bundle.jwks.json "
      "--cluster a100-8 --job 4711");
  command.AddOption("plan", flags->plan_path, "Envelope (DSSE, JSON)").Required();
  command.AddOption("--trust", flags->trust_path, "Trust bundle (JWKS)").Required();
  command
      .AddOption("--trust-memory", flags->trust_memory_path,
                 "File that remembers the bundle accepted last; refuse one that is older or that "
                 "none of its keys signed [env PARPLAN_TRUST_MEMORY]")
      .TypeName("FILE");
  command.AddOption("--cluster", flags->cluster, "Refuse plans of other clusters");
  command.AddOption("--job", flags->job_id, "Refuse plans of other jobs");
  command.AddOption("--node", flags->node_name, "Refuse plans without this node");
  command.AddOption("--topology", flags->topology_path,
                    "Cluster file; refuse plans made for another");
  const auto evidence =
      command.AddOption("--evidence", flags->evidence_path,
                        "Evidence of `parplan-torch check` about this plan (DSSE, JSON); refuse a "
                        "plan without");
  command
      .AddOption("--evidence-key", flags->evidence_key_path,
                 "Public key (PEM) by which the evidence was signed [the keys of --trust]")
      .Needs(evidence);
  command.AddOption("--at", flags->at, "Check as if it were this time (RFC 3339) [now]");
  command.OnChosen([&session, &action, flags] {
    action = [&session, flags] { return Verify(session, *flags); };
  });
}

}  // namespace parplan::planctl
