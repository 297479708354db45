#include "proto/envelope/envelope_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "proto/envelope/verifier.h"
#include "tests/proto/envelope/plan_fixture.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using testing::HasSubstr;

TEST(EnvelopeJson, IsTheDocumentOfDsse) {
  v1::SignedPlan plan;
  plan.set_payload("\xfb\xff");
  plan.set_payload_type("a/b");
  v1::Signature* const signature = plan.add_signatures();
  signature->set_sig("s");
  signature->set_key_id("k");
  plan.add_signatures()->set_sig("t");
  EXPECT_EQ(EnvelopeToJson(plan), R"({
  "payload": "+/8=",
  "payloadType": "a/b",
  "signatures": [
    {
      "keyid": "k",
      "sig": "cw=="
    },
    {
      "sig": "dA=="
    }
  ]
}
)");
}

TEST(EnvelopeJson, APlanReadBackIsByteForByteTheSameAndStillVerifies) {
  const PrivateKey first = FirstKey();
  const PrivateKey second = SecondKey();
  const v1::SignedPlan plan = Sign(MakePayload(), {&first, &second});
  ASSERT_OK_AND_ASSIGN(const v1::SignedPlan again, EnvelopeFromJson(EnvelopeToJson(plan)));
  EXPECT_EQ(again.SerializeAsString(), plan.SerializeAsString());
  EXPECT_OK(PlanVerifier(Trusting({&first})).Verify(again, ItsAudience(), IssueTime()));
}

TEST(EnvelopeJson, ReadsEitherBase64WithOrWithoutPaddingAndNoKeyId) {
  for (const char* payload : {"+/8=", "-_8=", "+/8", "-_8"}) {
    ASSERT_OK_AND_ASSIGN(const v1::SignedPlan plan,
                         EnvelopeFromJson(std::string(R"({"payload":")") + payload +
                                          R"(","payloadType":"a/b","signatures":[{"sig":"cw"}]})"));
    EXPECT_EQ(plan.payload(), "\xfb\xff");
    EXPECT_EQ(plan.signatures(0).sig(), "s");
    EXPECT_EQ(plan.signatures(0).key_id(), "");
  }
}

TEST(EnvelopeJson, NamesTheFieldThatIsWrong) {
  struct Case {
    std::string text;
    const char* message;
  };
  const std::vector<Case> cases = {
      {"", "envelope"},
      {"{", "not JSON"},
      {"[]", "JSON object"},
      {"{}", "no signed plan"},
      {R"({"cluster":"lab","layers":[]})", "no signed plan"},
      {R"({"payloadType":"a","signatures":[{"sig":""}]})", "envelope.payload"},
      {R"({"payload":"AA","signatures":[{"sig":""}]})", "envelope.payloadType"},
      {R"({"payload":1,"payloadType":"a","signatures":[{"sig":""}]})", "envelope.payload"},
      {R"({"payload":"A A","payloadType":"a","signatures":[{"sig":""}]})", "base64"},
      {R"({"payload":"AA","payloadType":"a"})", "envelope.signatures"},
      {R"({"payload":"AA","payloadType":"a","signatures":[]})", "envelope.signatures"},
      {R"({"payload":"AA","payloadType":"a","signatures":{}})", "envelope.signatures"},
      {R"({"payload":"AA","payloadType":"a","signatures":["AA"]})", "signatures[0]"},
      {R"({"payload":"AA","payloadType":"a","signatures":[{"sig":"AA"},{}]})", "signatures[1].sig"},
      {R"({"payload":"AA","payloadType":"a","signatures":[{"sig":"AA","keyid":1}]})",
       "signatures[0].keyid"},
      {R"({"payload":"AA","payloadType":"a","signatures":[{"sig":"AA","x":1}]})",
       "signatures[0].x"},
      {R"({"payload":"AA","payload":"AA","payloadType":"a","signatures":[{"sig":"AA"}]})",
       "`payload` twice"},
      {R"({"payload":"AA","payloadType":"a","signatures":[{"sig":"AA"}],"x":1})", "envelope.x"},
      {R"({"payload":"AA","payloadType":"a","signatures":[{"sig":"AA"}]} 1)", "not JSON"},
  };
  for (const Case& c : cases) {
    const absl::StatusOr<v1::SignedPlan> plan = EnvelopeFromJson(c.text);
    EXPECT_THAT(plan, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(c.message))) << c.text;
    EXPECT_EQ(ReasonOf(plan), Reason::kPayloadMalformed) << c.text;
  }
}

TEST(EnvelopeJson, RefusesMoreThan16MebibytesAndReadsThatMuch) {
  const std::string head = R"({"payloadType":"a","signatures":[{"sig":"AA"}],"payload":")";
  const std::string tail = "\"}";
  const size_t room = kMaxEnvelopeJsonBytes - head.size() - tail.size();
  const std::string largest = head + std::string(room / 4 * 4, 'A') + tail;
  EXPECT_OK(EnvelopeFromJson(largest));
  EXPECT_THAT(EnvelopeFromJson(largest + "     "),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("bytes")));
}

TEST(EnvelopeJson, TextThatIsNoUtf8IsWrittenWithoutACrash) {
  v1::SignedPlan plan;
  plan.set_payload_type("\xff");
  EXPECT_THAT(EnvelopeToJson(plan), HasSubstr("payloadType"));
}

}  // namespace
}  // namespace parplan
