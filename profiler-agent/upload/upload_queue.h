// Profiles on their way to the server, kept on disk until it has them.

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

struct PendingUpload {
  // The same in every attempt, so that the server stores it once.
  std::string request_id;
  // `clusters/{cluster}/nodes/{node}`.
  std::string parent;
  // A serialized `parplan.v1.Profile`.
  std::string profile;
};

// First in, first out. Safe to use from any thread.
class UploadQueue {
 public:
  static constexpr int kMaxLength = 256;

  // Those of an earlier process come first. The errors of RecordFolder::Open.
  static absl::StatusOr<std::unique_ptr<UploadQueue>> Open(const std::string& folder);

  // Once it returns OK, the upload survives until it is done or refused. The errors of
  // RecordFolder::Write; RESOURCE_EXHAUSTED (QUEUE_FULL) when kMaxLength wait.
  absl::Status Push(const PendingUpload& upload);

  // The oldest; absent when there is none. Damaged ones are set aside (`*.damaged`) and
  // counted. UNAVAILABLE when the disk does not let it be read.
  absl::StatusOr<std::optional<PendingUpload>> Front();

  // The server has the one that `Front` gave.
  absl::Status PopFront();
  // The server will never take it: kept as `*.refused` for people.
  absl::Status RefuseFront();

  int length() const;
  int64_t damaged_count() const;

 private:
  explicit UploadQueue(std::unique_ptr<RecordFolder> folder);

  mutable std::mutex mutex_;
  // Guarded by mutex_, as the rest.
  const std::unique_ptr<RecordFolder> folder_;
  // Of records: a number with leading zeros.
  std::set<std::string> names_;
  uint64_t next_number_ = 1;
  int64_t damaged_count_ = 0;
};

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_UPLOAD_UPLOAD_QUEUE_H_
