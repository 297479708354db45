// What the processes of a job must be told to run a verified plan: which rank each of them is,
// on which node, and whom it works with.
//
// Pure: it reads and writes nothing. Whoever starts the processes, or stands between (the
// tools for Slurm, the sidecar), puts the variables into their environment. docs/launch.md
// lists them.

#ifndef PARPLAN_CLIENTS_LAUNCH_LAUNCH_PLAN_H_
#define PARPLAN_CLIENTS_LAUNCH_LAUNCH_PLAN_H_

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

// What the plan does not say.
struct LaunchOptions {
  // Names of the nodes in rank order. Empty: those of the topology or, where it names none,
  // `node-0`, `node-1`, ...
  std::vector<std::string> node_names;
  // How others reach the node of rank 0, and a port there that is free for the job, from 1 to
  // 65534: the port above it is used too. Empty and 0: left out.
  std::string master_address;
  int master_port = 0;
  // Where the processes find these files; empty: left out.
  std::string plan_path;
  std::string model_path;
  std::string topology_path;
  std::string trust_path;
  std::string rank_map_path;
};

// A node of the job, with the ranks first_rank to first_rank + device_count - 1.
struct LaunchNode {
  std::string name;
  int first_rank = 0;
  int device_count = 0;
};

// A value.
class LaunchPlan {
 public:
  // FAILED_PRECONDITION with `field` in its metadata where `model` (SPEC_INVALID) or
  // `topology`, with its names of nodes (TOPOLOGY_MISMATCH), is not what the plan was made for;
  // INVALID_ARGUMENT where the payload is no plan or an option is out of range.
  // O(ranks * (layers + passes + ranks of a stage)) time.
  static absl::StatusOr<LaunchPlan> Create(const VerifiedPlan& verified, const ModelSpec& model,
                                           const Topology& topology, LaunchOptions options = {});

  int rank_count() const { return plan_.device_count; }
  // In rank order; at least one.
  const std::vector<LaunchNode>& nodes() const { return nodes_; }
  // -1 where no node has the name.
  int NodeNamed(const std::string& name) const;

  // What is the same for all processes of a node. REQUIRES: an index into nodes().
  LaunchVariables VariablesOfNode(int node) const;
  // What a rank is told besides. REQUIRES: 0 <= rank < rank_count().
  LaunchVariables VariablesOfRank(int rank) const;

  // One JSON object: nodes, ranks and groups (docs/launch.md). With a line feed at the end.
  std::string RankMapJson() const;

 private:
  // One rank among the others.
  struct Member {
    int node = 0;
    int pipeline_place = 0;
    std::vector<int> stages;
    // Where all its layers are split in the same way.
    std::optional<Strategy> strategy;
    std::optional<ShardingLevel> sharding;
    GridPlace place;
    // Indices into groups_, in order; and those that all its layers use, -1 where there is none.
    std::vector<int> groups;
    int tensor_group = -1;
    int context_group = -1;
    int gradient_group = -1;
    int stage_group = -1;
  };

  LaunchPlan() = default;
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
  // All groups of several ranks but that of all of them; sorted, none twice.
  std::vector<GroupSpec> groups_;
  // Why there are no groups: the plan is for another runtime than the executor's.
  std::string no_groups_reason_;
};

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_LAUNCH_LAUNCH_PLAN_H_
