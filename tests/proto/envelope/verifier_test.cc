#include "proto/envelope/verifier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "proto/envelope/pre_authentication_encoding.h"
#include "proto/envelope/signer.h"
#include "proto/envelope/verdict.h"
#include "tests/proto/envelope/plan_fixture.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using testing::HasSubstr;

class PlanVerifierTest : public testing::Test {
 protected:
  // The reason why a plan is refused at its issue time; nothing when it is not.
  std::optional<Reason> Refusal(const v1::SignedPlan& plan) {
    return ReasonOf(verifier_.Verify(plan, ItsAudience(), IssueTime()));
  }
  std::optional<Reason> Refusal(const v1::PlanPayload& payload) {
    return Refusal(Sign(payload, {&trusted_}));
  }

  const PrivateKey trusted_ = FirstKey();
  const PrivateKey other_ = SecondKey();
  const PlanVerifier verifier_ = PlanVerifier(Trusting({&trusted_}));
};

TEST_F(PlanVerifierTest, OnlyAVerifierMakesAVerifiedPlan) {
  static_assert(!std::is_default_constructible_v<VerifiedPlan>);
  static_assert(!std::is_constructible_v<VerifiedPlan, std::string, v1::PlanPayload, std::string>);
  static_assert(!std::is_aggregate_v<VerifiedPlan>);
}

TEST_F(PlanVerifierTest, AGoodPlanIsAcceptedWithItsBytesAndKey) {
  const v1::SignedPlan plan = Sign(MakePayload(), {&trusted_});
  ASSERT_OK_AND_ASSIGN(const VerifiedPlan verified,
                       verifier_.Verify(plan, ItsAudience(), IssueTime()));
  EXPECT_EQ(verified.bytes(), plan.payload());
  EXPECT_EQ(verified.payload().plan(), "clusters/atlas/plans/p1");
  EXPECT_EQ(verified.key_id(), trusted_.public_key().key_id());
}

TEST_F(PlanVerifierTest, NoBitOfPayloadTypeOrSignatureCanChange) {
  const v1::SignedPlan plan = Sign(MakePayload(), {&trusted_});
  int flips = 0;
  for (std::string* (v1::SignedPlan::*field)() :
       {&v1::SignedPlan::mutable_payload, &v1::SignedPlan::mutable_payload_type}) {
    v1::SignedPlan altered = plan;
    std::string& bytes = *(altered.*field)();
    for (size_t bit = 0; bit < bytes.size() * 8; ++bit, ++flips) {
      bytes[bit / 8] ^= static_cast<char>(1 << bit % 8);
      EXPECT_EQ(Refusal(altered), Reason::kSignatureInvalid) << "bit " << bit;
      bytes[bit / 8] ^= static_cast<char>(1 << bit % 8);
    }
  }
  v1::SignedPlan altered = plan;
  std::string& signature = *altered.mutable_signatures(0)->mutable_sig();
  for (size_t bit = 0; bit < signature.size() * 8; ++bit, ++flips) {
    signature[bit / 8] ^= static_cast<char>(1 << bit % 8);
    EXPECT_EQ(Refusal(altered), Reason::kSignatureInvalid) << "bit " << bit;
    signature[bit / 8] ^= static_cast<char>(1 << bit % 8);
  }
  EXPECT_GT(flips, 1500);
  EXPECT_EQ(Refusal(altered), std::nullopt) << "after all bits are back";
}

TEST_F(PlanVerifierTest, BytesCutOffOrAddedAreRefused) {
  const v1::SignedPlan plan = Sign(MakePayload(), {&trusted_});
  v1::SignedPlan altered = plan;
  altered.mutable_payload()->pop_back();
  EXPECT_EQ(Refusal(altered), Reason::kSignatureInvalid);
  altered = plan;
  altered.mutable_payload()->push_back('\0');
  EXPECT_EQ(Refusal(altered), Reason::kSignatureInvalid);
}

TEST_F(PlanVerifierTest, AnotherKeyOrNoneIsRefused) {
  EXPECT_EQ(Refusal(Sign(MakePayload(), {&other_})), Reason::kSignatureInvalid);
  v1::SignedPlan plan = Sign(MakePayload(), {&trusted_});
  plan.clear_signatures();
  EXPECT_EQ(Refusal(plan), Reason::kSignatureInvalid);
  EXPECT_EQ(Refusal(v1::SignedPlan()), Reason::kSignatureInvalid);
  EXPECT_EQ(ReasonOf(PlanVerifier(TrustBundle())
                         .Verify(Sign(MakePayload(), {&trusted_}), ItsAudience(), IssueTime())),
            Reason::kSignatureInvalid);
}

