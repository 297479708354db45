// A queue on disk of profiles to be uploaded to the server. The daemon pushes; the `Uploader`
// takes.

#ifndef PARPLAN_PROFILER_AGENT_UPLOAD_UPLOAD_QUEUE_H_
#define PARPLAN_PROFILER_AGENT_UPLOAD_UPLOAD_QUEUE_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "clients/delivery/record_folder.h"

namespace parplan {

// One upload. REQUIRES, unchecked: neither `request_id` nor `parent` has a line feed, which would
// end it when the record is read again.
struct PendingUpload {
  // Same in every attempt, so that the server stores the profile once.
  std::string request_id;
  // `clusters/{cluster}/nodes/{node}`.
  std::string parent;
  // A serialized `parplan.v1.Profile`.
  std::string profile;
};

// A first-in, first-out queue that survives crashes. Safe to use from any thread; but only one
// thread may take, that is, call `Front` and then `PopFront` or `RefuseFront`.
class UploadQueue {
 public:
  // Profiles that may wait; more are refused. Not measured: chosen so that a server that is away
  // for days cannot fill the disk.
  static constexpr int kMaxLength = 256;

  // Opens the queue in `folder`, with the uploads of an earlier process first. FAILED_PRECONDITION
  // (STORE_UNAVAILABLE) if the folder cannot be used, UNAVAILABLE (STORE_UNAVAILABLE) if it cannot
  // be read. One process at a time may use it, which is
  // not checked.
  static absl::StatusOr<std::unique_ptr<UploadQueue>> Open(const std::string& folder);

  // Appends an upload. After OK it survives until it is popped or refused. UNAVAILABLE
  // (STORE_UNAVAILABLE) if it cannot be written, RESOURCE_EXHAUSTED (QUEUE_FULL) if kMaxLength are
  // waiting.
  absl::Status Push(const PendingUpload& upload);

  // Returns the oldest upload, which stays in the queue; absent if there is none. Damaged records
  // are renamed to `*.damaged` and counted, and those that someone has deleted are passed over.
  // UNAVAILABLE (STORE_UNAVAILABLE) if the disk cannot be read, or a damaged record not renamed.
  absl::StatusOr<std::optional<PendingUpload>> Front();

  // Removes the upload returned by the last `Front`, which the server now has. Call one of these
  // two, once, after a `Front` that returned an upload: they take the oldest record. UNAVAILABLE
  // (STORE_UNAVAILABLE) if the disk refuses, here and below; OK if the queue is empty.
  absl::Status PopFront();
  // Renames the upload returned by `Front`, which the server will never accept, to `*.refused` and
  // keeps it for people.
  absl::Status RefuseFront();

  // Returns how many wait, damaged records that `Front` has not met yet among them.
  int length() const;
  // Damaged records found since construction.
  int64_t damaged_count() const;

 private:
  UploadQueue(std::unique_ptr<RecordFolder> folder, const std::vector<std::string>& records);

  mutable std::mutex mutex_;
  // Guarded by mutex_, as are the members below.
  const std::unique_ptr<RecordFolder> folder_;
  // Names of the records: numbers with leading zeros.
  std::set<std::string> names_;
  uint64_t next_number_ = 1;
  int64_t damaged_count_ = 0;
};

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_UPLOAD_UPLOAD_QUEUE_H_
