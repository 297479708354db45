#include "executor/device/comm/cpu_task.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/system/steady_clock.h"
#include "executor/device/comm/reduce_elements.h"

namespace parplan {
namespace {

// Messages are padded to a multiple of this size, so that elements of up to 8 bytes lie aligned
// and whole in whatever has arrived (Link).
constexpr int64_t kMessageUnit = 8;
constexpr char kPadding[kMessageUnit] = {};
constexpr const char* kTypeNames[] = {"float32", "float64", "bfloat16", "byte"};

int64_t RoundedUp(int64_t bytes) {
  return (bytes + kMessageUnit - 1) / kMessageUnit * kMessageUnit;
}

}  // namespace

bool Directions::Overlap(const Directions& other) const {
  for (size_t rank = 0; rank < to.size(); ++rank) {
    if ((to[rank] && other.to[rank]) || (from[rank] && other.from[rank])) return true;
  }
  return false;
}

void Directions::Add(const Directions& other) {
  for (size_t rank = 0; rank < to.size(); ++rank) {
    to[rank] |= other.to[rank];
    from[rank] |= other.from[rank];
  }
}

CpuTask::CpuTask(const CollectiveCall& call, int rank, int size)
    : call_(call),
      element_size_(ElementSize(call.type)),
      program_(ProgramOf(call, rank, size)),
      directions_(size),
      start_(SteadyNow()),
      scratch_(program_.scratch_count * element_size_) {
  for (const ProgramStep& step : program_.steps) {
    if (step.send_to >= 0) directions_.to[step.send_to] = 1;
    if (step.receive_from >= 0) directions_.from[step.receive_from] = 1;
  }
}

CpuTask::Header CpuTask::HeaderOf(int64_t count) const {
  // A receive expects what a send says.
  const Operation operation =
      call_.operation == Operation::kReceive ? Operation::kSend : call_.operation;
  return {(static_cast<uint64_t>(operation) << 16) | (static_cast<uint64_t>(call_.type) << 8) |
              static_cast<uint64_t>(call_.reduction),
          static_cast<uint64_t>(count)};
}

std::string CpuTask::DescribeHeader(const Header& header) {
  const uint64_t operation = header[0] >> 16;
  const uint64_t type = (header[0] >> 8) & 0xff;
  if (operation >= kOperationCount || type >= std::size(kTypeNames)) return "something unknown";
  return absl::StrCat("a message of ", header[1], " ", kTypeNames[type], " of ",
                      OperationName(static_cast<Operation>(operation)));
}

char* CpuTask::AddressOf(const ProgramPlace& place) {
  const int64_t offset = place.offset * element_size_;
  switch (place.buffer) {
    case ProgramBuffer::kSend:
      // Only ever read.
      return const_cast<char*>(static_cast<const char*>(call_.send)) + offset;
    case ProgramBuffer::kReceive:
      return static_cast<char*>(call_.receive) + offset;
    case ProgramBuffer::kScratch:
      return scratch_.data() + offset;
  }
  return nullptr;
}

void CpuTask::Copy(const ProgramCopy& copy) {
  if (copy.count == 0) return;
  const char* const from = AddressOf(copy.from);
  char* const to = AddressOf(copy.to);
  if (from != to) std::memmove(to, from, copy.count * element_size_);
}

int64_t CpuTask::MessageBytes(int64_t count) const {
  return static_cast<int64_t>(sizeof(Header)) + RoundedUp(count * element_size_);
}

absl::StatusOr<bool> CpuTask::Progress(const std::function<Link&(int)>& link_to) {
  bool has_moved = false;
  if (!has_begun_) {
    for (const ProgramCopy& copy : program_.copies) Copy(copy);
    has_begun_ = true;
    has_moved = true;
  }
  while (step_ < program_.steps.size()) {
    const ProgramStep& step = program_.steps[step_];
    bool is_over = true;
    if (step.send_to >= 0) {
      failed_rank_ = step.send_to;
      PARPLAN_ASSIGN_OR_RETURN(const bool moved, Send(step, link_to(step.send_to)));
      failed_rank_ = -1;
      has_moved |= moved;
      is_over &= sent_ == MessageBytes(step.send_count);
    }
    if (step.receive_from >= 0) {
      failed_rank_ = step.receive_from;
      PARPLAN_ASSIGN_OR_RETURN(const bool moved, Receive(step, link_to(step.receive_from)));
      failed_rank_ = -1;
      has_moved |= moved;
      is_over &= received_ == MessageBytes(step.receive_count);
    }
    if (!is_over) return has_moved;
    ++step_;
    sent_ = 0;
    received_ = 0;
  }
  if (!is_done_) {
    for (const ProgramCopy& copy : program_.final_copies) Copy(copy);
    is_done_ = true;
    has_moved = true;
  }
  return has_moved;
}

absl::StatusOr<bool> CpuTask::Send(const ProgramStep& step, Link& link) {
  const int64_t payload_end =
      static_cast<int64_t>(sizeof(Header)) + step.send_count * element_size_;
  const int64_t end = MessageBytes(step.send_count);
  bool has_moved = false;
  while (sent_ < end) {
    absl::Span<const char> piece;
    if (sent_ < static_cast<int64_t>(sizeof(Header))) {
      if (!has_begun_sending_) {
        link.BeginMessage();
        out_header_ = HeaderOf(step.send_count);
        has_begun_sending_ = true;
      }
      piece = absl::MakeConstSpan(reinterpret_cast<const char*>(out_header_.data()), sizeof(Header))
                  .subspan(sent_);
    } else if (sent_ < payload_end) {
      const int64_t done = sent_ - static_cast<int64_t>(sizeof(Header));
      piece = absl::MakeConstSpan(AddressOf(step.send_from) + done, payload_end - sent_);
    } else {
      piece = absl::MakeConstSpan(kPadding, end - sent_);
    }
    PARPLAN_ASSIGN_OR_RETURN(const int64_t count, link.Write(piece));
    if (count == 0) return has_moved;
    sent_ += count;
    has_moved = true;
  }
  has_begun_sending_ = false;
  return has_moved;
}

absl::StatusOr<bool> CpuTask::ReceiveHeader(const ProgramStep& step, Link& link) {
  bool has_moved = false;
  while (received_ < static_cast<int64_t>(sizeof(Header))) {
    PARPLAN_ASSIGN_OR_RETURN(const absl::Span<const char> arrived, link.Read());
    const int64_t count = std::min(static_cast<int64_t>(arrived.size()),
                                   static_cast<int64_t>(sizeof(Header)) - received_);
    if (count == 0) return has_moved;
    std::memcpy(reinterpret_cast<char*>(in_header_.data()) + received_, arrived.data(), count);
    link.Consume(count);
    received_ += count;
    has_moved = true;
  }
  const Header expected = HeaderOf(step.receive_count);
  if (in_header_ != expected) {
    return absl::InternalError(absl::StrCat("it sent ", DescribeHeader(in_header_), " where ",
                                            DescribeHeader(expected), " was due"));
  }
  return has_moved;
}

absl::StatusOr<bool> CpuTask::Receive(const ProgramStep& step, Link& link) {
  bool has_moved = false;
  if (received_ < static_cast<int64_t>(sizeof(Header))) {
    PARPLAN_ASSIGN_OR_RETURN(has_moved, ReceiveHeader(step, link));
    if (received_ < static_cast<int64_t>(sizeof(Header))) return has_moved;
  }
  const int64_t payload = step.receive_count * element_size_;
  const int64_t end = MessageBytes(step.receive_count);
  while (received_ < end) {
    PARPLAN_ASSIGN_OR_RETURN(const absl::Span<const char> arrived, link.Read());
    const int64_t done = received_ - static_cast<int64_t>(sizeof(Header));
    int64_t count = std::min<int64_t>(arrived.size(), end - received_);
    if (done < payload) {
      count = std::min(count, payload - done);
      char* const to = AddressOf(step.receive_at) + done;
      if (step.reduces) {
        count -= count % element_size_;
        ReduceElements(call_.type, call_.reduction, AddressOf(step.base) + done, arrived.data(),
                       count / element_size_, to);
      } else if (count > 0) {
        std::memcpy(to, arrived.data(), count);
      }
    }
    if (count == 0) return has_moved;
    link.Consume(count);
    received_ += count;
    has_moved = true;
  }
  return has_moved;
}

int CpuTask::AwaitedRank() const {
  if (failed_rank_ >= 0) return failed_rank_;
  if (step_ >= program_.steps.size()) return -1;
  const ProgramStep& step = program_.steps[step_];
  if (step.receive_from >= 0 && received_ < MessageBytes(step.receive_count)) {
    return step.receive_from;
  }
  return step.send_to;
}

absl::Duration CpuTask::UntilWritable(const std::function<Link&(int)>& link_to) const {
  if (step_ >= program_.steps.size()) return absl::ZeroDuration();
  const ProgramStep& step = program_.steps[step_];
  if (step.send_to < 0 || sent_ == MessageBytes(step.send_count)) return absl::ZeroDuration();
  return link_to(step.send_to).UntilWritable();
}

}  // namespace parplan
