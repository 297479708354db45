#include "base/service/metrics/certificate_metrics.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <system_error>
#include <utility>
#include <vector>

namespace parplan {
namespace {

// Refuses encrypted blocks; without a callback OpenSSL would ask for a passphrase on the terminal.
int NoPassphrase(char* /*passphrase*/, int /*size*/, int /*is_write*/, void* /*data*/) {
  return -1;
}

std::optional<absl::Time> ExpiryOf(const X509& certificate) {
  std::tm end = {};
  if (ASN1_TIME_to_tm(X509_get0_notAfter(&certificate), &end) != 1) return std::nullopt;
  return absl::FromTM(end, absl::UTCTimeZone());
}

// A file, and the expiry it had when it was read last.
struct Watched {
  std::string label;
  std::string path;
  std::filesystem::file_time_type changed = {};
  std::optional<absl::Time> expiry;
};

class CertificateMetrics : public prometheus::Collectable {
 public:
  explicit CertificateMetrics(std::vector<Watched> files) : files_(std::move(files)) {}

  std::vector<prometheus::MetricFamily> Collect() const override {
    prometheus::MetricFamily family;
    family.name = "parplan_tls_certificate_expiry_timestamp_seconds";
    family.help = "When the first certificate of a file to expire does so, in seconds since 1970.";
    family.type = prometheus::MetricType::Gauge;
    const std::lock_guard<std::mutex> lock(mutex_);
    for (Watched& file : files_) {
      Refresh(file);
      if (!file.expiry.has_value()) continue;
      prometheus::ClientMetric& metric = family.metric.emplace_back();
      metric.label.push_back({"file", file.label});
      metric.gauge.value = absl::ToDoubleSeconds(*file.expiry - absl::UnixEpoch());
    }
    if (family.metric.empty()) return {};
    return {std::move(family)};
  }

 private:
  static void Refresh(Watched& file) {
    std::error_code error;
    const std::filesystem::file_time_type changed =
        std::filesystem::last_write_time(file.path, error);
    if (error || (file.expiry.has_value() && changed == file.changed)) return;
    // A scrape must not wait for a writer of a pipe.
    if (!std::filesystem::is_regular_file(file.path, error)) return;
    std::ifstream stream(file.path, std::ios::binary);
    const std::string pem((std::istreambuf_iterator<char>(stream)),
                          std::istreambuf_iterator<char>());
    if (const std::optional<absl::Time> expiry = EarliestExpiry(pem)) {
      file.changed = changed;
      file.expiry = expiry;
    }
  }

  mutable std::mutex mutex_;
  mutable std::vector<Watched> files_;  // Guarded by mutex_.
};

}  // namespace

std::optional<absl::Time> EarliestExpiry(const std::string& pem) {
  const std::unique_ptr<BIO, decltype(&BIO_free)> text(
      BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())), &BIO_free);
  if (text == nullptr) return std::nullopt;
  std::optional<absl::Time> earliest;
  while (true) {
    const std::unique_ptr<X509, decltype(&X509_free)> certificate(
        PEM_read_bio_X509_AUX(text.get(), nullptr, NoPassphrase, nullptr), &X509_free);
    if (certificate == nullptr) break;
    if (const std::optional<absl::Time> expiry = ExpiryOf(*certificate)) {
      earliest = std::min(earliest.value_or(*expiry), *expiry);
    }
  }
  // OpenSSL reports the end of the text as an error.
  ERR_clear_error();
  return earliest;
}

std::shared_ptr<prometheus::Collectable> MakeCertificateMetrics(
    const std::map<std::string, std::string>& path_by_label) {
  std::vector<Watched> files;
  for (const auto& [label, path] : path_by_label) {
    if (!path.empty()) files.push_back({label, path, {}, std::nullopt});
  }
  if (files.empty()) return nullptr;
  return std::make_shared<CertificateMetrics>(std::move(files));
}

}  // namespace parplan
