// One operation of a communicator under way: how far its program (collective_program.h) has come.
// `CpuCommunicator` makes one for each call and moves it forward until it is done.

#ifndef PARPLAN_EXECUTOR_DEVICE_COMM_CPU_TASK_H_
#define PARPLAN_EXECUTOR_DEVICE_COMM_CPU_TASK_H_

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "executor/device/comm/collective_program.h"
#include "executor/device/comm/communicator.h"
#include "executor/device/comm/link.h"

namespace parplan {

// The directions of links that an operation uses. Two operations that share one run one after
// the other, since a link is a single stream of bytes.
struct Directions {
  explicit Directions(int size) : to(size, 0), from(size, 0) {}
  // Returns whether the two share a direction.
  bool Overlap(const Directions& other) const;
  // Adds the directions of another operation.
  void Add(const Directions& other);
  // [rank of the group] 1 if bytes are sent to it, and if they are received from it.
  std::vector<char> to;
  std::vector<char> from;
};

// Used by one thread at a time. Never blocks.
class CpuTask {
 public:
  // `rank`, `size`: of the group. REQUIRES, unchecked: `call` is valid (CheckCall); its buffers
  // live as long as the task.
  CpuTask(const CollectiveCall& call, int rank, int size);

  // Return the call, and the directions of links that it uses; valid as long as the task.
  const CollectiveCall& call() const { return call_; }
  const Directions& directions() const { return directions_; }
  // The time on `SteadyNow()` at which the task was made.
  absl::Duration start() const { return start_; }

  // Moves the bytes that can be moved now and returns whether any were moved or copied. `link_to`
  // returns the link to a rank of the group. INTERNAL if the other rank sends a message of another
  // operation, type, reduction or count; the errors of links. After an error the task must not be
  // moved on.
  absl::StatusOr<bool> Progress(const std::function<Link&(int)>& link_to);
  // Returns whether the program has ended.
  bool IsDone() const { return is_done_; }

  // Returns the rank of the group that the task waits for: in its present step the one from which
  // it receives, or, once all of that has come, the one to which it sends; -1 after the last step.
  // After an error it is the rank whose message or link was wrong.
  int AwaitedRank() const;
  // Returns how long a shaped link makes the task wait before it can send; 0 if none does.
  absl::Duration UntilWritable(const std::function<Link&(int)>& link_to) const;

 private:
  // The first bytes of a message: operation, type and reduction in one word, and the number of
  // elements.
  using Header = std::array<uint64_t, 2>;

  Header HeaderOf(int64_t count) const;
  static std::string DescribeHeader(const Header& header);
  char* AddressOf(const ProgramPlace& place);
  void Copy(const ProgramCopy& copy);
  absl::StatusOr<bool> Send(const ProgramStep& step, Link& link);
  absl::StatusOr<bool> Receive(const ProgramStep& step, Link& link);
  absl::StatusOr<bool> ReceiveHeader(const ProgramStep& step, Link& link);
  int64_t MessageBytes(int64_t count) const;

  const CollectiveCall call_;
  const int64_t element_size_;
  const CollectiveProgram program_;
  Directions directions_;
  const absl::Duration start_;
  std::vector<char> scratch_;
  bool has_begun_ = false;
  bool is_done_ = false;
  size_t step_ = 0;
  // Bytes of this step's messages so far, with header and padding.
  int64_t sent_ = 0;
  int64_t received_ = 0;
  // Whether BeginMessage was called for the message of this step.
  bool has_begun_sending_ = false;
  // The rank whose link returned the error, if one did.
  int failed_rank_ = -1;
  Header out_header_ = {};
  Header in_header_ = {};
};

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_DEVICE_COMM_CPU_TASK_H_
