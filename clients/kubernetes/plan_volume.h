// The folder that the containers of a pod share: a plan and what belongs to it.

#ifndef PARPLAN_CLIENTS_KUBERNETES_PLAN_VOLUME_H_
#define PARPLAN_CLIENTS_KUBERNETES_PLAN_VOLUME_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace parplan::sidecar {

struct VolumeFile {
  // Letters, digits, `.`, `-` and `_`; no leading dot.
  std::string name;
  std::string content;
};

// Files of one generation are seen together or not at all: they lie in a folder of their own,
//
//   <folder>/plan.dsse.json -> .current/plan.dsse.json     what readers open
//   <folder>/.current       -> .generations/7              changes by one rename
//   <folder>/.generations/7/plan.dsse.json
//
// so a reader that opens several files looks up `.current` first and reads below it. The
// generation before stays until the next one, for readers that are at it. One writer at a time.
class PlanVolume {
 public:
  // Makes the folder where it is missing and removes what a writer that was killed left.
  // FAILED_PRECONDITION (STORE_UNAVAILABLE) where that can't be.
  static absl::StatusOr<std::unique_ptr<PlanVolume>> Open(const std::string& folder);

  // Counts from 1; 0 where nothing was written yet.
  int64_t generation() const { return generation_; }

  // The next generation: `files`, and a file `generation` with its number. UNAVAILABLE
  // (STORE_UNAVAILABLE) naming file and cause: the generation before is still there, whole.
  absl::Status Write(const std::vector<VolumeFile>& files);

  // A file of the current generation; NOT_FOUND.
  absl::StatusOr<std::string> Read(const std::string& name) const;

  // Where readers find a file.
  std::string PathOf(const std::string& name) const;

 private:
  PlanVolume(std::string folder, int64_t generation)
      : folder_(std::move(folder)), generation_(generation) {}
  std::string FolderOf(int64_t generation) const;
  // Removes all generations but the current and the one before.
  void RemoveOld() const;

  const std::string folder_;
  int64_t generation_;
};

}  // namespace parplan::sidecar

#endif  // PARPLAN_CLIENTS_KUBERNETES_PLAN_VOLUME_H_
