// One operation of a communicator on its way: how far its program has come.

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

// Ways to and from other ranks that operations use: no two at once.
struct Ways {
  explicit Ways(int size) : to(size, 0), from(size, 0) {}
  bool Meets(const Ways& other) const;
  void Add(const Ways& other);
  std::vector<char> to;
  std::vector<char> from;
};

// Not safe for several threads.
class CpuTask {
 public:
  // REQUIRES: a valid call; its buffers live as long.
  CpuTask(const CollectiveCall& call, int rank, int size);

  const CollectiveCall& call() const { return call_; }
  const Ways& ways() const { return ways_; }
  absl::Duration start() const { return start_; }

  // Moves what can be moved now. True where anything was. INTERNAL where another rank runs
  // something else.
  absl::StatusOr<bool> Progress(const std::function<Link&(int)>& link_to);
  // Whether the program has ended.
  bool IsDone() const { return is_done_; }

  // The rank of the group that it waits for; -1 for none.
  int AwaitedRank() const;
  // Whether it waits for a way that is slowed down, and so for how long.
  absl::Duration UntilWritable(const std::function<Link&(int)>& link_to) const;

 private:
  // What a message says of itself.
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
  Ways ways_;
  const absl::Duration start_;
  std::vector<char> scratch_;
  bool has_begun_ = false;
  bool is_done_ = false;
  size_t step_ = 0;
  // Of this step, with header and what fills up to 8 bytes.
  int64_t sent_ = 0;
  int64_t received_ = 0;
  Header out_header_ = {};
  Header in_header_ = {};
};

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_DEVICE_COMM_CPU_TASK_H_
