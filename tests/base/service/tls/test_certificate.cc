#include "tests/base/service/tls/test_certificate.h"

#include <openssl/asn1.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <cstddef>
#include <memory>

#include "base/system/openssl_handles.h"

namespace parplan {
namespace {

std::string TextOf(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return std::string(data, static_cast<size_t>(size));
}

}  // namespace

TestCertificate MakeTestCertificate(absl::Time start, absl::Time end, const std::string& name) {
  const KeyHandle key(EVP_EC_gen("P-256"));
  const std::unique_ptr<X509, decltype(&X509_free)> certificate(X509_new(), &X509_free);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), 1);
  ASN1_TIME_set(X509_getm_notBefore(certificate.get()), absl::ToTimeT(start));
  ASN1_TIME_set(X509_getm_notAfter(certificate.get()), absl::ToTimeT(end));
  X509_set_pubkey(certificate.get(), key.get());
  if (!name.empty()) {
    X509_NAME* const subject = X509_get_subject_name(certificate.get());
    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>(name.data()),
                               static_cast<int>(name.size()), -1, 0);
    X509_set_issuer_name(certificate.get(), subject);
  }
  X509_sign(certificate.get(), key.get(), EVP_sha256());
  const BioHandle certificate_text(BIO_new(BIO_s_mem()));
  PEM_write_bio_X509(certificate_text.get(), certificate.get());
  const BioHandle key_text(BIO_new(BIO_s_mem()));
  PEM_write_bio_PrivateKey(key_text.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  return {TextOf(certificate_text.get()), TextOf(key_text.get())};
}

}  // namespace parplan
