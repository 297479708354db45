#include "base/service/tls/revocation_lists.h"

#include <openssl/pem.h>
#include <openssl/x509.h>

#include <cstddef>
#include <ctime>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "base/system/openssl_handles.h"
#include "base/system/posix_file.h"

namespace parplan {
namespace {

constexpr char kField[] = "tls_crl_folder";

// A list has some 40 bytes for each certificate.
constexpr size_t kMaxListBytes = size_t{16} << 20;

struct FreeObject {
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(X509_CRL* list) const { X509_CRL_free(list); }
  void operator()(char* text) const { OPENSSL_free(text); }
};
using AuthorityHandle = std::unique_ptr<X509, FreeObject>;
using ListHandle = std::unique_ptr<X509_CRL, FreeObject>;

struct List {
  std::string name;
  std::string text;
  ListHandle list;
};

// Refuses encrypted blocks; without a callback OpenSSL would ask for a passphrase on the terminal.
int NoListPassphrase(char*, int, int, void*) { return -1; }

absl::Status RefuseLists(absl::string_view path, absl::string_view what) {
  return FieldError(Reason::kSpecInvalid, kField, absl::StrCat("`", path, "` ", what));
}

std::string NameOf(const X509_NAME* name) {
  const std::unique_ptr<char, FreeObject> text(X509_NAME_oneline(name, nullptr, 0));
  return text == nullptr ? "" : text.get();
}

// Returns the beginning of the names under which OpenSSL looks for an authority's lists.
std::string HashOf(const X509_NAME* name) {
  return absl::StrFormat("%08x.r", X509_NAME_hash(name));
}

// Returns whether a file may be one that OpenSSL reads: eight digits, `.r` and a number.
bool IsListName(absl::string_view name) {
  if (name.size() < 11 || name.substr(8, 2) != ".r") return false;
  for (const char c : name.substr(0, 8)) {
    if (!absl::ascii_isxdigit(static_cast<unsigned char>(c))) return false;
  }
  for (const char c : name.substr(10)) {
    if (!absl::ascii_isdigit(static_cast<unsigned char>(c))) return false;
  }
  return true;
}

absl::StatusOr<List> ReadList(const std::string& path, const std::string& name) {
  List list;
  list.name = name;
  absl::StatusOr<std::string> text = ReadFile(path, {.max_bytes = kMaxListBytes});
  if (!text.ok()) return FieldError(Reason::kSpecInvalid, kField, text.status().message());
  list.text = *std::move(text);
  const BioHandle bio(BIO_new_mem_buf(list.text.data(), static_cast<int>(list.text.size())));
  list.list.reset(PEM_read_bio_X509_CRL(bio.get(), nullptr, NoListPassphrase, nullptr));
  if (list.list == nullptr) {
    return RefuseLists(path,
                       "holds no X509 CRL in PEM; look at it with `openssl crl -in FILE -text`");
  }
  if (ListHandle(PEM_read_bio_X509_CRL(bio.get(), nullptr, NoListPassphrase, nullptr)) != nullptr) {
    return RefuseLists(path,
                       "holds two lists, of which gRPC would read one; give each its own file");
  }
  const std::string hash = HashOf(X509_CRL_get_issuer(list.list.get()));
  if (name.compare(0, hash.size(), hash) != 0) {
    return RefuseLists(
        path, absl::StrCat("is the list of ", NameOf(X509_CRL_get_issuer(list.list.get())),
                           ", for which gRPC looks at ", hash, "0; run `openssl rehash FOLDER`"));
  }
  return list;
}

absl::StatusOr<std::vector<List>> ReadLists(const std::string& folder) {
  std::error_code error;
  // By name.
  std::map<std::string, std::string> paths;
  for (std::filesystem::directory_iterator each(folder, error), end; !error && each != end;
       each.increment(error)) {
    const std::string name = each->path().filename().string();
    if (IsListName(name)) paths.emplace(name, each->path().string());
  }
  if (error) return RefuseLists(folder, absl::StrCat("cannot be read: ", error.message()));
  std::vector<List> lists;
  for (const auto& [name, path] : paths) {
    PARPLAN_ASSIGN_OR_RETURN(List list, ReadList(path, name));
    lists.push_back(std::move(list));
  }
  return lists;
}

// Checks that the authority has a list that counts at `now`.
absl::Status CheckAuthority(X509* authority, const std::vector<List>& lists,
                            const std::string& folder, absl::Time now) {
  const X509_NAME* const subject = X509_get_subject_name(authority);
  std::time_t when = absl::ToTimeT(now);
  std::string why = absl::StrCat("lacks the revocation list of ", NameOf(subject),
                                 "; write it there and run `openssl rehash FOLDER`");
  for (const List& each : lists) {
    X509_CRL* const list = each.list.get();
    if (X509_NAME_cmp(X509_CRL_get_issuer(list), subject) != 0) continue;
    const ASN1_TIME* const end = X509_CRL_get0_nextUpdate(list);
    if (X509_CRL_verify(list, X509_get0_pubkey(authority)) != 1) {
      why = absl::StrCat("has ", each.name, ", which the key of ", NameOf(subject),
                         " did not sign; write the authority's own list");
    } else if (X509_cmp_time(X509_CRL_get0_lastUpdate(list), &when) > 0) {
      why = absl::StrCat("has ", each.name, ", a list that is not valid yet; check the clock");
    } else if (end != nullptr && X509_cmp_time(end, &when) < 0) {
      why = absl::StrCat("has ", each.name, ", a list of ", NameOf(subject),
                         " that has expired, with which all its certificates are refused; write a "
                         "new one");
    } else {
      return absl::OkStatus();
    }
  }
  return RefuseLists(folder, why);
}

}  // namespace

absl::StatusOr<std::string> ReadRevocationLists(const std::string& folder,
                                                const std::string& authorities, absl::Time now) {
  const OpensslErrorScope errors;
  PARPLAN_ASSIGN_OR_RETURN(const std::vector<List> lists, ReadLists(folder));
  const BioHandle bio(BIO_new_mem_buf(authorities.data(), static_cast<int>(authorities.size())));
  while (const AuthorityHandle authority{
      PEM_read_bio_X509_AUX(bio.get(), nullptr, NoListPassphrase, nullptr)}) {
    PARPLAN_RETURN_IF_ERROR(CheckAuthority(authority.get(), lists, folder, now));
  }
  std::string all;
  for (const List& each : lists) absl::StrAppend(&all, each.text);
  return all;
}

}  // namespace parplan
