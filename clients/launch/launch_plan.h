// Derives what the processes of a job need to run a verified plan: their rank, node and process
// groups, as environment variables (docs/launch.md lists them).
//
// Pure: it reads and writes nothing. The program that starts the processes, or prepares them (the
// tools for Slurm, the sidecar), sets the variables in their environment.

#ifndef PARPLAN_CLIENTS_LAUNCH_LAUNCH_PLAN_H_
#define PARPLAN_CLIENTS_LAUNCH_LAUNCH_PLAN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "clients/launch/launch_variables.h"
#include "planner/model/model_spec.h"
#include "planner/model/plan.h"
#include "planner/model/topology.h"
#include "planner/program/activation_layout.h"
#include "planner/program/rank_program.h"
#include "proto/envelope/verified_plan.h"

namespace parplan {

// Values that the plan does not contain.
struct LaunchOptions {
  // Names of the nodes in rank order, one each. If the topology names nodes too, they must be the
  // same in the same order. Empty: those of the topology or, if it names none, `node-0`, `node-1`,
  // ...
  std::vector<std::string> node_names;
  // Address of the node of rank 0, and a free port there, from 1 to 65534: the port above it is
  // used too. An empty address and a port of 0 are left out, each by itself.
  std::string master_address;
  int master_port = 0;
  // Paths of these files as the processes see them; empty: left out.
  std::string plan_path;
  std::string model_path;
  std::string topology_path;
  std::string trust_path;
  std::string rank_map_path;
};

// A node of the job, with the ranks first_rank to first_rank + device_count - 1. Ranks count from 0
// through the nodes in their order.
struct LaunchNode {
  // The name that the plan or `LaunchOptions::node_names` gives the node, else `node-0`, `node-1`
  // and so on.
  std::string name;
  int first_rank = 0;
  int device_count = 0;
};

// The ranks, nodes and process groups of one plan. A value.
class LaunchPlan {
 public:
  // Copies what it needs of its arguments. FAILED_PRECONDITION with `field` in its metadata if the
  // plan was made for another `model` (SPEC_INVALID) or another `topology`, number of devices or
  // nodes, or names of nodes (TOPOLOGY_MISMATCH); INVALID_ARGUMENT if the payload is not a plan
  // (PAYLOAD_MALFORMED) or `master_port` is out of range (SPEC_INVALID). A plan that the executor
  // cannot run (`RankProgram::Create`), such as one for another runtime, is no error: it gets no
  // process groups, and the JSON says why. O(ranks * (layers + passes + ranks of a stage)) time.
  static absl::StatusOr<LaunchPlan> Create(const VerifiedPlan& verified, const ModelSpec& model,
                                           const Topology& topology, LaunchOptions options = {});

  // Returns the number of ranks of the job, one for each device of the plan.
  int rank_count() const { return plan_.device_count; }
  // The nodes in rank order; at least one.
  const std::vector<LaunchNode>& nodes() const { return nodes_; }
  // Returns the index in nodes() of the first node with this name, or -1.
  int NodeNamed(const std::string& name) const;

  // Returns the variables that all processes of a node share. REQUIRES, unchecked: an index into
  // nodes().
  LaunchVariables VariablesOfNode(int node) const;
  // Returns the further variables of one rank. REQUIRES, unchecked: 0 <= rank < rank_count().
  LaunchVariables VariablesOfRank(int rank) const;

  // Returns one JSON object with nodes, ranks and groups (docs/launch.md), and a line feed at its
  // end.
  std::string RankMapJson() const;

 private:
  // One rank: its place in the plan and its groups.
  struct Member {
    int node = 0;
    int pipeline_place = 0;
    std::vector<int> stages;
    // Present if all layers of the rank are split in the same way. The strategy of a rank without
    // layers is that of what it hands on.
    std::optional<Strategy> strategy;
    std::optional<Sharding> sharding;
    GridPlace place;
    // Indices into groups_, ascending; and the groups that all its layers use, -1 for none.
    std::vector<int> groups;
    int tensor_group = -1;
    int context_group = -1;
    int gradient_group = -1;
    int stage_group = -1;
  };

  LaunchPlan() = default;
  // Returns the samples of one micro-batch on one data-parallel replica; nothing if layers have
  // different data-parallel degrees.
  std::optional<int64_t> MicroBatchSizePerRank() const;
  absl::Status PlaceNodes(const Topology& topology);
  void PlaceRank(int rank);
  void AddGroups(const ModelSpec& model);

  Plan plan_;
  std::string name_;
  std::string cluster_;
  std::string job_id_;
  LaunchOptions options_;
  std::vector<LaunchNode> nodes_;
  std::vector<Member> members_;
  // All groups of at least two ranks, except that of all ranks which sums up the loss; sorted,
  // without repetition.
  std::vector<GroupSpec> groups_;
  // Why the executor cannot run the plan, if it cannot: then there are no groups.
  std::string no_groups_reason_;
};

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_LAUNCH_LAUNCH_PLAN_H_
