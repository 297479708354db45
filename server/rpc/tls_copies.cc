#include "server/rpc/tls_copies.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/service/tls/pem_files.h"
#include "base/service/tls/revocation_lists.h"
#include "base/status_macros.h"

namespace parplan {
namespace {

std::string PathOf(const FileDescriptor& file) {
  return absl::StrCat("/proc/self/fd/", file.get());
}

absl::Status CannotCopy(int error) {
  return absl::UnavailableError(DescribeErrno(error, "cannot copy the files of TLS to memory"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<TlsCopies>> TlsCopies::Make(const TlsFiles& files, absl::Time now) {
  std::unique_ptr<TlsCopies> made(new TlsCopies(files));
  PARPLAN_RETURN_IF_ERROR(made->Refresh(now));
  made->copies_.certificate = PathOf(made->certificate_.file);
  made->copies_.key = PathOf(made->key_.file);
  if (!files.client_ca.empty()) made->copies_.client_ca = PathOf(made->client_ca_.file);
  made->copies_.crl_folder = files.crl_folder;
  return made;
}

absl::Status TlsCopies::Refresh(absl::Time now) {
  PARPLAN_ASSIGN_OR_RETURN(const TlsKeyPair pair,
                           ReadTlsKeyPair(files_.certificate, files_.key, now));
  std::vector<Renewal> renewals;
  if (!files_.client_ca.empty()) {
    PARPLAN_ASSIGN_OR_RETURN(std::string client_ca,
                             ReadCertificates("tls_client_ca", files_.client_ca));
    if (!files_.crl_folder.empty()) {
      PARPLAN_ASSIGN_OR_RETURN(const std::string lists,
                               ReadRevocationLists(files_.crl_folder, client_ca, now));
      // Readers of certificates pass over it.
      absl::StrAppend(&client_ca, "\n", lists);
    }
    PARPLAN_RETURN_IF_ERROR(Prepare(client_ca, client_ca_, renewals));
  }
  // gRPC compares the times of both files before and after it reads them, so it takes no key with
  // another certificate.
  PARPLAN_RETURN_IF_ERROR(Prepare(pair.key, key_, renewals));
  PARPLAN_RETURN_IF_ERROR(Prepare(pair.certificates, certificate_, renewals));
  // All are written: a full memory can no longer leave one of them old, or empty.
  for (Renewal& renewal : renewals) {
    Copy& copy = *renewal.copy;
    if (!copy.file.is_open()) {
      copy.file = std::move(renewal.file);
    } else if (dup3(renewal.file.get(), copy.file.get(), O_CLOEXEC) < 0) {
      return CannotCopy(errno);
    }
    copy.contents = std::move(renewal.contents);
  }
  return absl::OkStatus();
}

absl::Status TlsCopies::Prepare(const std::string& contents, Copy& copy,
                                std::vector<Renewal>& renewals) {
  if (copy.file.is_open() && copy.contents == contents) return absl::OkStatus();
  FileDescriptor file(memfd_create("parplan-tls", MFD_CLOEXEC));
  if (!file.is_open()) return CannotCopy(errno);
  const int error = WriteAll(file.get(), contents);
  if (error != 0) return CannotCopy(error);
  renewals.push_back({&copy, std::move(file), contents});
  return absl::OkStatus();
}

}  // namespace parplan
