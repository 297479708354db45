// Parsers of what strangers send, each time with another one of their allocations failing: memory
// that is refused is an error for the caller and nothing else. Sanitizers see whether it leaks.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/json/json_text.h"
#include "base/system/clock.h"
#include "proto/envelope/envelope_json.h"
#include "proto/envelope/private_key.h"
#include "proto/envelope/public_key.h"
#include "proto/envelope/trust_bundle.h"
#include "proto/wire/resource_name.h"
#include "server/access/policy.h"
#include "server/access/token_verifier.h"
#include "server/access/web_key_set.h"
#include "server/audit/audit_verifier.h"
#include "server/core/profile_keeper.h"
#include "server/core/quota_keeper.h"
#include "tests/proto/wire/small_profile.h"
#include "tests/server/access/token_signer.h"
#include "tests/support/failing_allocations.h"
#include "tests/support/memory_store.h"

namespace parplan {
namespace {

constexpr char kDigest[] = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";

// A bundle with a version, an active and a revoked key, and a signature.
std::string SignedBundle() {
  const absl::Time begin = absl::FromUnixSeconds(1'000'000'000);
  const PrivateKey active = PrivateKey::Generate();
  const TrustedKey trusted = {active.public_key(), begin, begin + absl::Hours(1000)};
  const TrustedKey revoked = {PrivateKey::Generate().public_key(), begin, begin + absl::Hours(1000),
                              TrustStatus::kRevoked, begin};
  absl::StatusOr<TrustBundle> bundle = TrustBundle::Create(
      {trusted, revoked},
      BundleVersion{.sequence = 7, .issue_time = begin, .expire_time = begin + absl::Hours(1000)});
  EXPECT_TRUE(bundle.ok()) << bundle.status();
  if (!bundle.ok()) return "";
  const std::string signature = active.Sign(bundle->SignedBytes());
  return bundle->WithSignatures({{active.public_key().key_id(), signature}}).ToJson();
}

std::vector<Parser> Parsers() {
  const std::string line = absl::StrCat(
      R"({"sequence":7,"time":"2026-11-25T21:00:00.5Z","event":"call","decision":"allowed",)",
      R"("identity":"dns:slurm.example","role":"planner","method":"CreatePlan",)",
      R"("resource":"clusters/lab","job_id":"4711","plan":"","key_ids":["a","b"],)",
      R"("request_id":"r","previous":")", kDigest, "\"}");
  const std::string envelope =
      R"({"payload":"cGxhbg==","payloadType":"application/vnd.parplan.plan.v1",)"
      R"("signatures":[{"keyid":"key","sig":"c2lnbmF0dXJl"}]})";
  const std::vector<Grant> grants = {{.identities = {"spiffe://lab.example/{cluster}/job/{job}"},
                                      .role = "executor",
                                      .clusters = {},
                                      .nodes = {},
                                      .jobs = {}},
                                     {.identities = {"dns:slurm.lab.example"},
                                      .role = "planner",
                                      .clusters = {"west", "east"},
                                      .nodes = {},
                                      .jobs = {}}};
  const std::string bundle = SignedBundle();
  const PrivateKey key = PrivateKey::Generate();
  const std::string private_pem = key.ToPem();
  const std::string public_pem = key.public_key().ToPem();
  const TokenSigner signer = EcSigner("key-of-the-cluster");
  const std::string key_set =
      absl::StrCat(R"({"keys":[)", signer.json, ",", RsaSigner("another-key").json, "]}");
  const auto verifier = std::make_shared<TokenVerifier>(
      TokenVerifier::Rules{.issuer = "https://kubernetes.default.svc", .audience = "parplan"},
      *WebKeySet::Create(key_set, "jwks"));
  const std::string token =
      MakeToken(signer, {{"alg", "ES256"}, {"kid", "key-of-the-cluster"}},
                {{"iss", "https://kubernetes.default.svc"},
                 {"aud", {"another-audience-of-the-token", "parplan"}},
                 {"sub", "system:serviceaccount:laboratory:trainer-of-models"},
                 {"exp", 2000},
                 {"kubernetes.io", {{"pod", {{"name", "trainer-of-models-0"}}}}}});
  return {
      {"TokenVerifier",
       [verifier, token] { return verifier->Verify(token, absl::FromUnixSeconds(1000)).ok(); }},
      {"WebKeySet", [key_set] { return WebKeySet::Create(key_set, "jwks").ok(); }},
      {"ReadJsonText",
       [] {
         return ReadJsonText(
                    R"({"a":[1,2.5,"text that is longer than a short one",null,{"b":[]}]})", "file")
             .ok();
       }},
      {"ReadAuditLine", [line] { return ReadAuditLine(line).ok(); }},
      {"EnvelopeFromJson", [envelope] { return EnvelopeFromJson(envelope).ok(); }},
      {"TrustBundle", [bundle] { return TrustBundle::FromJson(bundle).ok(); }},
      {"PrivateKey", [private_pem] { return PrivateKey::FromPem(private_pem).ok(); }},
      {"PublicKey", [public_pem] { return PublicKey::FromPem(public_pem).ok(); }},
      {"Policy", [grants] { return Policy::Create(grants, "grants").ok(); }},
      {"PlanName",
       [] {
         return PlanName::Parse("clusters/laboratory-of-the-west/plans/30404c464c2c3c3993cf8d2bf1")
             .ok();
       }},
  };
}

TEST(ParserMemory, AnAllocationThatFailsIsAnErrorOfItsCallAlone) {
  for (const Parser& parser : Parsers()) ExpectToOutliveFailingAllocations(parser);
}

// All of an upload, from its first message to what is stored.
TEST(ParserMemory, AnAllocationThatFailsEndsItsUploadAlone) {
  MemoryStore store;
  Observer observer;
  const Limits limits;
  CallGuard guard(store, AuditSink::Null());
  QuotaKeeper quotas(store, Clock::Real(), limits);
  ProfileKeeper keeper(store, Clock::Real(), observer, limits, guard, quotas);
  v1::UploadProfileRequest header;
  v1::UploadProfileRequest measurements;
  const v1::Profile profile = SmallProfile();
  header.mutable_header()->set_parent("clusters/laboratory/nodes/node-of-the-laboratory");
  header.mutable_header()->set_request_id("the-request-of-this-upload");
  *header.mutable_header()->mutable_provenance() = profile.provenance();
  header.mutable_header()->set_device_kind(profile.device_kind());
  header.mutable_header()->set_devices_per_node(profile.devices_per_node());
  header.mutable_header()->set_precision(profile.precision());
  v1::ProfilePiece& piece = *measurements.mutable_measurements();
  *piece.mutable_layer_definitions() = profile.layer_definitions();
  *piece.mutable_layer_timings() = profile.layer_timings();
  *piece.mutable_layer_memories() = profile.layer_memories();
  *piece.mutable_collective_timings() = profile.collective_timings();
  const std::vector<std::string> messages = {header.SerializeAsString(),
                                             measurements.SerializeAsString()};
  ExpectToOutliveFailingAllocations({"UploadSession", [&] {
                                       const std::unique_ptr<UploadSession> session =
                                           keeper.StartUpload();
                                       for (const std::string& message : messages) {
                                         if (!session->Add(message).ok()) return false;
                                       }
                                       return session->Finish().ok();
                                     }});
}

}  // namespace
}  // namespace parplan
