// Signs JSON Web Tokens as an issuer of service accounts does.

#ifndef PARPLAN_TESTS_SERVER_ACCESS_TOKEN_SIGNER_H_
#define PARPLAN_TESTS_SERVER_ACCESS_TOKEN_SIGNER_H_

#include <openssl/evp.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

namespace parplan {

// A key to sign with, and how a set has it.
struct TokenSigner {
  std::shared_ptr<EVP_PKEY> key;
  std::string algorithm;
  std::string json;
};

// Return a new key with this id.
TokenSigner RsaSigner(const std::string& id, unsigned int bits = 2048);
TokenSigner EcSigner(const std::string& id);

// Returns base64url without padding.
std::string Encode(const std::string& bytes);

// Returns the signature of a text, as tokens have it.
std::string Sign(const TokenSigner& signer, const std::string& text);

// Returns a signed token.
std::string MakeToken(const TokenSigner& signer, const nlohmann::json& header,
                      const nlohmann::json& claims);

}  // namespace parplan

#endif  // PARPLAN_TESTS_SERVER_ACCESS_TOKEN_SIGNER_H_
