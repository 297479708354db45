// Writes a plan and its files to the folder that the containers of a pod share. `parplan-sidecar
// init` and `PlanKeeper` write it.

#ifndef PARPLAN_CLIENTS_KUBERNETES_PLAN_VOLUME_H_
#define PARPLAN_CLIENTS_KUBERNETES_PLAN_VOLUME_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace parplan::sidecar {

// A file of a generation: its name and its contents.
struct VolumeFile {
  // ASCII letters, digits, `.`, `-` and `_`, at least one; no leading dot. Or two such names with a
  // `/` between them, for a file in a folder. `generation` is taken by the volume itself.
  std::string name;
  std::string content;
};

// A folder in which the files of one generation are seen together or not at all: they lie in a
// folder of their own,
//
//   <folder>/plan.dsse.json -> .current/plan.dsse.json     what readers open
//   <folder>/.current       -> .generations/7              changes by one rename
//   <folder>/.generations/7/plan.dsse.json
//   <folder>/megatron -> .current/megatron                 a folder of the generation
//
// so a reader that opens several files looks up `.current` first and reads below it. The previous
// generation stays until the next one is written, for readers that have opened it. A link whose
// file the current generation does not have is removed. Not thread-safe. REQUIRES, unchecked: one
// writer of a folder at a time; readers need no lock.
class PlanVolume {
 public:
  // Makes the folder if it is missing, and removes what a writer that was killed has left, as far
  // as that is possible. FAILED_PRECONDITION (STORE_UNAVAILABLE) if the folder can't be made or
  // this user may not write to it.
  static absl::StatusOr<std::unique_ptr<PlanVolume>> Open(const std::string& folder);

  // Returns the number of the current generation, from 1; 0 before the first.
  int64_t generation() const { return generation_; }

  // Writes the next generation: `files`, and a file `generation` with its number. A name that
  // breaks the rule of `VolumeFile` aborts the program. UNAVAILABLE (STORE_UNAVAILABLE) naming file
  // and cause; then readers still see the previous generation or, if only the last sync failed, see
  // the new one, and `generation` is its number.
  absl::Status Write(const std::vector<VolumeFile>& files);

  // Returns the content of a file of the current generation; NOT_FOUND, with no `Reason`, if there
  // is none or it can't be opened.
  absl::StatusOr<std::string> Read(const std::string& name) const;

  // Returns the path by which readers open a file.
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
