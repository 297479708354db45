// The messages and additions of one rank for one collective operation: a list of steps, made
// without any process or transport. `CpuTask` (cpu_task.h) runs them; the trainer's layout of
// parameters uses `PartBegin` alone.
//
// Reduce-scatters and all-gathers go round a ring, which moves the fewest bytes, and so do
// all-reduces, except that those of at most 8 KiB among a power of two of ranks use recursive
// doubling, which takes the fewest steps. In an all-to-all each rank sends to each other one in
// turn; a broadcast goes down a chain of ranks in pieces of 64 KiB; a barrier takes log2(size)
// steps, rounded up. The order of additions depends on the call, rank and size only, so results are
// the same bit by bit in every run, and those of an all-reduce at every rank.
//
//   const CollectiveProgram program = ProgramOf(call, rank, size);
//   for (const ProgramCopy& copy : program.copies) ...        // before any message
//   for (const ProgramStep& step : program.steps) ...         // send and receive at once
//   for (const ProgramCopy& copy : program.final_copies) ...  // after the last message

#ifndef PARPLAN_EXECUTOR_DEVICE_COMM_COLLECTIVE_PROGRAM_H_
#define PARPLAN_EXECUTOR_DEVICE_COMM_COLLECTIVE_PROGRAM_H_

#include <cstdint>
#include <vector>

#include "executor/device/comm/communicator.h"

namespace parplan {

// The caller's buffers, and scratch memory of the communicator.
enum class ProgramBuffer { kSend, kReceive, kScratch };

// The begin of a range of elements in a buffer. The member that holds it has the count too.
struct ProgramPlace {
  ProgramBuffer buffer = ProgramBuffer::kSend;
  // In elements.
  int64_t offset = 0;
  friend bool operator==(const ProgramPlace&, const ProgramPlace&) = default;
};

// A send and a receive that proceed at once; the step ends when both have. Counts are elements.
struct ProgramStep {
  // Rank of the group; -1: nothing is sent.
  int send_to = -1;
  ProgramPlace send_from;
  int64_t send_count = 0;
  // Rank of the group; -1: nothing is received.
  int receive_from = -1;
  ProgramPlace receive_at;
  int64_t receive_count = 0;
  // Whether what arrives is combined with `base`, element by element, before it is stored at
  // `receive_at`.
  bool reduces = false;
  ProgramPlace base;
};

// A copy of `count` elements on this rank.
struct ProgramCopy {
  ProgramPlace from;
  ProgramPlace to;
  int64_t count = 0;
};

// The work of one rank for one operation.
struct CollectiveProgram {
  // Copies before the first step. The caller, who knows the addresses, leaves out copies of a
  // range onto itself.
  std::vector<ProgramCopy> copies;
  std::vector<ProgramStep> steps;
  // Copies after the last step.
  std::vector<ProgramCopy> final_copies;
  // Elements of scratch memory that the program needs.
  int64_t scratch_count = 0;
};

// Returns the program of `rank` among `size` ranks. REQUIRES, unchecked: `call` is valid
// (CheckCall); its pointers are not read. O(size) steps; for a broadcast at most one more than it
// has pieces, and none for no elements.
CollectiveProgram ProgramOf(const CollectiveCall& call, int rank, int size);

// Returns the first element of part `part` when `count` elements are split into `size` parts whose
// lengths differ by at most one.
inline int64_t PartBegin(int64_t count, int part, int size) { return count * part / size; }

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_DEVICE_COMM_COLLECTIVE_PROGRAM_H_
