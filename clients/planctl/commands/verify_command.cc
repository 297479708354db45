// `planctl verify`: whether a signed plan may be acted on, here and now. Needs no
// server.

#include <memory>
#include <string>

#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/error.h"
#include "base/service/shell/exit_code.h"
#include "base/status_macros.h"
#include "clients/planctl/commands/command.h"
#include "clients/planctl/files.h"
#include "proto/envelope/envelope_json.h"
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
  std::string cluster;
  std::string job_id;
  std::string node_name;
  std::string topology_path;
  std::string at;
};

absl::StatusOr<VerifiedPlan> Check(const VerifyFlags& flags) {
  PARPLAN_ASSIGN_OR_RETURN(const std::string envelope_text, ReadFile(flags.plan_path));
  PARPLAN_ASSIGN_OR_RETURN(const v1::SignedPlan envelope, EnvelopeFromJson(envelope_text));
  PARPLAN_ASSIGN_OR_RETURN(const std::string trust_text, ReadFile(flags.trust_path));
  PARPLAN_ASSIGN_OR_RETURN(TrustBundle trust, TrustBundle::FromJson(trust_text));
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
  return PlanVerifier(std::move(trust)).Verify(envelope, expected, now);
}

absl::Status Verify(const Session& session, const VerifyFlags& flags) {
  const absl::StatusOr<VerifiedPlan> verified = Check(flags);
  if (!session.json) {
    if (!verified.ok()) return verified.status();
    const v1::PlanPayload& payload = verified->payload();
    return Print(
        session,
        absl::StrCat("valid: ", payload.plan(), "\nsigned by ", verified->key_id(), "\nexpires ",
                     absl::FormatTime(absl::RFC3339_sec,
                                      absl::FromUnixSeconds(payload.expire_time().seconds()),
                                      absl::UTCTimeZone()),
                     "\n"));
  }
  // A refusal is an answer; the exit code says it too.
  const v1::VerifyPlanResponse::Verdict verdict = VerdictOf(verified.status());
  const bool is_verdict =
      verified.ok() || shell::ExitCodeOf(verified.status()) == shell::ExitCode::kNotVerified;
  if (!is_verdict) return verified.status();
  nlohmann::ordered_json object;
  object["valid"] = verified.ok();
  object["verdict"] = absl::AsciiStrToLower(v1::VerifyPlanResponse::Verdict_Name(verdict));
  object["detail"] = std::string(verified.status().message());
  if (verified.ok()) {
    object["plan"] = verified->payload().plan();
    object["key_id"] = verified->key_id();
  }
  PARPLAN_RETURN_IF_ERROR(Print(session, object.dump(2) + "\n"));
  return verified.status();
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
  command.AddOption("--cluster", flags->cluster, "Refuse plans of other clusters");
  command.AddOption("--job", flags->job_id, "Refuse plans of other jobs");
  command.AddOption("--node", flags->node_name, "Refuse plans without this node");
  command.AddOption("--topology", flags->topology_path,
                    "Cluster file; refuse plans made for another");
  command.AddOption("--at", flags->at, "Check as if it were this time (RFC 3339) [now]");
  command.OnChosen([&session, &action, flags] {
    action = [&session, flags] { return Verify(session, *flags); };
  });
}

}  // namespace parplan::planctl