TEST_F(PlanVerifierTest, OneTrustedSignatureAmongSeveralIsEnough) {
  for (const auto& keys : {std::vector<const PrivateKey*>{&trusted_, &other_},
                           std::vector<const PrivateKey*>{&other_, &trusted_}}) {
    ASSERT_OK_AND_ASSIGN(const VerifiedPlan verified,
                         verifier_.Verify(Sign(MakePayload(), keys), ItsAudience(), IssueTime()));
    EXPECT_EQ(verified.key_id(), trusted_.public_key().key_id());
  }
}

TEST_F(PlanVerifierTest, AKeyIdIsAHintAndNeverTrusted) {
  // Another's signature under a trusted name stays another's.
  v1::SignedPlan forged = Sign(MakePayload(), {&other_});
  forged.mutable_signatures(0)->set_key_id(trusted_.public_key().key_id());
  EXPECT_EQ(Refusal(forged), Reason::kSignatureInvalid);

  // A trusted signature is valid under any key name, and is reported under its true one.
  const PlanVerifier both(Trusting({&trusted_, &other_}));
  for (const std::string& hint : {other_.public_key().key_id(), std::string(), std::string("?")}) {
    v1::SignedPlan plan = Sign(MakePayload(), {&trusted_});
    plan.mutable_signatures(0)->set_key_id(hint);
    ASSERT_OK_AND_ASSIGN(const VerifiedPlan verified,
                         both.Verify(plan, ItsAudience(), IssueTime()));
    EXPECT_EQ(verified.key_id(), trusted_.public_key().key_id());
  }

  // Two signatures with their names swapped: both are found.
  v1::SignedPlan swapped = Sign(MakePayload(), {&trusted_, &other_});
  swapped.mutable_signatures(0)->mutable_key_id()->swap(
      *swapped.mutable_signatures(1)->mutable_key_id());
  EXPECT_OK(both.Verify(swapped, ItsAudience(), IssueTime()));
  EXPECT_EQ(Refusal(swapped), std::nullopt);
}

TEST_F(PlanVerifierTest, MoreThan16SignaturesAreNotLookedAt) {
  v1::SignedPlan plan = Sign(MakePayload(), {&trusted_});
  while (plan.signatures_size() < 16) plan.add_signatures()->set_sig(std::string(64, 'x'));
  EXPECT_EQ(Refusal(plan), std::nullopt);
  plan.add_signatures();
  EXPECT_EQ(Refusal(plan), Reason::kSignatureInvalid);
}

TEST_F(PlanVerifierTest, AnotherSignedTypeIsMalformed) {
  v1::SignedPlan plan = Sign(MakePayload(), {&trusted_});
  plan.set_payload_type("application/octet-stream");
  plan.mutable_signatures(0)->set_sig(
      trusted_.Sign(PreAuthenticationEncoding(plan.payload_type(), plan.payload())));
  EXPECT_EQ(Refusal(plan), Reason::kPayloadMalformed);
}

TEST_F(PlanVerifierTest, SignedBytesThatAreNoPlanAreMalformed) {
  ASSERT_OK_AND_ASSIGN(const v1::SignedPlan plan, SignPayload("\xff\xff\xff", {&trusted_}));
  EXPECT_EQ(Refusal(plan), Reason::kPayloadMalformed);
  ASSERT_OK_AND_ASSIGN(const v1::SignedPlan empty, SignPayload("", {&trusted_}));
  EXPECT_EQ(Refusal(empty), Reason::kPayloadMalformed);
}

TEST_F(PlanVerifierTest, APlanWithoutItsEssentialsIsMalformedAndSaysWhich) {
  struct Case {
    const char* field;
    std::function<void(v1::PlanPayload&)> spoil;
  };
  const std::vector<Case> cases = {
      {"plan", [](auto& p) { p.clear_plan(); }},
      {"device_count", [](auto& p) { p.set_device_count(0); }},
      {"device_count", [](auto& p) { p.set_device_count(-1); }},
      {"micro_batch_count", [](auto& p) { p.set_micro_batch_count(0); }},
      {"stages", [](auto& p) { p.clear_stages(); }},
      {"issue_time", [](auto& p) { p.clear_issue_time(); }},
      {"issue_time", [](auto& p) { p.mutable_issue_time()->set_nanos(-1); }},
      {"issue_time", [](auto& p) { p.mutable_issue_time()->set_seconds(INT64_MIN); }},
      {"expire_time", [](auto& p) { p.clear_expire_time(); }},
      {"expire_time", [](auto& p) { p.mutable_expire_time()->set_seconds(INT64_MAX); }},
      {"expire_time", [](auto& p) { *p.mutable_expire_time() = p.issue_time(); }},
  };
  for (const Case& c : cases) {
    v1::PlanPayload payload = MakePayload();
    c.spoil(payload);
    const auto result = verifier_.Verify(Sign(payload, {&trusted_}), ItsAudience(), IssueTime());
    EXPECT_THAT(result, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(c.field)));
    EXPECT_EQ(ReasonOf(result), Reason::kPayloadMalformed);
  }
}

