// Names of resources, as in URLs: `clusters/{cluster}/plans/{plan}`.
//
// Ids consist of lower-case letters, digits and `-`, 1 to 63 characters, and start with a letter or
// digit. Node ids may also have upper-case letters, `.` and `_`, up to 253 characters, since their
// names come from the cluster.
//
// Each `Parse` returns the ids in a name, or INVALID_ARGUMENT (SPEC_INVALID) naming `field` (the
// field of the request, for the message) and the expected form, such as for an empty text or an id
// that breaks the rule. `ToString` is its inverse and does not check the ids; `parent` drops the
// last pair. The server, the clients and the agent read and write names with it.

#ifndef PARPLAN_PROTO_WIRE_RESOURCE_NAME_H_
#define PARPLAN_PROTO_WIRE_RESOURCE_NAME_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace parplan {

// Returns whether `id` may be the id of a cluster, profile, calibration, plan or execution.
bool IsResourceId(absl::string_view id);

// Returns whether `id` may be the id of a node.
bool IsNodeId(absl::string_view id);

// `clusters/{cluster}`.
struct ClusterName {
  std::string cluster;

  static absl::StatusOr<ClusterName> Parse(absl::string_view name,
                                           absl::string_view field = "parent");
  std::string ToString() const;
  friend bool operator==(const ClusterName&, const ClusterName&) = default;
};

// `clusters/{cluster}/nodes/{node}`.
struct NodeName {
  std::string cluster;
  std::string node;

  static absl::StatusOr<NodeName> Parse(absl::string_view name, absl::string_view field = "parent");
  std::string ToString() const;
  friend bool operator==(const NodeName&, const NodeName&) = default;
};

// `clusters/{cluster}/nodes/{node}/profiles/{profile}`.
struct ProfileName {
  std::string cluster;
  std::string node;
  std::string profile;

  static absl::StatusOr<ProfileName> Parse(absl::string_view name,
                                           absl::string_view field = "name");
  std::string ToString() const;
  NodeName parent() const { return NodeName{cluster, node}; }
  friend bool operator==(const ProfileName&, const ProfileName&) = default;
};

// `clusters/{cluster}/calibrations/{calibration}`.
struct CalibrationName {
  std::string cluster;
  std::string calibration;

  static absl::StatusOr<CalibrationName> Parse(absl::string_view name,
                                               absl::string_view field = "name");
  std::string ToString() const;
  ClusterName parent() const { return ClusterName{cluster}; }
  friend bool operator==(const CalibrationName&, const CalibrationName&) = default;
};

// `clusters/{cluster}/plans/{plan}`.
struct PlanName {
  std::string cluster;
  std::string plan;

  static absl::StatusOr<PlanName> Parse(absl::string_view name, absl::string_view field = "name");
  std::string ToString() const;
  ClusterName parent() const { return ClusterName{cluster}; }
  friend bool operator==(const PlanName&, const PlanName&) = default;
};

// `clusters/{cluster}/plans/{plan}/executions/{execution}`.
struct ExecutionName {
  std::string cluster;
  std::string plan;
  std::string execution;

  static absl::StatusOr<ExecutionName> Parse(absl::string_view name,
                                             absl::string_view field = "name");
  std::string ToString() const;
  PlanName parent() const { return PlanName{cluster, plan}; }
  friend bool operator==(const ExecutionName&, const ExecutionName&) = default;
};

}  // namespace parplan

#endif  // PARPLAN_PROTO_WIRE_RESOURCE_NAME_H_
