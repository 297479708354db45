#include "executor/device/comm/handshake.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <array>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "base/system/openssl_handles.h"
#include "executor/device/comm/tls_session.h"

namespace parplan {
namespace {

using Digest = std::array<unsigned char, EVP_MAX_MD_SIZE>;

std::string TextOf(const Digest& digest, unsigned int size) {
  return {reinterpret_cast<const char*>(digest.data()), size};
}

absl::StatusOr<std::string> MakeNonce() {
  const OpensslErrorScope errors;
  std::array<unsigned char, kNonceSize> bytes;
  if (RAND_bytes(bytes.data(), bytes.size()) != 1) {
    return absl::UnavailableError("the system has no random bytes for a connection");
  }
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

// Returns the text of a proof, or of a key: `use`, and all that was said. Each part has its length
// before it, so that no two handshakes have one text.
std::string Transcript(const std::string& use, const Handshake& handshake) {
  std::string text;
  for (const std::string& part :
       {use, handshake.purpose, absl::StrCat(handshake.caller), absl::StrCat(handshake.listener),
        handshake.context, handshake.caller_nonce, handshake.listener_nonce}) {
    absl::StrAppend(&text, part.size(), ":", part);
  }
  return text;
}

// Returns HMAC-SHA256.
std::string HmacOf(absl::string_view key, absl::string_view text) {
  // Not null, which would mean no key at all.
  std::string copy(key);
  Digest digest;
  unsigned int size = 0;
  PARPLAN_CHECK(HMAC(EVP_sha256(), copy.data(), static_cast<int>(copy.size()),
                     reinterpret_cast<const unsigned char*>(text.data()), text.size(),
                     digest.data(), &size) != nullptr);
  OPENSSL_cleanse(copy.data(), copy.size());
  return TextOf(digest, size);
}

}  // namespace

std::string DigestOf(absl::string_view text) {
  Digest digest;
  unsigned int size = 0;
  PARPLAN_CHECK(EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha256(), nullptr) ==
                1);
  return TextOf(digest, size);
}

std::string MakeProof(HandshakeSide side, const Handshake& handshake, absl::string_view token) {
  return HmacOf(token,
                Transcript(side == HandshakeSide::kCaller ? "caller" : "listener", handshake));
}

bool IsProof(absl::string_view proof, HandshakeSide side, const Handshake& handshake,
             absl::string_view token) {
  const std::string right = MakeProof(side, handshake, token);
  return proof.size() == right.size() &&
         CRYPTO_memcmp(proof.data(), right.data(), right.size()) == 0;
}

std::string TlsKeyOf(const Handshake& handshake, absl::string_view token) {
  // HKDF (RFC 5869) without a salt, for a key of one block: extraction, and one round of expansion.
  // OpenSSL's own HKDF refuses short tokens where it is set to FIPS 140.
  static_assert(kTlsKeySize == kProofSize);
  std::string secret = HmacOf(std::string(kProofSize, '\0'), token);
  const std::string info = Transcript("parplan tls", handshake);
  std::string key = HmacOf(secret, absl::StrCat(info, absl::string_view("\1", 1)));
  OPENSSL_cleanse(secret.data(), secret.size());
  return key;
}

absl::Status SayHello(const Socket& socket, Handshake& handshake, absl::Duration deadline) {
  PARPLAN_ASSIGN_OR_RETURN(handshake.caller_nonce, MakeNonce());
  return WriteFrame(socket,
                    {.kind = FrameKind::kHello,
                     .number = static_cast<uint32_t>(handshake.caller),
                     .key = handshake.caller_nonce,
                     .value = handshake.context},
                    deadline);
}

absl::Status ProveTo(const Socket& socket, Handshake& handshake, absl::string_view token,
                     const std::string& value, absl::Duration deadline) {
  PARPLAN_ASSIGN_OR_RETURN(Frame challenge, ReadFrame(socket, deadline));
  if (challenge.kind == FrameKind::kRefused) return absl::PermissionDeniedError(challenge.value);
  if (challenge.kind != FrameKind::kChallenge || challenge.key.size() != kNonceSize) {
    return absl::InvalidArgumentError("it does not answer as a process of a job");
  }
  handshake.listener_nonce = std::move(challenge.key);
  if (!IsProof(challenge.value, HandshakeSide::kListener, handshake, token)) {
    (void)WriteFrame(socket, {.kind = FrameKind::kRefused}, deadline);
    return absl::PermissionDeniedError(
        "wrong token: it does not prove that it knows the token of this job; does another job, or "
        "another program, listen there?");
  }
  return WriteFrame(socket,
                    {.kind = FrameKind::kProof,
                     .key = MakeProof(HandshakeSide::kCaller, handshake, token),
                     .value = value},
                    deadline);
}

absl::StatusOr<Frame> ChallengeTo(const Frame& hello, Handshake& handshake,
                                  absl::string_view token) {
  if (hello.kind != FrameKind::kHello || hello.key.size() != kNonceSize) {
    return absl::InvalidArgumentError("say who you are first");
  }
  handshake.caller = static_cast<int>(hello.number);
  handshake.context = hello.value;
  handshake.caller_nonce = hello.key;
  PARPLAN_ASSIGN_OR_RETURN(handshake.listener_nonce, MakeNonce());
  return Frame{.kind = FrameKind::kChallenge,
               .key = handshake.listener_nonce,
               .value = MakeProof(HandshakeSide::kListener, handshake, token)};
}

}  // namespace parplan
