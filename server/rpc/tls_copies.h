// Keeps the last files of TLS that were good, for gRPC to read: it reads renewed files by itself,
// and with a wrong one it would refuse every new caller until the file is mended. `RpcServer` has
// one.

#ifndef PARPLAN_SERVER_RPC_TLS_COPIES_H_
#define PARPLAN_SERVER_RPC_TLS_COPIES_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/system/posix_file.h"
#include "server/rpc/server_credentials.h"

namespace parplan {

// Copies of a certificate, its key and the CA of clients, in memory. Used by one thread; gRPC reads
// the copies from others.
class TlsCopies {
 public:
  // Reads the files. INVALID_ARGUMENT (SPEC_INVALID) naming the setting for one that cannot be used
  // (pem_files.h), UNAVAILABLE if the system gives no memory for files. REQUIRES, unchecked:
  // `files` are not empty.
  static absl::StatusOr<std::unique_ptr<TlsCopies>> Make(const TlsFiles& files, absl::Time now);

  // The paths of the copies, for as long as this object lives.
  const TlsFiles& copies() const { return copies_; }

  // Reads the files again, and copies them if they are good and others than before. Revocation
  // lists stay in their folder; other ones count as another file of CAs, since gRPC reads lists
  // again only with that. Else returns the error of `Make`; the copies are then as they were.
  absl::Status Refresh(absl::Time now);

 private:
  // A file without a name.
  struct Copy {
    FileDescriptor file;
    std::string contents;
  };

  explicit TlsCopies(const TlsFiles& files) : files_(files) {}

  // A written file, which is to take the place of a copy.
  struct Renewal {
    Copy* copy = nullptr;
    FileDescriptor file;
    std::string contents;
  };

  // Writes the contents to a new file if the copy has others, or none yet, and appends it to
  // `renewals`.
  static absl::Status Prepare(const std::string& contents, Copy& copy,
                              std::vector<Renewal>& renewals);

  const TlsFiles files_;
  TlsFiles copies_;
  Copy certificate_;
  Copy key_;
  Copy client_ca_;
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_RPC_TLS_COPIES_H_
