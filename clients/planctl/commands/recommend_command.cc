// `planctl recommend`: how many nodes a TrainJob of Kubeflow Trainer should have. docs/kubeflow.md.

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "clients/cpp/plan_client.h"
#include "clients/kubeflow/node_recommendation.h"
#include "clients/kubeflow/train_job.h"
#include "clients/planctl/commands/command.h"
#include "clients/planctl/commands/question_flags.h"
#include "clients/planctl/commands/server_flags.h"
#include "clients/planctl/commands/shape_request.h"
#include "clients/planctl/files.h"

namespace parplan::planctl {
namespace {

using kubeflow::NodeRange;
using kubeflow::TrainJob;

struct RecommendFlags {
  std::string job_path;
  std::string plugin = "parplan";
  std::string device_resource = "nvidia.com/gpu";
  std::string model_folder;
  int min_node_count = 1;
  // 0: those of the cluster file.
  int max_node_count = 0;
  bool annotates_pods = false;
  QuestionFlags question;
  ServerFlags server;
};

absl::Status JobError(const TrainJob& job, absl::string_view field, absl::string_view rule) {
  return FieldError(Reason::kSpecInvalid, absl::StrCat(job.name, ": ", field), rule);
}

absl::Status AnnotationError(const TrainJob& job, absl::string_view name, absl::string_view rule) {
  return JobError(job, absl::StrCat("metadata.annotations.", name), rule);
}

// Returns the file of a model that a job names, which must not lead out of the folder.
absl::StatusOr<std::string> ModelPath(const TrainJob& job, const std::string& folder) {
  if (folder.empty()) {
    return AnnotationError(job, kubeflow::kModelAnnotation,
                           "needs a folder of models; give one with --model-dir");
  }
  const bool is_name =
      job.model.front() != '.' &&
      std::all_of(job.model.begin(), job.model.end(), [](unsigned char letter) {
        return absl::ascii_isalnum(letter) || letter == '.' || letter == '-' || letter == '_';
      });
  if (!is_name) {
    return AnnotationError(job, kubeflow::kModelAnnotation,
                           "must have letters, digits, `.`, `-` and `_` only, no `.` in front");
  }
  return (std::filesystem::path(folder) / absl::StrCat(job.model, ".model.json")).string();
}

// Returns the question of the job: its annotations before the flags.
absl::StatusOr<v1::PlanSpec> SpecOf(const TrainJob& job, const RecommendFlags& flags) {
  QuestionFlags question = flags.question;
  if (!job.model.empty()) {
    PARPLAN_ASSIGN_OR_RETURN(question.model_path, ModelPath(job, flags.model_folder));
  }
  if (question.model_path.empty()) {
    return AnnotationError(job, kubeflow::kModelAnnotation, "is required without --model");
  }
  question.global_batch_size = job.global_batch_size.value_or(question.global_batch_size);
  if (question.global_batch_size == 0) {
    return AnnotationError(job, kubeflow::kBatchAnnotation, "is required without --batch");
  }
  if (!job.target.empty()) question.target = job.target;
  return question.ReadSpec();
}

// Leaves the node groups whose nodes are what one pod of the job takes.
absl::Status KeepFittingGroups(const TrainJob& job, v1::PlanSpec* spec) {
  const auto field = job.devices_per_node.has_value() ? "resourcesPerNode" : "numProcPerNode";
  const auto wanted =
      job.devices_per_node.has_value() ? job.devices_per_node : job.processes_per_node;
  if (!wanted.has_value()) return absl::OkStatus();
  auto& groups = *spec->mutable_topology()->mutable_node_groups();
  groups.erase(std::remove_if(groups.begin(), groups.end(),
                              [wanted](const v1::NodeGroup& group) {
                                return group.devices_per_node() != *wanted;
                              }),
               groups.end());
  if (!groups.empty()) return absl::OkStatus();
  return JobError(job, absl::StrCat("spec.trainer.", field),
                  absl::StrCat("asks for ", *wanted,
                               " devices, and no node of the cluster file "
                               "has so many; a pod must have all devices of its node"));
}

// Returns the nodes of the largest group that fits the job.
int LargestGroup(const v1::PlanSpec& spec) {
  int nodes = 0;
  for (const v1::NodeGroup& group : spec.topology().node_groups()) {
    nodes = std::max(nodes, group.node_count());
  }
  return nodes;
}

absl::StatusOr<int> NodeCountOf(const v1::ShapePlanRequest& request,
                                const v1::ShapePlanResponse& response, const NodeRange& nodes) {
  if (!response.has_recommended_option_index()) {
    return MakeError(absl::StatusCode::kFailedPrecondition, Reason::kNoFeasiblePlan,
                     response.infeasible_reason());
  }
  const int index = response.recommended_option_index();
  const bool has_option = index >= 0 && index < response.options_size();
  const int offer = has_option ? response.options(index).offer_index() : -1;
  if (offer < 0 || offer >= request.offers_size()) {
    return absl::InternalError("the server recommends an option that it does not give");
  }
  const int devices = response.options(index).device_count();
  const int devices_per_node = request.offers(offer).devices_per_node();
  const int count = devices / devices_per_node;
  if (devices % devices_per_node != 0 || count < nodes.min || count > nodes.max) {
    return absl::InternalError(absl::StrCat("the server recommends ", devices,
                                            " devices, which are not ", nodes.min, " to ",
                                            nodes.max, " nodes of ", devices_per_node));
  }
  return count;
}

absl::Status Recommend(const Session& session, const RecommendFlags& flags) {
  PARPLAN_ASSIGN_OR_RETURN(const std::string text, ReadFile(flags.job_path));
  PARPLAN_ASSIGN_OR_RETURN(const TrainJob job,
                           kubeflow::ReadTrainJob(text, flags.job_path, flags.device_resource));
  if (const std::string reason = kubeflow::ReasonToSkip(job, flags.plugin); !reason.empty()) {
    Note(session, absl::StrCat(job.name, " stays as it is: ", reason));
    return Print(session, "[]\n");
  }
  PARPLAN_ASSIGN_OR_RETURN(v1::PlanSpec spec, SpecOf(job, flags));
  PARPLAN_RETURN_IF_ERROR(KeepFittingGroups(job, &spec));
  const int quota = flags.max_node_count > 0 ? flags.max_node_count : LargestGroup(spec);
  if (flags.min_node_count > quota) {
    return FieldError(Reason::kSpecInvalid, "--min-nodes",
                      absl::StrCat("must be at most ", quota, ", the nodes that jobs may have"));
  }
  PARPLAN_ASSIGN_OR_RETURN(
      const NodeRange nodes,
      kubeflow::AcceptedNodes(job, {.min = flags.min_node_count, .max = quota}));
  for (const v1::NodeGroup& group : spec.topology().node_groups()) {
    if (int64_t{nodes.max} * group.devices_per_node() > std::numeric_limits<int32_t>::max()) {
      return FieldError(Reason::kSpecInvalid, "--max-nodes", "makes too many devices");
    }
  }
  const v1::ShapePlanRequest request = ShapeRequestOf(spec, [&nodes](const v1::NodeGroup& group) {
    return DeviceRange{nodes.min * group.devices_per_node(), nodes.max * group.devices_per_node()};
  });
  PARPLAN_ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel,
                           flags.server.Connect(session));
  PARPLAN_ASSIGN_OR_RETURN(const v1::ShapePlanResponse response,
                           PlanClient(channel).ShapePlan(request, flags.server.Call()));
  PARPLAN_ASSIGN_OR_RETURN(const int count, NodeCountOf(request, response, nodes));
  const v1::ShapeOption& option = response.options(response.recommended_option_index());
  Note(session, absl::StrCat(job.name, ": ", count, count == 1 ? " node, " : " nodes, ",
                             option.samples_per_second(), " samples/s, plan ", option.gist()));
  return Print(session, kubeflow::NodeCountPatch(job, count, flags.annotates_pods));
}

}  // namespace

