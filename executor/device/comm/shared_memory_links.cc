#include "executor/device/comm/shared_memory_links.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace parplan {
namespace {

// Size of each ring. 512 KiB is at most half of a core's second-level cache, so that a reader finds
// there what was just written. The page on top makes room for the header of a message of 512 KiB:
// without it the sender would wait for the reader to consume the last bytes.
constexpr int64_t kRingBytes = 512 * 1024 + 4096;
// Bytes after which a writer wakes its reader, so that the reader consumes the begin of a message
// while its rest is written. Not measured against other values.
constexpr int64_t kMaxWriteBytes = int64_t{64} * 1024;
constexpr size_t kLineBytes = 64;

// The futex that wakes a rank: counts changes of all rings that it writes to or reads from.
struct alignas(kLineBytes) Bell {
  std::atomic<uint32_t> changes;
  std::atomic<uint32_t> sleepers;
};

// Bytes ever written to and ever read from a ring. Each has one writer and a cache line of its own.
struct Counters {
  alignas(kLineBytes) std::atomic<uint64_t> written;
  alignas(kLineBytes) std::atomic<uint64_t> read;
};
static_assert(std::atomic<uint64_t>::is_always_lock_free);
static_assert(std::atomic<uint32_t>::is_always_lock_free);

// Layout of the segment: [bell of each rank] [counters of each ordered pair of ranks] [ring of each
// ordered pair of ranks].
int64_t CountersOffset(int size) { return static_cast<int64_t>(sizeof(Bell)) * size; }
int64_t RingsOffset(int size) {
  const int64_t end = CountersOffset(size) + static_cast<int64_t>(sizeof(Counters)) * size * size;
  return (end + 4095) / 4096 * 4096;
}
int64_t SegmentBytes(int size) { return RingsOffset(size) + kRingBytes * size * size; }

Bell& BellOf(char* data, int rank) { return reinterpret_cast<Bell*>(data)[rank]; }
Counters& CountersOf(char* data, int size, int from, int to) {
  return reinterpret_cast<Counters*>(data + CountersOffset(size))[from * size + to];
}
char* RingOf(char* data, int size, int from, int to) {
  return data + RingsOffset(size) + kRingBytes * (static_cast<int64_t>(from) * size + to);
}

void RingBell(Bell& bell) {
  bell.changes.fetch_add(1, std::memory_order_seq_cst);
  if (bell.sleepers.load(std::memory_order_seq_cst) == 0) return;
  ::syscall(SYS_futex, &bell.changes, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
}

// Seals, which cannot be removed: the memory keeps its size, so that no access to it is beyond its
// end, which would end a rank.
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

// Returns OK if a file is the memory of a group that a process of this user made and sealed: no
// file that has a name, and none of another user or size.
absl::Status CheckMemory(int descriptor, int64_t byte_count) {
  const auto refused = [](absl::string_view why) {
    return absl::PermissionDeniedError(absl::StrCat("what is handed over as the memory of a group ",
                                                    why, "; is it from a rank of this job?"));
  };
  struct stat info = {};
  if (::fstat(descriptor, &info) != 0 || !S_ISREG(info.st_mode) || info.st_nlink != 0) {
    return refused("is a file with a name");
  }
  if (info.st_uid != ::geteuid()) return refused("another user made");
  const int seals = ::fcntl(descriptor, F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals) return refused("is not sealed");
  if (info.st_size != byte_count) return refused("has another size");
  return absl::OkStatus();
}

void Relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

absl::StatusOr<std::unique_ptr<SharedSegment>> SharedSegment::Map(FileDescriptor memory, int size) {
  std::unique_ptr<SharedSegment> segment(new SharedSegment());
  segment->descriptor_ = std::move(memory);
  const int64_t bytes = SegmentBytes(size);
  void* const data =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, segment->descriptor(), 0);
  if (data == MAP_FAILED)
    return absl::UnavailableError(DescribeErrno(errno, "cannot map the shared memory of a group"));
  segment->data_ = static_cast<char*>(data);
  segment->byte_count_ = bytes;
  return segment;
}

absl::StatusOr<std::unique_ptr<SharedSegment>> SharedSegment::Make(int size) {
  FileDescriptor memory(::memfd_create("parplan-group", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory.is_open())
    return absl::UnavailableError(DescribeErrno(errno, "cannot make shared memory for a group"));
  // New pages are zero, which is how bells and counters begin.
  if (::ftruncate(memory.get(), SegmentBytes(size)) != 0 ||
      ::fcntl(memory.get(), F_ADD_SEALS, kSeals) != 0) {
    return absl::UnavailableError(DescribeErrno(errno, "cannot size the shared memory of a group"));
  }
  return Map(std::move(memory), size);
}

absl::StatusOr<std::unique_ptr<SharedSegment>> SharedSegment::Open(FileDescriptor memory,
                                                                   int size) {
  PARPLAN_RETURN_IF_ERROR(CheckMemory(memory.get(), SegmentBytes(size)));
  return Map(std::move(memory), size);
}

SharedSegment::~SharedSegment() {
  if (data_ != nullptr) ::munmap(data_, byte_count_);
}

// Both rings between this rank and another.
class SharedMemoryLinks::Ring : public Link {
 public:
  Ring(char* data, int size, int rank, int other)
      : out_(CountersOf(data, size, rank, other)),
        in_(CountersOf(data, size, other, rank)),
        out_bytes_(RingOf(data, size, rank, other)),
        in_bytes_(RingOf(data, size, other, rank)),
        other_bell_(BellOf(data, other)) {}

  absl::StatusOr<int64_t> Write(absl::Span<const char> data) override {
    const uint64_t written = out_.written.load(std::memory_order_relaxed);
    const uint64_t read = out_.read.load(std::memory_order_acquire);
    if (written - read > static_cast<uint64_t>(kRingBytes)) return Damaged();
    const int64_t room = kRingBytes - static_cast<int64_t>(written - read);
    const int64_t count = std::min({static_cast<int64_t>(data.size()), room, kMaxWriteBytes});
    if (count <= 0) return 0;
    const int64_t offset = static_cast<int64_t>(written % kRingBytes);
    const int64_t first = std::min(count, kRingBytes - offset);
    std::memcpy(out_bytes_ + offset, data.data(), first);
    std::memcpy(out_bytes_, data.data() + first, count - first);
    out_.written.store(written + count, std::memory_order_release);
    RingBell(other_bell_);
    return count;
  }

  absl::StatusOr<absl::Span<const char>> Read() override {
    const uint64_t read = in_.read.load(std::memory_order_relaxed);
    const uint64_t written = in_.written.load(std::memory_order_acquire);
    if (written - read > static_cast<uint64_t>(kRingBytes)) return Damaged();
    const int64_t offset = static_cast<int64_t>(read % kRingBytes);
    const int64_t count = std::min(static_cast<int64_t>(written - read), kRingBytes - offset);
    return absl::MakeConstSpan(in_bytes_ + offset, count);
  }

  void Consume(int64_t size) override {
    if (size == 0) return;
    in_.read.store(in_.read.load(std::memory_order_relaxed) + size, std::memory_order_release);
    RingBell(other_bell_);
  }

 private:
  // The error of counters that no rank of this program writes.
  static absl::Status Damaged() {
    return absl::UnavailableError(
        "the shared memory of a group is damaged: its counters have values that no rank writes");
  }

  Counters& out_;
  Counters& in_;
  char* const out_bytes_;
  const char* const in_bytes_;
  Bell& other_bell_;
};

SharedMemoryLinks::SharedMemoryLinks(std::unique_ptr<SharedSegment> segment, int rank, int size,
                                     int spin_count)
    : segment_(std::move(segment)), rank_(rank), spin_count_(spin_count), rings_(size) {
  for (int other = 0; other < size; ++other) {
    if (other == rank) continue;
    rings_[other] = std::make_unique<Ring>(segment_->data(), size, rank, other);
  }
}

SharedMemoryLinks::~SharedMemoryLinks() = default;

Link& SharedMemoryLinks::link(int rank) {
  PARPLAN_CHECK(rings_[rank] != nullptr);
  return *rings_[rank];
}

uint32_t SharedMemoryLinks::Ticket() {
  return BellOf(segment_->data(), rank_).changes.load(std::memory_order_seq_cst);
}

void SharedMemoryLinks::AwaitChange(uint32_t ticket, absl::Duration longest) {
  Bell& bell = BellOf(segment_->data(), rank_);
  for (int spin = 0; spin < spin_count_; ++spin) {
    if (bell.changes.load(std::memory_order_relaxed) != ticket) return;
    Relax();
  }
  bell.sleepers.fetch_add(1, std::memory_order_seq_cst);
  const timespec timeout = absl::ToTimespec(longest);
  // Returns at once if the bell has rung since the ticket was taken.
  ::syscall(SYS_futex, &bell.changes, FUTEX_WAIT, ticket, &timeout, nullptr, 0);
  bell.sleepers.fetch_sub(1, std::memory_order_seq_cst);
}

}  // namespace parplan
