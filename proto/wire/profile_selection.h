// Chooses the profiles whose measurements hold for a runtime. `SnapshotBuilder` asks it.

#ifndef PARPLAN_PROTO_WIRE_PROFILE_SELECTION_H_
#define PARPLAN_PROTO_WIRE_PROFILE_SELECTION_H_

#include <map>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "parplan/v1/profile.pb.h"

namespace parplan {

// The choice among the profiles of one kind of device. A profile holds if
//
//   its runtime   is `MeasuredRuntime(runtime_id)` or not known. Of other runtimes the collectives
//                 alone hold, and only those between GPUs, where every runtime uses NCCL.
//                 Processors (`CPU ...`) have a library of collectives for each runtime.
//   its libraries include no release other than newer profiles of the same runtime name. The
//                 kernel (`linux`) is not compared, nor are profiles without a runtime.
//
// It remembers the profiles before, which come newest first; one thread at a time may use it.
class RuntimeSelection {
 public:
  // The part of a profile that holds: nothing, all of it, or its collectives alone. Collectives of
  // other runtimes are older than all others.
  enum class Part { kNone, kWhole, kCollectives };

  // `device_kind` is that of the profiles, `runtime_id` that of the question (`RuntimeTraits`).
  RuntimeSelection(absl::string_view device_kind, absl::string_view runtime_id);

  // Returns the part of the next older profile that holds. REQUIRES, unchecked: it is of the kind
  // of device.
  Part Next(const v1::Profile& profile);

  // FAILED_PRECONDITION (PROFILE_MISSING), listing the runtimes that were measured, if there were
  // profiles and no part of one holds.
  absl::Status Check() const;

  // Returns whether releases of this library are compared at all.
  static bool IsCompared(const v1::LibraryVersion& library);

 private:
  // Releases by library, from the newest profile of a runtime that names the library.
  using Releases = std::map<std::string, std::string>;

  static bool AgreesWith(const v1::Profile& profile, Releases& releases);

  const std::string device_kind_;
  const std::string measured_;  // The runtime, as profiles name it.
  std::map<std::string, Releases> releases_;
  std::set<std::string> others_;
  bool has_any_ = false;
};

}  // namespace parplan

#endif  // PARPLAN_PROTO_WIRE_PROFILE_SELECTION_H_
