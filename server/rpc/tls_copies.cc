#include "server/rpc/tls_copies.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "base/service/tls/pem_files.h"
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
  return made;
}

absl::Status TlsCopies::Refresh(absl::Time now) {
  PARPLAN_ASSIGN_OR_RETURN(const TlsKeyPair pair,
                           ReadTlsKeyPair(files_.certificate, files_.key, now));
  std::string client_ca;
  if (!files_.client_ca.empty()) {
    PARPLAN_ASSIGN_OR_RETURN(client_ca, ReadCertificates("tls_client_ca", files_.client_ca));
    PARPLAN_RETURN_IF_ERROR(Write(client_ca, client_ca_));
  }
  // gRPC compares the times of both files before and after it reads them, so it takes no key with
  // another certificate.
  PARPLAN_RETURN_IF_ERROR(Write(pair.key, key_));
  return Write(pair.certificates, certificate_);
}

absl::Status TlsCopies::Write(const std::string& contents, Copy& copy) {
  if (copy.file.is_open() && copy.contents == contents) return absl::OkStatus();
  if (!copy.file.is_open()) {
    copy.file = FileDescriptor(memfd_create("parplan-tls", MFD_CLOEXEC));
    if (!copy.file.is_open()) return CannotCopy(errno);
  }
  copy.contents.clear();
  if (ftruncate(copy.file.get(), 0) != 0 || lseek(copy.file.get(), 0, SEEK_SET) != 0) {
    return CannotCopy(errno);
  }
  const int error = WriteAll(copy.file.get(), contents);
  if (error != 0) return CannotCopy(error);
  copy.contents = contents;
  return absl::OkStatus();
}

}  // namespace parplan
