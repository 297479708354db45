#include "clients/kubernetes/successor.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace parplan::sidecar {

absl::Status CheckSuccessor(const v1::PlanPayload& current, const v1::PlanPayload& next) {
  std::string what;
  if (next.model_digest() != current.model_digest()) {
    what = "is for another model; each job needs an id of its own";
  } else if (next.global_batch_size() != current.global_batch_size()) {
    what = absl::StrCat("is for a batch of ", next.global_batch_size(), " and the job trains with ",
                        current.global_batch_size(),
                        "; another batch is another training: start the job again");
  } else if (current.generation() > 0 && next.generation() <= current.generation()) {
    what = absl::StrCat("has generation ", next.generation(), " and the job has ",
                        current.generation(),
                        ": it is older; if the server was restored from a backup, plan anew until "
                        "its numbers are higher");
  } else {
    return absl::OkStatus();
  }
  return MakeError(absl::StatusCode::kFailedPrecondition, Reason::kAudienceMismatch,
                   absl::StrCat("plan ", next.plan(), " of job `", current.job_id(), "` ", what),
                   {{"field", "job_id"}});
}

}  // namespace parplan::sidecar
