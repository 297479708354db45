// Keeps the plan on the volume up to date while a job runs. `parplan-sidecar run` has one.

#ifndef PARPLAN_CLIENTS_KUBERNETES_PLAN_KEEPER_H_
#define PARPLAN_CLIENTS_KUBERNETES_PLAN_KEEPER_H_

#include <memory>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "clients/kubernetes/plan_fetcher.h"
#include "clients/kubernetes/plan_files.h"
#include "clients/kubernetes/plan_volume.h"
#include "clients/kubernetes/sidecar_metrics.h"
#include "parplan/v1/plan.pb.h"

namespace parplan::sidecar {

// The plan on the volume. `Look` is called by one thread at a time; the getters are safe from any.
class PlanKeeper {
 public:
  // Starts from the plan on the volume, which is verified again; does not connect. NOT_FOUND
  // (RESOURCE_NOT_FOUND) if there is none, FAILED_PRECONDITION (STORE_UNAVAILABLE) for a folder
  // that can't be used, INVALID_ARGUMENT for a plan's file that can't, the errors of ReadTrustFile
  // (clients/files/input_files.h), and those of PlanVerifier: the plan is verified as of the time
  // it was issued, since a job goes on under the plan it has, and for `wanted.node_name`, not for a
  // cluster or job.
  static absl::StatusOr<std::unique_ptr<PlanKeeper>> Open(const PlanFilesOptions& files,
                                                          const PlanWanted& wanted,
                                                          const ChannelOptions& server);

  // Looks for a newer plan of the same job and writes it to the volume as the next generation.
  // Calls PlanFetcher::FetchNewer with these arguments. Logs failures and a change of plan; a plan
  // that was refused changes nothing. The outcomes are explained at `LookOutcome`
  // (sidecar_metrics.h).
  LookOutcome Look(absl::Time now, absl::Duration timeout);

  // Copies of the verified content of the plan on the volume, and its number there
  // (PlanVolume::generation, not PlanPayload.generation).
  v1::PlanPayload payload() const;
  int64_t generation() const;

  // Returns when the trust bundle expires, as of the last look; infinite if it never does. From
  // then on `Look` refuses every plan until there is a later bundle in the file.
  absl::Time trust_expiry() const;

 private:
  PlanKeeper(PlanFilesOptions files, std::unique_ptr<PlanVolume> volume, PlanFetcher fetcher,
             v1::PlanPayload payload)
      : files_(std::move(files)),
        volume_(std::move(volume)),
        fetcher_(std::move(fetcher)),
        trust_expiry_(fetcher_.trust_expiry()),
        payload_(std::move(payload)),
        generation_(volume_->generation()) {}

  const PlanFilesOptions files_;
  const std::unique_ptr<PlanVolume> volume_;
  PlanFetcher fetcher_;
  mutable std::mutex mutex_;
  // Guarded by mutex_.
  absl::Time trust_expiry_;
  v1::PlanPayload payload_;
  int64_t generation_;
};

}  // namespace parplan::sidecar

#endif  // PARPLAN_CLIENTS_KUBERNETES_PLAN_KEEPER_H_