TEST_F(PlanVerifierTest, FieldsOfALaterReleaseAreAccepted) {
  // Field 2000, a varint.
  ASSERT_OK_AND_ASSIGN(
      const v1::SignedPlan plan,
      SignPayload(MakePayload().SerializeAsString() + "\x80\x7d\x01", {&trusted_}));
  EXPECT_EQ(Refusal(plan), std::nullopt);
}

TEST_F(PlanVerifierTest, HoldsFromIssueLessToleranceUntilBeforeExpiry) {
  const v1::SignedPlan plan = Sign(MakePayload(), {&trusted_});
  const auto refusal_at = [&](absl::Time now) {
    return ReasonOf(verifier_.Verify(plan, ItsAudience(), now));
  };
  const absl::Duration tick = absl::Nanoseconds(1);
  const absl::Time earliest = IssueTime() - absl::Seconds(60);
  const absl::Time end = IssueTime() + absl::Hours(24);
  EXPECT_EQ(refusal_at(earliest - tick), Reason::kPlanExpired);
  EXPECT_EQ(refusal_at(earliest), std::nullopt);
  EXPECT_EQ(refusal_at(end - tick), std::nullopt);
  EXPECT_EQ(refusal_at(end), Reason::kPlanExpired);
  EXPECT_EQ(refusal_at(absl::InfiniteFuture()), Reason::kPlanExpired);
  EXPECT_THAT(verifier_.Verify(plan, ItsAudience(), earliest - tick),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("in the future")));
  EXPECT_THAT(
      verifier_.Verify(plan, ItsAudience(), end),
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("2026-03-02T12:00:00Z; ask")));
}

TEST_F(PlanVerifierTest, TheWindowOfTheKeyMustCoverTheIssueTime) {
  const v1::SignedPlan plan = Sign(MakePayload(), {&trusted_});
  const auto refusal_with = [&](absl::Time not_before, absl::Time not_after) {
    const auto bundle = TrustBundle::Create(
        {{trusted_.public_key(), not_before, not_after, TrustStatus::kRetired}});
    return ReasonOf(PlanVerifier(*bundle).Verify(plan, ItsAudience(), IssueTime()));
  };
  const absl::Duration tick = absl::Nanoseconds(1);
  const absl::Time far_past = IssueTime() - absl::Hours(1);
  const absl::Time far_future = IssueTime() + absl::Hours(1);
  EXPECT_EQ(refusal_with(IssueTime(), far_future), std::nullopt);
  EXPECT_EQ(refusal_with(IssueTime() + tick, far_future), Reason::kPlanExpired);
  EXPECT_EQ(refusal_with(far_past, IssueTime() + tick), std::nullopt);
  EXPECT_EQ(refusal_with(far_past, IssueTime()), Reason::kPlanExpired);
}

TEST_F(PlanVerifierTest, ASecondKeyInItsWindowMakesUpForAFirstThatIsNot) {
  const auto bundle = TrustBundle::Create(
      {{trusted_.public_key(), IssueTime() - absl::Hours(2), IssueTime() - absl::Hours(1)},
       {other_.public_key(), IssueTime(), IssueTime() + absl::Hours(1)}});
  ASSERT_OK_AND_ASSIGN(const VerifiedPlan verified,
                       PlanVerifier(*bundle).Verify(Sign(MakePayload(), {&trusted_, &other_}),
                                                    ItsAudience(), IssueTime()));
  EXPECT_EQ(verified.key_id(), other_.public_key().key_id());
}

TEST_F(PlanVerifierTest, AnotherClusterJobNodeOrTopologyIsRefused) {
  const v1::SignedPlan plan = Sign(MakePayload(), {&trusted_});
  const auto refusal_for = [&](const ExpectedAudience& expected) {
    return ReasonOf(verifier_.Verify(plan, expected, IssueTime()));
  };
  ExpectedAudience expected = ItsAudience();
  expected.cluster = "other";
  EXPECT_EQ(refusal_for(expected), Reason::kAudienceMismatch);
  expected = ItsAudience();
  expected.job_id = "job-8";
  EXPECT_EQ(refusal_for(expected), Reason::kAudienceMismatch);
  expected = ItsAudience();
  expected.node_name = "node-c";
  EXPECT_EQ(refusal_for(expected), Reason::kAudienceMismatch);
  expected = ItsAudience();
  expected.topology_digest = std::string(64, 'b');
  EXPECT_EQ(refusal_for(expected), Reason::kTopologyMismatch);
  EXPECT_EQ(refusal_for({}), std::nullopt) << "what is not named is not checked";
}

