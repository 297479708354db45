#include "base/service/tls/pem_files.h"

#include <openssl/pem.h>
#include <openssl/x509.h>

#include <cstddef>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "base/system/openssl_handles.h"
#include "base/system/posix_file.h"

namespace parplan {
namespace {

// The CA certificates of a whole Linux distribution have 250 KB.
constexpr size_t kMaxPemBytes = size_t{16} << 20;

struct FreeCertificate {
  void operator()(X509* certificate) const { X509_free(certificate); }
};
using CertificateHandle = std::unique_ptr<X509, FreeCertificate>;

// Refuses encrypted keys; without a callback OpenSSL would ask for a passphrase on the terminal.
int NoPassphrase(char*, int, int, void*) { return -1; }

absl::Status Refuse(const char* field, const std::string& path, absl::string_view what) {
  return FieldError(Reason::kSpecInvalid, field, absl::StrCat("`", path, "` ", what));
}

absl::StatusOr<std::string> ReadText(const char* field, const std::string& path) {
  if (path.empty()) {
    return FieldError(Reason::kSpecInvalid, field,
                      "is missing; TLS needs a certificate and its key");
  }
  const absl::StatusOr<std::string> text = ReadFile(path, {.max_bytes = kMaxPemBytes});
  return text.ok() ? text : FieldError(Reason::kSpecInvalid, field, text.status().message());
}

// Returns the certificates in a text. The first is the holder's own, or any in a file of CAs.
absl::StatusOr<std::vector<CertificateHandle>> ParseCertificates(const char* field,
                                                                 const std::string& path,
                                                                 const std::string& text) {
  const BioHandle bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
  std::vector<CertificateHandle> certificates;
  // Reads blocks of TRUSTED CERTIFICATE too, because gRPC does: it stops in silence at the first
  // one that is damaged, and never sees those after it.
  while (X509* const next = PEM_read_bio_X509_AUX(bio.get(), nullptr, NoPassphrase, nullptr)) {
    certificates.emplace_back(next);
  }
  // Reading stops at the end of the text, or at a certificate that is damaged.
  const unsigned long error = ERR_peek_last_error();
  const bool at_end =
      ERR_GET_LIB(error) == ERR_LIB_PEM && ERR_GET_REASON(error) == PEM_R_NO_START_LINE;
  if (certificates.empty() || !at_end) {
    return Refuse(field, path,
                  absl::StrCat(certificates.empty() ? "holds no CERTIFICATE in PEM"
                                                    : "holds a damaged CERTIFICATE",
                               "; look at it with `openssl x509 -in FILE -noout -text`"));
  }
  return certificates;
}

absl::Time TimeOf(const ASN1_TIME* time) {
  std::tm broken_down = {};
  if (ASN1_TIME_to_tm(time, &broken_down) != 1) return absl::InfinitePast();
  return absl::FromTM(broken_down, absl::UTCTimeZone());
}

std::string Rfc3339(absl::Time time) {
  return absl::FormatTime(absl::RFC3339_sec, time, absl::UTCTimeZone());
}

absl::Status CheckWindow(const X509* certificate, const std::string& path, absl::Time now) {
  const absl::Time start = TimeOf(X509_get0_notBefore(certificate));
  const absl::Time end = TimeOf(X509_get0_notAfter(certificate));
  if (now > end) {
    return Refuse("tls_certificate", path,
                  absl::StrCat("expired on ", Rfc3339(end), "; renew it, or check the clock"));
  }
  if (now < start) {
    return Refuse("tls_certificate", path,
                  absl::StrCat("is not valid before ", Rfc3339(start), "; check the clock"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> ReadCertificates(const char* field, const std::string& path) {
  const OpensslErrorScope errors;
  PARPLAN_ASSIGN_OR_RETURN(std::string text, ReadText(field, path));
  PARPLAN_RETURN_IF_ERROR(ParseCertificates(field, path, text).status());
  return text;
}

absl::StatusOr<TlsKeyPair> ReadTlsKeyPair(const std::string& certificate_path,
                                          const std::string& key_path, absl::Time now) {
  const OpensslErrorScope errors;
  TlsKeyPair pair;
  PARPLAN_ASSIGN_OR_RETURN(pair.certificates, ReadText("tls_certificate", certificate_path));
  PARPLAN_ASSIGN_OR_RETURN(
      const std::vector<CertificateHandle> certificates,
      ParseCertificates("tls_certificate", certificate_path, pair.certificates));
  PARPLAN_RETURN_IF_ERROR(CheckWindow(certificates.front().get(), certificate_path, now));
  PARPLAN_ASSIGN_OR_RETURN(pair.key, ReadText("tls_key", key_path));
  const BioHandle bio(BIO_new_mem_buf(pair.key.data(), static_cast<int>(pair.key.size())));
  const KeyHandle key(PEM_read_bio_PrivateKey(bio.get(), nullptr, NoPassphrase, nullptr));
  if (key == nullptr) {
    return Refuse("tls_key", key_path, "holds no unencrypted PRIVATE KEY in PEM");
  }
  if (X509_check_private_key(certificates.front().get(), key.get()) != 1) {
    return Refuse("tls_key", key_path,
                  absl::StrCat("is not the key of the first certificate in `", certificate_path,
                               "`; renew both together"));
  }
  return pair;
}

std::optional<absl::Time> EndOfCertificate(const std::string& pem) {
  const OpensslErrorScope errors;
  const BioHandle bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  const CertificateHandle certificate(PEM_read_bio_X509(bio.get(), nullptr, NoPassphrase, nullptr));
  std::tm end = {};
  if (certificate == nullptr || ASN1_TIME_to_tm(X509_get0_notAfter(certificate.get()), &end) != 1) {
    return std::nullopt;
  }
  return absl::FromTM(end, absl::UTCTimeZone());
}

}  // namespace parplan
