// Links through memory that all ranks of a group on one machine share: a ring of bytes for
// each ordered pair, and a bell for each rank.

#ifndef PARPLAN_EXECUTOR_DEVICE_COMM_SHARED_MEMORY_LINKS_H_
#define PARPLAN_EXECUTOR_DEVICE_COMM_SHARED_MEMORY_LINKS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "executor/device/comm/link.h"

namespace parplan {

// The memory. It has no name in any file system: it is gone with the last process that
// maps it, however that ends.
class SharedSegment {
 public:
  // For `size` ranks. UNAVAILABLE when there is no memory for it.
  static absl::StatusOr<std::unique_ptr<SharedSegment>> Make(int size);
  // What another process of the same user made; `path` as it tells. It must not have been
  // `Closed` there yet.
  static absl::StatusOr<std::unique_ptr<SharedSegment>> Open(const std::string& path, int size);
  ~SharedSegment();
  SharedSegment(const SharedSegment&) = delete;
  SharedSegment& operator=(const SharedSegment&) = delete;

  // Where other processes find it, in the same namespace of processes.
  const std::string& path() const { return path_; }
  // Others cannot open it any more.
  void Close();

  char* data() const { return data_; }

 private:
  SharedSegment() = default;
  static absl::StatusOr<std::unique_ptr<SharedSegment>> Map(int descriptor, int size);

  int descriptor_ = -1;
  std::string path_;
  char* data_ = nullptr;
  int64_t byte_count_ = 0;
};

class SharedMemoryLinks : public LinkSet {
 public:
  // `spin_count`: looks at the bell before the thread sleeps; a few thousand where every
  // rank has a core of its own, few where ranks share cores.
  SharedMemoryLinks(std::unique_ptr<SharedSegment> segment, int rank, int size, int spin_count);
  ~SharedMemoryLinks() override;

  Link& link(int rank) override;
  uint32_t Ticket() override;
  void AwaitChange(uint32_t ticket, absl::Duration longest) override;

 private:
  class Ring;

  const std::unique_ptr<SharedSegment> segment_;
  const int rank_;
  const int spin_count_;
  std::vector<std::unique_ptr<Ring>> rings_;
};

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_DEVICE_COMM_SHARED_MEMORY_LINKS_H_