TEST_F(PlanVerifierTest, APlanForNoJobAndNoNodesIsForItsWholeClusterOnly) {
  v1::PlanPayload payload = MakePayload();
  payload.clear_job_id();
  payload.clear_node_names();
  EXPECT_EQ(Refusal(payload), std::nullopt);
  payload.clear_cluster();
  EXPECT_EQ(Refusal(payload), Reason::kAudienceMismatch);
  payload = MakePayload();
  payload.clear_topology_digest();
  EXPECT_EQ(Refusal(payload), Reason::kTopologyMismatch);
}

// A plan in which everything is wrong, mended one step at a time: each check
// speaks only when all before it are content.
TEST_F(PlanVerifierTest, TheFirstCheckThatFailsGivesTheReason) {
  ExpectedAudience expected = ItsAudience();
  expected.cluster = "other";
  expected.topology_digest = std::string(64, 'b');
  absl::Time now = IssueTime() + absl::Hours(48);
  v1::PlanPayload payload = MakePayload();
  payload.clear_stages();
  const auto verify = [&](const PrivateKey& key) {
    return verifier_.Verify(Sign(payload, {&key}), expected, now).status();
  };

  std::vector<absl::Status> outcomes = {verify(other_), verify(trusted_)};
  payload = MakePayload();
  outcomes.push_back(verify(trusted_));
  now = IssueTime();
  outcomes.push_back(verify(trusted_));
  expected.cluster = "atlas";
  outcomes.push_back(verify(trusted_));
  expected.topology_digest = payload.topology_digest();
  outcomes.push_back(verify(trusted_));

  using Response = v1::VerifyPlanResponse;
  const std::vector<Response::Verdict> verdicts = {
      Response::BAD_SIGNATURE,  Response::MALFORMED,      Response::EXPIRED,
      Response::WRONG_AUDIENCE, Response::WRONG_TOPOLOGY, Response::VALID};
  const std::vector<absl::StatusCode> codes = {
      absl::StatusCode::kPermissionDenied,   absl::StatusCode::kInvalidArgument,
      absl::StatusCode::kFailedPrecondition, absl::StatusCode::kPermissionDenied,
      absl::StatusCode::kFailedPrecondition, absl::StatusCode::kOk};
  ASSERT_EQ(outcomes.size(), verdicts.size());
  for (size_t i = 0; i < outcomes.size(); ++i) {
    EXPECT_EQ(VerdictOf(outcomes[i]), verdicts[i]) << outcomes[i];
    EXPECT_EQ(outcomes[i].code(), codes[i]) << outcomes[i];
    const bool knows_key = i > 0 && i + 1 < outcomes.size();
    EXPECT_EQ(SigningKeyIdOf(outcomes[i]), knows_key ? trusted_.public_key().key_id() : "");
  }
}

TEST_F(PlanVerifierTest, ErrorsThatAreNoOutcomeHaveNoVerdict) {
  EXPECT_EQ(VerdictOf(absl::UnavailableError("no route")),
            v1::VerifyPlanResponse::VERDICT_UNSPECIFIED);
  EXPECT_EQ(VerdictOf(FieldError(Reason::kSpecInvalid, "name", "is empty")),
            v1::VerifyPlanResponse::VERDICT_UNSPECIFIED);
}

TEST_F(PlanVerifierTest, UnsignedTextCannotForgeTheFactsOfARefusal) {
  v1::SignedPlan plan = Sign(MakePayload(), {&other_});
  plan.mutable_signatures(0)->set_key_id(std::string("x\0keyId\0forged", 14));
  const absl::Status status = verifier_.Verify(plan, ItsAudience(), IssueTime()).status();
  EXPECT_EQ(SigningKeyIdOf(status), "");
  EXPECT_EQ(GetErrorDetail(status)->metadata.at("keyIds"), "x?keyId?forged");
}

// Whoever has a leaked key signs plans of ten years.
TEST(PlanVerifier, RefusesAPlanThatLivesLongerThanAYear) {
  const PrivateKey key = FirstKey();
  const PlanVerifier verifier(Trusting({&key}));
  v1::PlanPayload payload = MakePayload();
  for (const int days : {366, 367, 3650}) {
    payload.mutable_expire_time()->set_seconds(
        absl::ToUnixSeconds(IssueTime() + days * absl::Hours(24)));
    const absl::StatusOr<VerifiedPlan> verified =
        verifier.Verify(Sign(payload, {&key}), ItsAudience(), IssueTime());
    EXPECT_EQ(verified.ok(), days == 366) << days;
    EXPECT_EQ(ReasonOf(verified), days == 366 ? std::nullopt : std::optional(Reason::kPlanExpired));
  }
}

}  // namespace
}  // namespace parplan
