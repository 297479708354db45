// Owners of OpenSSL objects, and a guard for its queue of errors. The readers of keys and
// certificates hold such objects.

#ifndef PARPLAN_BASE_SYSTEM_OPENSSL_HANDLES_H_
#define PARPLAN_BASE_SYSTEM_OPENSSL_HANDLES_H_

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>

#include <memory>

namespace parplan {

// Deleter of the handles below. Each owns its object and is null if OpenSSL could not make it.
struct OpensslDeleter {
  void operator()(BIO* bio) const { BIO_free_all(bio); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
  void operator()(EVP_PKEY_CTX* context) const { EVP_PKEY_CTX_free(context); }
};

using BioHandle = std::unique_ptr<BIO, OpensslDeleter>;
using KeyHandle = std::unique_ptr<EVP_PKEY, OpensslDeleter>;
using DigestContextHandle = std::unique_ptr<EVP_MD_CTX, OpensslDeleter>;
using KeyContextHandle = std::unique_ptr<EVP_PKEY_CTX, OpensslDeleter>;

// Drops, when it ends, the errors that OpenSSL queued for this thread since construction. A TLS
// connection served by the same thread would take them for its own.
class OpensslErrorScope {
 public:
  OpensslErrorScope() { ERR_set_mark(); }
  ~OpensslErrorScope() { ERR_pop_to_mark(); }
  OpensslErrorScope(const OpensslErrorScope&) = delete;
  OpensslErrorScope& operator=(const OpensslErrorScope&) = delete;
};

}  // namespace parplan

#endif  // PARPLAN_BASE_SYSTEM_OPENSSL_HANDLES_H_
