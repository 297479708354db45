#include "proto/envelope/evidence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "proto/envelope/key_id.h"
#include "proto/envelope/pre_authentication_encoding.h"
#include "proto/envelope/verifier.h"
#include "tests/proto/envelope/plan_fixture.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using testing::HasSubstr;

using Json = nlohmann::ordered_json;

class EvidenceTest : public testing::Test {
 protected:
  EvidenceTest()
      : plan_(*PlanVerifier(Trusting({&key_}))
                   .Verify(Sign(MakePayload(), {&key_}), ItsAudience(), IssueTime())) {}

  Json Statement() const {
    return Json{{"_type", "https://in-toto.io/Statement/v1"},
                {"subject",
                 {{{"name", "clusters/atlas/plans/p1"},
                   {"digest", {{"sha256", HexDigest(plan_.bytes())}}}}}},
                {"predicateType", "https://parplan.io/evidence/torch-check/v1"},
                {"predicate",
                 {{"passed", true},
                  {"finish_time", "2026-03-01T12:30:00Z"},
                  {"summary", "loss and 3 gradients equal"},
                  {"versions", {{"torch", "2.15.0"}}}}}};
  }

  static v1::SignedPlan Envelope(const std::string& statement, const PrivateKey& key,
                                 const std::string& type = kStatementPayloadType) {
    v1::SignedPlan envelope;
    envelope.set_payload(statement);
    envelope.set_payload_type(type);
    v1::Signature& signature = *envelope.add_signatures();
    signature.set_key_id(key.public_key().key_id());
    signature.set_sig(key.Sign(PreAuthenticationEncoding(type, statement)));
    return envelope;
  }

  absl::StatusOr<Evidence> Verify(const v1::SignedPlan& envelope,
                                  absl::Duration after = absl::Hours(1)) const {
    return VerifyEvidence(envelope, Trusting({&key_}), plan_, IssueTime() + after);
  }

  const PrivateKey key_ = FirstKey();
  const PrivateKey other_ = SecondKey();
  const VerifiedPlan plan_;
};

TEST_F(EvidenceTest, AboutThePlanByATrustedKeyIsShown) {
  ASSERT_OK_AND_ASSIGN(const Evidence evidence, Verify(Envelope(Statement().dump(), key_)));
  EXPECT_EQ(evidence.key_id, key_.public_key().key_id());
  EXPECT_EQ(evidence.summary, "loss and 3 gradients equal");
  EXPECT_EQ(evidence.finish_time, IssueTime() + absl::Minutes(30));
  EXPECT_EQ(Json::parse(evidence.statement)["predicate"]["versions"]["torch"], "2.15.0");
}

TEST_F(EvidenceTest, NoBitCanChange) {
  const v1::SignedPlan good = Envelope(Statement().dump(), key_);
  for (std::string* (v1::SignedPlan::*field)() :
       {&v1::SignedPlan::mutable_payload, &v1::SignedPlan::mutable_payload_type}) {
    v1::SignedPlan altered = good;
    std::string& bytes = *(altered.*field)();
    for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
      bytes[bit / 8] ^= static_cast<char>(1 << bit % 8);
      EXPECT_EQ(ReasonOf(Verify(altered)), Reason::kSignatureInvalid);
      bytes[bit / 8] ^= static_cast<char>(1 << bit % 8);
    }
  }
  EXPECT_OK(Verify(good));
}

TEST_F(EvidenceTest, OfAStrangerIsRefused) {
  EXPECT_EQ(ReasonOf(Verify(Envelope(Statement().dump(), other_))), Reason::kSignatureInvalid);
  v1::SignedPlan unsigned_statement = Envelope(Statement().dump(), key_);
  unsigned_statement.clear_signatures();
  EXPECT_EQ(ReasonOf(Verify(unsigned_statement)), Reason::kSignatureInvalid);
}

TEST_F(EvidenceTest, AnotherTypeThatTheKeySignedIsNoEvidence) {
  EXPECT_EQ(ReasonOf(Verify(Sign(MakePayload(), {&key_}))), Reason::kPayloadMalformed);
}

TEST_F(EvidenceTest, EachBrokenRuleIsNamed) {
  struct Case {
    std::string says;
    Reason reason;
    std::function<void(Json&)> change;
  };
  const std::vector<Case> cases = {
      {"_type", Reason::kPayloadMalformed, [](Json& s) { s["_type"] = "other"; }},
      {"predicateType", Reason::kPayloadMalformed, [](Json& s) { s["predicateType"] = "x"; }},
      {"subject", Reason::kPayloadMalformed, [](Json& s) { s["subject"] = Json::array(); }},
      {"subject", Reason::kPayloadMalformed,
       [](Json& s) { s["subject"].push_back(s["subject"][0]); }},
      {"digest", Reason::kPayloadMalformed, [](Json& s) { s["subject"][0].erase("digest"); }},
      {"another plan", Reason::kAudienceMismatch,
       [](Json& s) { s["subject"][0]["digest"]["sha256"] = std::string(64, '0'); }},
      {"another plan", Reason::kAudienceMismatch,
       [](Json& s) { s["subject"][0]["name"] = "clusters/atlas/plans/p2"; }},
      {"predicate", Reason::kPayloadMalformed, [](Json& s) { s.erase("predicate"); }},
      {"passed", Reason::kPayloadMalformed, [](Json& s) { s["predicate"].erase("passed"); }},
      {"failed", Reason::kPayloadMalformed, [](Json& s) { s["predicate"]["passed"] = false; }},
      {"finish_time", Reason::kPayloadMalformed,
       [](Json& s) { s["predicate"]["finish_time"] = "soon"; }},
      {"summary", Reason::kPayloadMalformed,
       [](Json& s) { s["predicate"]["summary"] = "a\nvalid: b"; }},
      {"summary", Reason::kPayloadMalformed,
       [](Json& s) { s["predicate"]["summary"] = std::string(2000, 'a'); }},
      {"future", Reason::kPlanExpired,
       [](Json& s) { s["predicate"]["finish_time"] = "2026-03-02T12:30:00Z"; }},
      {"window", Reason::kPlanExpired,
       [](Json& s) { s["predicate"]["finish_time"] = "2020-03-02T12:30:00Z"; }}};
  for (const Case& one : cases) {
    Json statement = Statement();
    one.change(statement);
    SCOPED_TRACE(statement.dump());
    const absl::Status status = Verify(Envelope(statement.dump(), key_)).status();
    EXPECT_EQ(ReasonOf(status), one.reason);
    EXPECT_THAT(std::string(status.message()), HasSubstr(one.says));
  }
  EXPECT_EQ(ReasonOf(Verify(Envelope("{", key_))), Reason::kPayloadMalformed);
}

}  // namespace
}  // namespace parplan
