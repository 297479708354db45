// Records in a folder that survive crashes, power cuts and full disks.

#ifndef PARPLAN_CLIENTS_DELIVERY_RECORD_FOLDER_H_
#define PARPLAN_CLIENTS_DELIVERY_RECORD_FOLDER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace parplan {

// A record is a file `<name>.record` with the SHA-256 of its content in front. It is written
// beside its place, synchronized and renamed, so that it is there whole or not at all. Names
// are letters, digits, `-` and `_`. To be used by one thread at a time, one process a folder.
class RecordFolder {
 public:
  // Makes the folder and those above it where they are missing, for this user alone, and
  // removes what a crash left half written. FAILED_PRECONDITION (STORE_UNAVAILABLE) naming the
  // folder where that can't be.
  static absl::StatusOr<std::unique_ptr<RecordFolder>> Open(const std::string& path);

  const std::string& path() const { return path_; }

  // Once it returns OK the record survives. UNAVAILABLE (STORE_UNAVAILABLE) naming file and
  // cause, such as a full disk: what was there before is still there.
  absl::Status Write(const std::string& name, absl::string_view content);

  // NOT_FOUND, UNAVAILABLE, or DATA_LOSS where the content is not what was written.
  absl::StatusOr<std::string> Read(const std::string& name) const;

  // OK too when there is none.
  absl::Status Remove(const std::string& name);

  // Keeps the file for people, as `<name>.<why>`, and for nobody else.
  absl::Status SetAside(const std::string& name, const std::string& why);

  // Of all records, sorted.
  std::vector<std::string> Names() const;

 private:
  explicit RecordFolder(std::string path) : path_(std::move(path)) {}
  std::string FileOf(const std::string& name) const;
  absl::Status SyncFolder() const;

  const std::string path_;
};

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_DELIVERY_RECORD_FOLDER_H_
