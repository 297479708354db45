// A `CreatePlanRequest`, read and checked: the problem for the planner, and the keys by which equal
// questions are recognised.

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
#include "planner/model/planning_problem.h"
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
  std::string cluster;
  std::string job_id;
  std::string request_id;
  absl::Duration time_to_live;
  v1::PlanSpec spec;
  PlanningOptions options;
  PlanningProblem problem;
  // Version of the knowledge that the answer rests on, and the end of its newest measurement.
  KnowledgeVersion version;
  absl::Time newest_measurement;

  // Digests of the parts of `problem`, 64 hexadecimal digits. That of the profile is empty if
  // nothing was measured, that of the hardware if the device is in no library; that of the
  // calibration never, since the published one stands in for an active one.
  std::string model_digest;
  std::string topology_digest;
  std::string profile_digest;
  std::string hardware_digest;
  std::string calibration_digest;

  // Identifies the question, whoever asks: `PlanKey` (model, devices, measurements, data sheets,
  // calibration, rules, planner), the names used in the answer, and whether baselines are compared.
  // Equal keys have equal answers, unless a limit ends the search.
  std::string answer_key;
  // `answer_key` and the limits of the search. Questions with equal keys share a search.
  std::string flight_key;
  // `answer_key`, job, time to live and, if there is one, the owner, as SHA-256 in lower-case
  // hexadecimal. The store finds plans by it.
  std::string binding_key;
  // `RequestKey` of the request.
  std::string request_key;
};

// Returns the bytes of the owner (`Caller::owner`) and of everything in `request` except its
// `request_id`: equal bytes mean equal requests of one owner. (Within one process Protobuf
// serializes equal messages to equal bytes.)
std::string RequestKey(const v1::CreatePlanRequest& request, absl::string_view owner);

// Returns the cluster that the request names, and checks its `request_id`: all that is needed to
// look for a plan made before. INVALID_ARGUMENT (SPEC_INVALID) naming the field.
absl::StatusOr<ClusterName> ReadParent(const v1::CreatePlanRequest& request);

// Reads the rest of a request whose `parent` is read: converts it to values once, checks these
// against `limits`, and adds what `knowledge` has of the nodes. `request_key` is `RequestKey` of
// the request, `context` the call. The question does not keep `context`, which may keep it.
//
// INVALID_ARGUMENT (SPEC_INVALID) naming the field; FAILED_PRECONDITION (PROFILE_MISSING) if no
// such node was measured and no estimate is wanted or possible; RESOURCE_EXHAUSTED
// (UPLOAD_TOO_LARGE) for a request above `Limits::max_request_bytes`; the errors of the store.
absl::StatusOr<std::shared_ptr<const PlanQuestion>> ReadQuestion(
    const CallContext& context, const v1::CreatePlanRequest& request, const ClusterName& parent,
    std::string request_key, KnowledgeKeeper& knowledge, const Limits& limits);

// Checks that there is a planner of this name. INVALID_ARGUMENT (SPEC_INVALID) with `planner` below
// `field`, which names the options.
absl::Status CheckPlannerName(absl::string_view planner, absl::string_view field);

// Checks that the model has at most as many layers as the server accepts. INVALID_ARGUMENT
// (SPEC_INVALID) below `field`, which names the model.
absl::Status CheckModelSize(const ModelSpec& model, const Limits& limits, absl::string_view field);

}  // namespace parplan

#endif  // PARPLAN_SERVER_CORE_PLAN_QUESTION_H_
