// Links through memory that all ranks of a group on one machine share: a ring buffer for each
// ordered pair of ranks, and a futex ("bell") for each rank that wakes it. `JobFabric` makes them
// for groups on one machine.

#ifndef PARPLAN_EXECUTOR_DEVICE_COMM_SHARED_MEMORY_LINKS_H_
#define PARPLAN_EXECUTOR_DEVICE_COMM_SHARED_MEMORY_LINKS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "base/system/posix_file.h"
#include "executor/device/comm/link.h"

namespace parplan {

// The shared memory of a group. It has no name in any file system, so it is freed with the last
// process that maps it, however that ends.
class SharedSegment {
 public:
  // Makes the memory for `size` ranks: 516 KiB for each ordered pair, taken from the system when it
  // is first written. UNAVAILABLE if there is not enough.
  static absl::StatusOr<std::unique_ptr<SharedSegment>> Make(int size);
  // Maps what another process of the same user made and handed over (local_socket.h).
  // PERMISSION_DENIED if it is anything else than memory of this user that was made, and sealed, by
  // `Make` with the same `size`; nothing is written then. UNAVAILABLE if it cannot be mapped.
  static absl::StatusOr<std::unique_ptr<SharedSegment>> Open(FileDescriptor memory, int size);
  ~SharedSegment();
  SharedSegment(const SharedSegment&) = delete;
  SharedSegment& operator=(const SharedSegment&) = delete;

  // Returns the descriptor to hand over, valid until `Close`.
  int descriptor() const { return descriptor_.get(); }
  // Closes the descriptor; the memory stays mapped.
  void Close() { descriptor_.Close(); }

  // Returns the beginning of the memory, valid as long as this object.
  char* data() const { return data_; }

 private:
  SharedSegment() = default;
  static absl::StatusOr<std::unique_ptr<SharedSegment>> Map(FileDescriptor memory, int size);

  FileDescriptor descriptor_;
  char* data_ = nullptr;
  int64_t byte_count_ = 0;
};

// The links of one rank through a shared segment.
class SharedMemoryLinks : public LinkSet {
 public:
  // `rank`, `size`: of the group; `segment` was made for as many ranks, which is not checked.
  // `spin_count`: how often AwaitChange reads the bell before the thread sleeps; a few thousand if
  // every rank has a core of its own, few if ranks share cores.
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