void AddRecommendCommand(Command app, const Session& session, Action& action) {
  auto flags = std::make_shared<RecommendFlags>();
  Command command = app.AddCommand(
      "recommend", "Say how many nodes a TrainJob of Kubeflow Trainer should have, as a patch");
  command.Footer(
      "Annotations of the job count before flags: parplan.io/model, parplan.io/global-batch-size, "
      "parplan.io/target, parplan.io/min-nodes, parplan.io/max-nodes (docs/kubeflow.md). A job "
      "that "
      "does not ask for this recommender gets an empty patch.\nExample:\n"
      "  kubectl get trainjob llama2-7b -o json |\n"
      "    planctl recommend - --cluster c.cluster.json --model-dir models >patch.json &&\n"
      "    kubectl patch trainjob llama2-7b --type json --patch-file patch.json");
  command.AddOption("job", flags->job_path, "TrainJob in JSON; `-` is standard input").Required();
  flags->question.AddTo(command, /*with_planner=*/true);
  // The job may have them, and the server its own measurements.
  for (const char* const option : {"--model", "--batch", "--profile", "--calibration", "--nodes"}) {
    command.RemoveOption(option);
  }
  command.AddOption("--model", flags->question.model_path,
                    "Model file of jobs without an annotation (docs/files.md)");
  command.AddOption("--model-dir", flags->model_folder,
                    "Folder with NAME.model.json for each NAME that a job's parplan.io/model may "
                    "have");
  command
      .AddOption("--batch", flags->question.global_batch_size,
                 "Samples per optimizer step of jobs without an annotation")
      .Check(shell::Positive());
  command.AddOption("--min-nodes", flags->min_node_count, "Fewest nodes of a job [1]")
      .Check(shell::Positive());
  command
      .AddOption("--max-nodes", flags->max_node_count,
                 "Most nodes of a job, such as its quota [those of the cluster file]")
      .Check(shell::Positive());
  command.AddFlag("--annotate-pods", flags->annotates_pods,
                  "Also give the pods the number, as annotation parplan.io/nodes");
  command
      .AddOption("--plugin", flags->plugin,
                 "Name that jobs give in trainer.kubeflow.org/autoconf-plugin [parplan]")
      .Check(shell::NotEmpty());
  command
      .AddOption("--device-resource", flags->device_resource,
                 "Resource that counts devices [nvidia.com/gpu]")
      .Check(shell::NotEmpty());
  flags->server.AddTo(command);
  command.OnChosen([&session, &action, flags] {
    action = [&session, flags] { return Recommend(session, *flags); };
  });
}

}  // namespace parplan::planctl
