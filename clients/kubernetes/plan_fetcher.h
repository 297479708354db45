// Gets the plan of a job, from a server or from files, and verifies it.

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
#include "proto/envelope/verified_plan.h"
#include "proto/envelope/verifier.h"

namespace parplan::sidecar {

// Which plan. One of `file`, `name`, `question_file`; without them the newest plan that is bound
// to `job_id` in `cluster`.
struct PlanWanted {
  // A signed plan (DSSE, JSON), and what it was made for.
  std::string file;
  std::string model_file;
  std::string topology_file;
  // `clusters/{cluster}/plans/{plan}`.
  std::string name;
  // A CreatePlanRequest (proto JSON): asked for. `job_id` goes before the one in the file. All
  // that ask one question for one job get one plan.
  std::string question_file;
  // Keys (JWKS) to verify with; read again each time, since they change.
  std::string trust_file;
  // What the plan must be for; empty: not checked.
  std::string cluster;
  std::string job_id;
  std::string node_name;
};

// A plan that may be acted on, with what it was made for.
struct FetchedPlan {
  v1::SignedPlan envelope;
  VerifiedPlan verified;
  ModelSpec model;
  Topology topology;
};

// Of one thread. Connects when it asks, and anew after a server that could not be reached:
// certificates are renewed while a job runs.
class PlanFetcher {
 public:
  PlanFetcher(PlanWanted wanted, ChannelOptions server)
      : wanted_(std::move(wanted)), server_(std::move(server)) {}

  // One try. The errors of PlanVerifier and of plan_service.proto; INVALID_ARGUMENT naming a
  // file that cannot be read, NOT_FOUND (RESOURCE_NOT_FOUND) where there is no plan yet.
  absl::StatusOr<FetchedPlan> Fetch(absl::Time now, absl::Duration timeout);

  // The newest plan bound to the job of `current`, where that was issued later; the errors of
  // `Fetch`, AUDIENCE_MISMATCH where it is for another model. A plan without a job has no
  // successor.
  absl::StatusOr<std::optional<FetchedPlan>> FetchNewer(const v1::PlanPayload& current,
                                                        absl::Time now, absl::Duration timeout);

 private:
  absl::StatusOr<FetchedPlan> FromFiles(const PlanVerifier& verifier, absl::Time now) const;
  absl::StatusOr<FetchedPlan> FromServer(const PlanVerifier& verifier, const v1::Plan& plan,
                                         const std::string& job_id, absl::Time now) const;
  // The name of the newest plan of a job that was issued after `after`; empty where there is none.
  // `timeout` is for all calls together.
  absl::StatusOr<std::string> NewestName(const PlanVerifier& verifier, const std::string& cluster,
                                         const std::string& job_id, absl::Time after,
                                         absl::Time now, absl::Duration timeout);
  absl::StatusOr<FetchedPlan> Named(const PlanVerifier& verifier, const std::string& name,
                                    const std::string& job_id, absl::Time now,
                                    absl::Duration timeout) const;
  absl::StatusOr<FetchedPlan> Asked(const PlanVerifier& verifier, absl::Time now,
                                    absl::Duration timeout) const;
  absl::StatusOr<PlanVerifier> ReadTrust() const;
  ExpectedAudience Audience(const std::string& job_id) const;
  // Makes client_ where there is none.
  absl::Status Connect();
  // Drops client_ after an error that another connection may mend.
  void Heed(const absl::Status& status);
  absl::StatusOr<FetchedPlan> FetchOnce(absl::Time now, absl::Duration timeout);
  absl::StatusOr<std::optional<FetchedPlan>> FetchNewerOnce(const v1::PlanPayload& current,
                                                            absl::Time now, absl::Duration timeout);

  PlanWanted wanted_;
  ChannelOptions server_;
  std::unique_ptr<PlanClient> client_;
  // When the newest plan was made that a look found not to be of the job.
  absl::Time looked_until_ = absl::InfinitePast();
};

// Whether a plan may still come: the server is away or busy, or nobody has made the plan yet.
bool MayStillCome(const absl::Status& status);

}  // namespace parplan::sidecar

#endif  // PARPLAN_CLIENTS_KUBERNETES_PLAN_FETCHER_H_
