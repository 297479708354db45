// A `CreatePlanRequest`, read and checked: the problem for the planner, and the keys by which equal
// questions are recognised. `PlanCore` reads one for each request; `ShapeCore` uses the two checks
// at the end.

#ifndef PARPLAN_SERVER_CORE_PLAN_QUESTION_H_
#define PARPLAN_SERVER_CORE_PLAN_QUESTION_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "parplan/v1/plan.pb.h"
#include "parplan/v1/plan_service.pb.h"
#include "planner/model/model_spec.h"
#include "planner/model/planning_problem.h"
#include "planner/model/search_space.h"
#include "proto/wire/resource_name.h"
#include "proto/wire/rules_wire.h"
#include "server/access/caller.h"
#include "server/core/call_context.h"
#include "server/core/knowledge_keeper.h"
#include "server/core/limits.h"

namespace parplan {

// A question as the core works on it. Immutable once read.
struct PlanQuestion {
  // Whoever asks, and the id of its call for the audit log. Others may wait for the same search,
  // each with its own question.
  std::shared_ptr<const Caller> caller;
  std::string call_id;
  // Id of the cluster; id of the job and `request_id` of the request, both empty if it has none.
  std::string cluster;
  std::string job_id;
  std::string request_id;
  // That of the request, cut to `Limits::max_time_to_live`; `Limits::default_time_to_live` if it
  // names none.
  absl::Duration time_to_live;
  // That of the request, as it came.
  v1::PlanSpec spec;
  // `search_time_limit` is always set: that of the request, cut to `Limits::max_search_duration`,
  // or that limit itself.
  PlanningOptions options;
  PlanningProblem problem;
  // Version of the knowledge that the answer rests on, and the end of its newest measurement:
  // InfinitePast if nothing was measured.
  KnowledgeVersion version;
  absl::Time newest_measurement;

  // Digests of the parts of `problem`, 64 hexadecimal digits each. `profile_digest` is empty if
  // nothing was measured, and `hardware_digest` if the device is in no library. A cluster without
  // an active calibration has the digest of the calibration inside the program.
  std::string model_digest;
  std::string topology_digest;
  std::string profile_digest;
  std::string hardware_digest;
  std::string calibration_digest;

  // Identifies the question, whoever asks: `PlanKey` (model, devices, measurements, data sheets,
  // calibration, batch, rules, planner, release), the ids of the model and its layers, the wanted
  // gap, and whether baselines are compared. Equal keys have equal answers, unless a limit ends the
  // search.
  std::string answer_key;
  // `answer_key` and the limits of the search. Questions with equal keys share a search.
  std::string flight_key;
  // `answer_key`, job, time to live and, if there is one, the owner, as SHA-256 in lower-case
  // hexadecimal. The store finds plans by it.
  std::string binding_key;
  // `RequestKey` of the request.
  std::string request_key;
};

// Returns bytes made of the owner (`Caller::owner`) and all fields of `request` but `request_id`.
// Requests of one owner with equal bytes ask the same. Compare keys of one process only: Protobuf
// promises equal bytes for equal messages there.
std::string RequestKey(const v1::CreatePlanRequest& request, absl::string_view owner);

// Returns the cluster that `parent` names, and checks `request_id`, which may be empty. That is
// enough to look for a plan made before. INVALID_ARGUMENT (SPEC_INVALID) naming the field.
absl::StatusOr<ClusterName> ReadParent(const v1::CreatePlanRequest& request);

// Reads the rest of a request whose `parent` is read: converts it to values once, checks these
// against `limits`, and adds what `knowledge` has of the nodes. `request_key` is `RequestKey` of
// the request, `context` the call, which the question does not keep. May wait for the store's disk
// or network.
//
// INVALID_ARGUMENT (SPEC_INVALID) naming the field, also for a topology with several node groups or
// of another cluster than `parent`; FAILED_PRECONDITION (PROFILE_MISSING) if no node of the
// topology's kind was measured and no estimate is wanted or possible; RESOURCE_EXHAUSTED
// (UPLOAD_TOO_LARGE) if `request_key` has more bytes than `Limits::max_request_bytes`; the errors
// of the store.
absl::StatusOr<std::shared_ptr<const PlanQuestion>> ReadQuestion(
    const CallContext& context, const v1::CreatePlanRequest& request, const ClusterName& parent,
    std::string request_key, KnowledgeKeeper& knowledge, const Limits& limits);

// Checks that there is a planner of this name; an empty name is refused too. INVALID_ARGUMENT
// (SPEC_INVALID) for the field `planner` of `field`, the path of the options in the request, for
// example `spec.options`.
absl::Status CheckPlannerName(absl::string_view planner, absl::string_view field);

// Checks that the model has at most `limits.max_layer_count` layers. INVALID_ARGUMENT
// (SPEC_INVALID) for the field `layer_runs` of `field`, the path of the model in the request, for
// example `spec.model`.
absl::Status CheckModelSize(const ModelSpec& model, const Limits& limits, absl::string_view field);

// Checks that the program of `target` runs some plan of the model (`CheckModelOfTarget`,
// exports/exporters.h), so that no search is made in vain. INVALID_ARGUMENT (SPEC_INVALID) for a
// field below `model` of `field`, the path of the question in the request, for example `spec`.
absl::Status CheckModelRuns(Target target, const ModelSpec& model, absl::string_view field);

}  // namespace parplan

#endif  // PARPLAN_SERVER_CORE_PLAN_QUESTION_H_
