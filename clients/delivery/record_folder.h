// Records in a folder that survive crashes, power cuts and full disks. The agent's upload queue and
// record of measurements, and the sidecar's journal are such folders.

#ifndef PARPLAN_CLIENTS_DELIVERY_RECORD_FOLDER_H_
#define PARPLAN_CLIENTS_DELIVERY_RECORD_FOLDER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace parplan {

// A folder of records. A record is a file `<name>.record` that begins with the SHA-256 of its
// content. It is written beside its place, synced and renamed, so it is there whole or not at all.
// Names consist of ASCII letters, digits, `-` and `_`, at least one; another name aborts the
// program. Used by one thread at a time, and by one process per folder. Errors UNAVAILABLE have the
// reason STORE_UNAVAILABLE.
class RecordFolder {
 public:
  // Creates the folder and its parents if they are missing, gives the folder to this user alone
  // (mode 0700, also if it was there), and removes files that a crash left half written (`*.new`),
  // both of these as far as the system allows. FAILED_PRECONDITION (STORE_UNAVAILABLE) naming the
  // folder if it can't be made, or this user may not read and write in it.
  static absl::StatusOr<std::unique_ptr<RecordFolder>> Open(const std::string& path);

  // Returns the path given to `Open`.
  const std::string& path() const { return path_; }

  // Writes or replaces a record. Once it returns OK, the record survives a power cut. UNAVAILABLE
  // (STORE_UNAVAILABLE) naming file and cause, such as a full disk; an older record is kept then,
  // unless only the folder could not be synced: a power cut then leaves the one or the other.
  absl::Status Write(const std::string& name, absl::string_view content);

  // Returns the content of a record. NOT_FOUND if there is none, UNAVAILABLE if it can't be read or
  // has more than 1 GiB, which `Write` does not check, or DATA_LOSS if the content does not match
  // its digest. NOT_FOUND and DATA_LOSS have no reason.
  absl::StatusOr<std::string> Read(const std::string& name) const;

  // Removes a record; OK if there is none. UNAVAILABLE if the disk fails.
  absl::Status Remove(const std::string& name);

  // Renames the file to `<name>.<why>`, replacing such a file: people can look at it, but it is not
  // a record any more. REQUIRES: `why` is an ending of file names, and neither `record` nor `new`,
  // which `Open` removes; not checked. UNAVAILABLE if there is no such record or the disk fails.
  absl::Status SetAside(const std::string& name, const std::string& why);

  // Lists the names of all records, sorted. UNAVAILABLE if the folder can't be read: a caller that
  // took a part of them for all would write over the others.
  absl::StatusOr<std::vector<std::string>> Names() const;

 private:
  explicit RecordFolder(std::string path) : path_(std::move(path)) {}
  std::string FileOf(const std::string& name) const;
  absl::Status SyncFolder() const;

  const std::string path_;
};

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_DELIVERY_RECORD_FOLDER_H_
