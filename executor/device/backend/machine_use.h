// Measures how much of the processors of a job's ranks other programs used between two moments. A
// step time that was measured beside other work says little about the plan.
//
//   const MachineReader reader;                                  // on every rank
//   const absl::StatusOr<MachineCounters> before = reader.Read();
//   ...                                                          // the measured steps
//   const absl::StatusOr<MachineCounters> after = reader.Read();
//   if (!before.ok() || !after.ok()) return;                     // no counters: nothing to say
//   const RankMachineUse own = UseBetween(*before, *after);      // travels as text
//   const std::optional<MachineUse> use = CombineUses(of_all_ranks);  // on one rank
//
// Values and pure functions but for MachineReader::Read; safe from any thread. `MachineWatch` of
// `parplan-exec` does this.

#ifndef PARPLAN_EXECUTOR_DEVICE_BACKEND_MACHINE_USE_H_
#define PARPLAN_EXECUTOR_DEVICE_BACKEND_MACHINE_USE_H_

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace parplan {

// Time of one processor, since the machine started or between two readings.
struct ProcessorTime {
  // Time in which it ran any process or an interrupt.
  absl::Duration busy;
  // Time in which it had work, but the hypervisor ran another virtual machine in its place.
  absl::Duration stolen;
  // All time the system accounts for: busy, stolen and idle.
  absl::Duration total;
  friend bool operator==(const ProcessorTime&, const ProcessorTime&) = default;
};

// Counters of this process and of the processors it may run on, at one moment.
struct MachineCounters {
  // Identifies the running system; the same in all containers of a machine.
  std::string boot_id;
  // Time of the steady clock.
  absl::Duration clock;
  // Processor time of all threads of this process.
  absl::Duration process;
  // By the system's number of the processor.
  std::map<int, ProcessorTime> processors;
  // Time for which the process's control group was stopped because its quota was used up,
  // summed over processors. Absent if the system does not say.
  std::optional<absl::Duration> throttled;
  // Time in which at least one task of the machine waited for a processor (Linux PSI, `some`).
  // Absent if the system does not say.
  std::optional<absl::Duration> pressure;
};

// Reads the counters that Linux keeps (proc(5), cgroups(7)).
class MachineReader {
 public:
  // The places to read; the defaults are this machine.
  struct Options {
    // Root of the file system that has `proc` and `sys`, without a final slash.
    std::string root;
    // Numbers of the processors to look at. Empty: those that the thread that makes the reader may
    // run on at that moment.
    std::vector<int> processors;
    // Processor time of this process. Null: that of the system's clock.
    std::function<absl::Duration()> process_time;
    // Null: the steady clock.
    std::function<absl::Duration()> clock;
  };
  MachineReader() : MachineReader(Options()) {}
  explicit MachineReader(Options options);

  // Reads the counters, in a tenth of a millisecond. UNAVAILABLE if the system has no boot id or no
  // counters of one of the processors.
  absl::StatusOr<MachineCounters> Read() const;

 private:
  Options options_;
};

// The use of a machine that one rank saw between two readings.
struct RankMachineUse {
  // That of MachineCounters.
  std::string boot_id;
  absl::Duration elapsed;
  absl::Duration process;
  std::map<int, ProcessorTime> processors;
  std::optional<absl::Duration> throttled;
  std::optional<absl::Duration> pressure;

  // Write all of it as one line, without a line feed, and read it back. INVALID_ARGUMENT for any
  // other text.
  std::string ToText() const;
  static absl::StatusOr<RankMachineUse> FromText(absl::string_view text);
  friend bool operator==(const RankMachineUse&, const RankMachineUse&) = default;
};

// Returns the use between two readings. REQUIRES, unchecked: `before` and `after` are readings of
// one reader, in this order.
RankMachineUse UseBetween(const MachineCounters& before, const MachineCounters& after);

// How much of a job's machines was not the job's.
struct MachineUse {
  // Share of processor time, 0 to 1, that other programs and other virtual machines had of the
  // processors that a rank may run on. Ranks that share processors count together; among
  // several such groups the highest share, since a step takes as long as its slowest rank.
  double used_by_others = 0.0;
  // The part of it that the hypervisor gave to other virtual machines.
  double stolen = 0.0;
  // Share of processor time for which a rank's control group was stopped by its quota; the highest
  // of all ranks. Absent if no rank says.
  std::optional<double> throttled;
  // Share of time in which some task waited for a processor; the highest of all machines. Absent if
  // no rank says. Ranks with more threads than processors cause it by themselves.
  std::optional<double> pressure;

  // Returns whether `used_by_others` or `throttled` is above kBusyMachineRatio.
  bool IsBusy() const;
};

// The share above which a measurement counts as made on a busy machine. A rank that has the share
// 1 - s of its processor takes up to 1 / (1 - s) times as long: 1.05 times at 0.05, about the
// median error of predictions on a quiet machine, 1.4 to 5.0 % (docs/measurements/prediction.md). A
// lower value would mark what cannot be distinguished from the predictor's own error; a higher one
// would leave steps unmarked that others made visibly longer.
inline constexpr double kBusyMachineRatio = 0.05;

// The shortest time that can be judged. The system counts in ticks of 10 ms, and every counter of a
// processor may be off by one tick: two such errors are 0.02 of a second, less than half of
// kBusyMachineRatio.
inline constexpr absl::Duration kShortestMachineUse = absl::Seconds(1);

// Adds up what the ranks of a job saw; each rank's view is there once, in any order. Nothing if
// there are no ranks, a rank saw less than kShortestMachineUse, or the counters of its processors
// account for less than half of the time that passed (sandboxes show counters that stand still).
std::optional<MachineUse> CombineUses(absl::Span<const RankMachineUse> ranks);

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_DEVICE_BACKEND_MACHINE_USE_H_
