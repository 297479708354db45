#include "server/access/identity.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace parplan {
namespace {

constexpr char kSpiffeScheme[] = "spiffe:";
constexpr char kSpiffePrefix[] = "spiffe://";
constexpr size_t kMaxSpiffeBytes = 2048;
constexpr size_t kMaxDnsBytes = 253;
constexpr size_t kMaxNamespaceBytes = 63;
// X.509 allows 64 characters of at most 4 bytes.
constexpr size_t kMaxCommonNameBytes = 256;
// The default of the kernel's `overflowuid`.
constexpr uid_t kOverflowUser = 65534;

bool IsDomainCharacter(char c) {
  return absl::ascii_islower(static_cast<unsigned char>(c)) ||
         absl::ascii_isdigit(static_cast<unsigned char>(c)) || c == '.' || c == '-' || c == '_';
}

bool IsPathSegment(absl::string_view segment) {
  return !segment.empty() && segment != "." && segment != ".." &&
         std::all_of(segment.begin(), segment.end(), [](char c) {
           return IsDomainCharacter(c) || absl::ascii_isupper(static_cast<unsigned char>(c));
         });
}

// Names of ASCII alone: two texts that look alike are then equal.
bool IsCommonName(absl::string_view name) {
  return !name.empty() && name.size() <= kMaxCommonNameBytes &&
         std::all_of(name.begin(), name.end(),
                     [](char c) { return c >= ' ' && c < '\x7f' && c != '*'; });
}

// A label of a DNS name, as Kubernetes allows it for namespaces, or labels separated by dots, as
// for service accounts.
bool IsKubernetesName(absl::string_view name, size_t max_bytes, bool may_have_dots) {
  return !name.empty() && name.size() <= max_bytes &&
         std::all_of(name.begin(), name.end(), [may_have_dots](char c) {
           return absl::ascii_islower(static_cast<unsigned char>(c)) ||
                  absl::ascii_isdigit(static_cast<unsigned char>(c)) || c == '-' ||
                  (c == '.' && may_have_dots);
         });
}

}  // namespace

bool IsSpiffeId(absl::string_view text) {
  if (text.size() > kMaxSpiffeBytes || !absl::ConsumePrefix(&text, kSpiffePrefix)) return false;
  const std::vector<absl::string_view> parts = absl::StrSplit(text, '/');
  return !parts[0].empty() && std::all_of(parts[0].begin(), parts[0].end(), IsDomainCharacter) &&
         std::all_of(parts.begin() + 1, parts.end(), IsPathSegment);
}

Identity Identity::OfCertificate(const CertificateNames& names,
                                 absl::Span<const NameSource> sources) {
  std::vector<absl::string_view> spiffe;
  for (const std::string& uri : names.uris) {
    if (absl::StartsWithIgnoreCase(uri, kSpiffeScheme)) spiffe.push_back(uri);
  }
  if (!spiffe.empty()) {
    if (spiffe.size() > 1 || !IsSpiffeId(spiffe[0])) return Unnamed();
    return Identity(std::string(spiffe[0]));
  }
  for (const NameSource source : sources) {
    if (source == NameSource::kDns && !names.dns_names.empty()) {
      const std::string name = absl::AsciiStrToLower(names.dns_names[0]);
      const bool is_good = !name.empty() && name.size() <= kMaxDnsBytes &&
                           std::all_of(name.begin(), name.end(), IsDomainCharacter);
      return is_good ? Identity(absl::StrCat("dns:", name)) : Unnamed();
    }
    if (source == NameSource::kCommonName && !names.common_names.empty()) {
      const std::string& name = names.common_names[0];
      return IsCommonName(name) ? Identity(absl::StrCat("cn:", name)) : Unnamed();
    }
  }
  return Unnamed();
}

std::optional<Identity> Identity::OfServiceAccount(absl::string_view subject) {
  if (!absl::ConsumePrefix(&subject, "system:serviceaccount:")) return std::nullopt;
  const std::vector<absl::string_view> parts = absl::StrSplit(subject, ':');
  if (parts.size() != 2 || !IsKubernetesName(parts[0], kMaxNamespaceBytes, false) ||
      !IsKubernetesName(parts[1], kMaxDnsBytes, true)) {
    return std::nullopt;
  }
  return Identity(absl::StrCat("k8s:", parts[0], "/", parts[1]));
}

Identity Identity::OfLocalUser(uid_t user) {
  return user == kOverflowUser ? Unnamed() : Identity(absl::StrCat("uid:", user));
}

}  // namespace parplan
