#include "executor/device/comm/handshake.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
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

}  // namespace

std::string DigestOf(absl::string_view text) {
  Digest digest;
  unsigned int size = 0;
  PARPLAN_CHECK(EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha256(), nullptr) ==
                1);
  return TextOf(digest, size);
}

std::string MakeProof(HandshakeSide side, const Handshake& handshake, absl::string_view token) {
  const std::string text =
      Transcript(side == HandshakeSide::kCaller ? "caller" : "listener", handshake);
  // Not null, which would mean no key at all.
  const std::string key(token);
  Digest digest;
  unsigned int size = 0;
  PARPLAN_CHECK(HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
                     reinterpret_cast<const unsigned char*>(text.data()), text.size(),
                     digest.data(), &size) != nullptr);
  return TextOf(digest, size);
}

bool IsProof(absl::string_view proof, HandshakeSide side, const Handshake& handshake,
             absl::string_view token) {
  const std::string right = MakeProof(side, handshake, token);
  return proof.size() == right.size() &&
         CRYPTO_memcmp(proof.data(), right.data(), right.size()) == 0;
}

std::string TlsKeyOf(const Handshake& handshake, absl::string_view token) {
  std::string info = Transcript("parplan tls", handshake);
  std::string secret(token);
  std::string key(kTlsKeySize, '\0');
  EVP_KDF* const algorithm = EVP_KDF_fetch(nullptr, OSSL_KDF_NAME_HKDF, nullptr);
  EVP_KDF_CTX* const context = EVP_KDF_CTX_new(algorithm);
  EVP_KDF_free(algorithm);
  std::string digest = "SHA256";
  const OSSL_PARAM parameters[] = {
      OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest.data(), 0),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, secret.data(), secret.size()),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, info.data(), info.size()),
      OSSL_PARAM_construct_end()};
  const int is_done =
      EVP_KDF_derive(context, reinterpret_cast<unsigned char*>(key.data()), key.size(), parameters);
  EVP_KDF_CTX_free(context);
  OPENSSL_cleanse(secret.data(), secret.size());
  PARPLAN_CHECK(is_done == 1);
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
