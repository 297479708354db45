// Fetches the plan of a job from a server or from files, and verifies it. `parplan-sidecar init`
// and, while a job runs, `PlanKeeper` fetch with it.

#ifndef PARPLAN_CLIENTS_KUBERNETES_PLAN_FETCHER_H_
#define PARPLAN_CLIENTS_KUBERNETES_PLAN_FETCHER_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "clients/cpp/channel.h"
#include "clients/cpp/plan_client.h"
#include "parplan/v1/plan.pb.h"
#include "planner/model/model_spec.h"
#include "planner/model/topology.h"
#include "proto/envelope/trust_bundle.h"
#include "proto/envelope/verified_plan.h"
#include "proto/envelope/verifier.h"

namespace parplan::sidecar {

// The plan to fetch: one of `file`, `question_file` and `name` (the first of these that is given);
// without them the newest plan that is bound to `job_id` in `cluster`, which then must be given.
struct PlanWanted {
  // Paths of a signed plan (DSSE, JSON), and of the model and topology it was made for.
  std::string file;
  std::string model_file;
  std::string topology_file;
  // `clusters/{cluster}/plans/{plan}`.
  std::string name;
  // Path of a CreatePlanRequest (proto JSON) to send. `job_id`, if given, replaces the one in the
  // file. All pods of a job that send the same question get the same plan; if that has expired or
  // its key was revoked, a next one, at most 16 a question, then the server's error (PLAN_EXPIRED
  // or SIGNATURE_INVALID). Without a job each try asks for a new plan. The file's request id is
  // not used.
  std::string question_file;
  // Nodes to ask for instead of those in `question_file`; 0: those.
  int node_count = 0;
  // Path of the keys (JWKS) that verify; read again at each try, since they change (ReadTrustFile
  // of clients/files/input_files.h). A bundle older than one that was accepted is refused.
  std::string trust_file;
  // The audience that the plan must have (ExpectedAudience of proto/envelope/verifier.h); empty:
  // not checked.
  std::string cluster;
  std::string job_id;
  std::string node_name;
};

// Returns PERMISSION_DENIED (SIGNATURE_INVALID) that names the bundle, its end and what to do if it
// has expired at `now`. `path` is its file.
absl::Status CheckTrustLife(const TrustBundle& trust, const std::string& path, absl::Time now);

// A verified plan with the model and topology it was made for. That they are those of the digests
// in the plan is checked by LaunchPlan::Create, not here.
struct FetchedPlan {
  v1::SignedPlan envelope;
  VerifiedPlan verified;
  ModelSpec model;
  Topology topology;
};

// Connects at the first call, and again after the server could not be reached: certificates are
// renewed while a job runs. Not thread-safe.
class PlanFetcher {
 public:
  // `server` is not used for a `wanted.file`, except by `FetchNewer`. `accepted` is the bundle that
  // was accepted before, if any.
  PlanFetcher(PlanWanted wanted, ChannelOptions server, TrustBundle accepted = {})
      : wanted_(std::move(wanted)), server_(std::move(server)), accepted_(std::move(accepted)) {}

  // Tries once. `now` is the time at which the plan must be valid. Returns the errors of
  // PlanVerifier, of ReadTrustFile, of CheckTrustLife and of plan_service.proto; INVALID_ARGUMENT
  // naming a file or a setting of the server that cannot be used, NOT_FOUND (RESOURCE_NOT_FOUND) if
  // there is no plan yet. `timeout` holds for each call to the server, and for all pages of a list
  // together.
  //
  // The plan of a job is looked for among the newest 2000 of its cluster. Plans of the job that
  // have expired or have another audience do not count; if none of the others can be trusted, the
  // error is that of the newest of these.
  absl::StatusOr<FetchedPlan> Fetch(absl::Time now, absl::Duration timeout);

  // Returns the newest plan bound to the job and cluster of `current`, if it was made later than
  // `current`, else nothing; a plan without a job has no successor. Of `wanted` only the trust
  // file, the cluster and the node count. Returns the errors of `Fetch`, and the error of
  // `CheckSuccessor` (successor.h).
  absl::StatusOr<std::optional<FetchedPlan>> FetchNewer(const v1::PlanPayload& current,
                                                        absl::Time now, absl::Duration timeout);

  // Returns when the bundle that was accepted last expires; infinite if it never does, or none was.
  absl::Time trust_expiry() const {
    return accepted_.version().has_value() ? accepted_.version()->expire_time
                                           : absl::InfiniteFuture();
  }

 private:
  absl::StatusOr<FetchedPlan> FromFiles(const PlanVerifier& verifier, absl::Time now) const;
  absl::StatusOr<FetchedPlan> FromServer(const PlanVerifier& verifier, const v1::Plan& plan,
                                         const std::string& job_id, absl::Time now) const;
  // Returns the name of the newest plan of a job issued after `after`; empty if there is none.
  // `timeout` holds for all calls together.
  absl::StatusOr<std::string> NewestName(const PlanVerifier& verifier, const std::string& cluster,
                                         const std::string& job_id, absl::Time after,
                                         absl::Time now, absl::Duration timeout);
  absl::StatusOr<FetchedPlan> Named(const PlanVerifier& verifier, const std::string& name,
                                    const std::string& job_id, absl::Time now,
                                    absl::Duration timeout) const;
  absl::StatusOr<FetchedPlan> Asked(const PlanVerifier& verifier, absl::Time now,
                                    absl::Duration timeout) const;
  absl::StatusOr<PlanVerifier> ReadTrust(absl::Time now);
  ExpectedAudience Audience(const std::string& job_id) const;
  // Makes client_ if there is none.
  absl::Status Connect();
  // Drops client_ after an error that a new connection may avoid.
  void Heed(const absl::Status& status);
  absl::StatusOr<FetchedPlan> FetchOnce(absl::Time now, absl::Duration timeout);
  absl::StatusOr<std::optional<FetchedPlan>> FetchNewerOnce(const v1::PlanPayload& current,
                                                            absl::Time now, absl::Duration timeout);

  PlanWanted wanted_;
  ChannelOptions server_;
  TrustBundle accepted_;  // The bundle that was accepted last.
  std::unique_ptr<PlanClient> client_;
  // Creation time of the newest plan that was found to belong to another job.
  absl::Time looked_until_ = absl::InfinitePast();
};

}  // namespace parplan::sidecar

#endif  // PARPLAN_CLIENTS_KUBERNETES_PLAN_FETCHER_H_
