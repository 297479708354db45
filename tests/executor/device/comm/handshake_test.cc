#include "executor/device/comm/handshake.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

Handshake Example() {
  return {.purpose = kRanksPurpose,
          .caller = 3,
          .listener = 1,
          .context = "links",
          .caller_nonce = std::string(kNonceSize, 'c'),
          .listener_nonce = std::string(kNonceSize, 'l')};
}

// Changes to all that both have said, each of another part.
std::vector<std::function<void(Handshake&)>> Changes() {
  return {[](Handshake& other) { other.purpose = kMeetingPurpose; },
          [](Handshake& other) { other.caller = 2; }, [](Handshake& other) { other.listener = 3; },
          [](Handshake& other) { std::swap(other.caller, other.listener); },
          [](Handshake& other) { other.listener = kRendezvousRank; },
          [](Handshake& other) { other.context = "link"; },
          [](Handshake& other) { other.caller_nonce[31] = 'x'; },
          [](Handshake& other) { other.listener_nonce[0] = 'x'; },
          [](Handshake& other) { std::swap(other.caller_nonce, other.listener_nonce); },
          // A byte that moves from one text to the next.
          [](Handshake& other) {
            other.context += 'c';
            other.caller_nonce.pop_back();
          },
          [](Handshake& other) {
            other.caller_nonce += 'l';
            other.listener_nonce.pop_back();
          }};
}

// The values are of Python:
//   parts = [side, b"parplan ranks 2", b"3", b"1", b"links", b"c" * 32, b"l" * 32]
//   text = b"".join(b"%d:%s" % (len(part), part) for part in parts)
//   hmac.new(b"secret", text, hashlib.sha256).hexdigest()
TEST(Handshake, AProofIsTheHmacOfAllThatWasSaid) {
  EXPECT_EQ(absl::BytesToHexString(MakeProof(HandshakeSide::kCaller, Example(), "secret")),
            "942522f6cd2ffaf2287935138877a1364a843fa30c76bef102f118ce8e526e24");
  EXPECT_EQ(absl::BytesToHexString(MakeProof(HandshakeSide::kListener, Example(), "secret")),
            "6863a62c61ecb8cf3a0a7529169e2519c8d0f7966a8fe329e3e3d42f7a1a4d3f");
  EXPECT_EQ(absl::BytesToHexString(DigestOf("abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

// The value is of Python, with `text` as above and b"parplan tls" for the side:
//   prk = hmac.new(b"\0" * 32, b"secret", hashlib.sha256).digest()
//   hmac.new(prk, text + b"\1", hashlib.sha256).hexdigest()
TEST(Handshake, TheKeyOfTlsIsDerivedFromTheTokenAndAllThatWasSaid) {
  EXPECT_EQ(absl::BytesToHexString(TlsKeyOf(Example(), "secret")),
            "0eb2131c5bb830cee3b6da2d68e92c8c84d0ec62f50e98f998b97f729511f50e");
  std::set<std::string> keys = {TlsKeyOf(Example(), "secret"), TlsKeyOf(Example(), "secres"),
                                MakeProof(HandshakeSide::kCaller, Example(), "secret"),
                                MakeProof(HandshakeSide::kListener, Example(), "secret")};
  const std::vector<std::function<void(Handshake&)>> changes = Changes();
  for (const std::function<void(Handshake&)>& change : changes) {
    Handshake other = Example();
    change(other);
    keys.insert(TlsKeyOf(other, "secret"));
  }
  EXPECT_EQ(keys.size(), 4 + changes.size());
}

TEST(Handshake, AProofIsGoodForOneConnectionOneSideAndOneToken) {
  const std::string proof = MakeProof(HandshakeSide::kCaller, Example(), "secret");
  EXPECT_TRUE(IsProof(proof, HandshakeSide::kCaller, Example(), "secret"));
  EXPECT_FALSE(IsProof(proof, HandshakeSide::kListener, Example(), "secret"));
  EXPECT_FALSE(IsProof(proof, HandshakeSide::kCaller, Example(), "secres"));
  EXPECT_FALSE(IsProof(proof, HandshakeSide::kCaller, Example(), ""));
  EXPECT_FALSE(IsProof(proof.substr(1), HandshakeSide::kCaller, Example(), "secret"));
  EXPECT_FALSE(IsProof("", HandshakeSide::kCaller, Example(), "secret"));
  const std::vector<std::function<void(Handshake&)>> changes = Changes();
  for (size_t k = 0; k < changes.size(); ++k) {
    Handshake other = Example();
    changes[k](other);
    EXPECT_FALSE(IsProof(proof, HandshakeSide::kCaller, other, "secret")) << k;
  }
}

TEST(Handshake, AHelloWithoutANonceIsNotChallenged) {
  Handshake handshake = {.purpose = kMeetingPurpose};
  for (const Frame& hello :
       {Frame{.kind = FrameKind::kHello, .key = "secret"},
        Frame{.kind = FrameKind::kProof, .key = std::string(kNonceSize, 'n')}}) {
    EXPECT_THAT(ChallengeTo(hello, handshake, "secret").status(),
                StatusIs(absl::StatusCode::kInvalidArgument));
  }
  const Frame hello = {.kind = FrameKind::kHello, .number = 7, .key = std::string(kNonceSize, 'n')};
  ASSERT_OK_AND_ASSIGN(const Frame first, ChallengeTo(hello, handshake, "secret"));
  EXPECT_EQ(handshake.caller, 7);
  EXPECT_TRUE(IsProof(first.value, HandshakeSide::kListener, handshake, "secret"));
  ASSERT_OK_AND_ASSIGN(const Frame second, ChallengeTo(hello, handshake, "secret"));
  EXPECT_NE(first.key, second.key);
  EXPECT_NE(first.value, second.value);
}

}  // namespace
}  // namespace parplan
