// What each rank of a group sends, receives and adds up for an operation: a list of steps,
// found without any process or transport.
//
// Large all-reduces, reduce-scatters and all-gathers go round a ring, which moves the
// least bytes; small all-reduces among a power of two of ranks double the distance in each
// step, which takes the fewest. The order in which elements are added follows from rank,
// size and count alone, so a result is the same bit by bit in every run, and of an
// all-reduce at every rank.

#ifndef PARPLAN_EXECUTOR_DEVICE_COMM_COLLECTIVE_PROGRAM_H_
#define PARPLAN_EXECUTOR_DEVICE_COMM_COLLECTIVE_PROGRAM_H_

#include <cstdint>
#include <vector>

#include "executor/device/comm/communicator.h"

namespace parplan {

// Where elements are: the caller's buffers, or scratch memory of the communicator.
enum class ProgramBuffer { kSend, kReceive, kScratch };

// A range of elements of a buffer; the count stands beside it.
struct ProgramPlace {
  ProgramBuffer buffer = ProgramBuffer::kSend;
  int64_t offset = 0;
  friend bool operator==(const ProgramPlace&, const ProgramPlace&) = default;
};

// Both ways at once; the step is over when both are.
struct ProgramStep {
  // -1: nothing is sent.
  int send_to = -1;
  ProgramPlace send_from;
  int64_t send_count = 0;
  // -1: nothing is received.
  int receive_from = -1;
  ProgramPlace receive_at;
  int64_t receive_count = 0;
  // What arrives is combined with `base`, element by element, and the result stored at
  // `receive_at`; else it is stored as it is.
  bool reduces = false;
  ProgramPlace base;
};

struct ProgramCopy {
  ProgramPlace from;
  ProgramPlace to;
  int64_t count = 0;
};

struct CollectiveProgram {
  // Before the first step. Copies of a place onto itself are to be left out by whoever
  // knows the addresses.
  std::vector<ProgramCopy> copies;
  std::vector<ProgramStep> steps;
  // After the last step.
  std::vector<ProgramCopy> final_copies;
  int64_t scratch_count = 0;
};

// The program of `rank` among `size` ranks. `element_size`: bytes. REQUIRES: a valid call;
// pointers are not looked at. Its steps number O(size), and O(size + bytes) for broadcasts.
CollectiveProgram ProgramOf(const CollectiveCall& call, int rank, int size);

// The first of `count` elements that part `part` of `size` has, as even as can be.
inline int64_t PartBegin(int64_t count, int part, int size) { return count * part / size; }

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_DEVICE_COMM_COLLECTIVE_PROGRAM_H_
