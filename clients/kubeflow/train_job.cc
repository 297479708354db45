#include "clients/kubeflow/train_job.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "base/json/json_text.h"
#include "base/status_macros.h"

namespace parplan::kubeflow {
namespace {

using Type = JsonValue::Type;

constexpr char kApiVersion[] = "trainer.kubeflow.org/v1alpha1";
constexpr char kKind[] = "TrainJob";

// A value of the object with its path, for errors.
class Field {
 public:
  Field(const JsonValue* value, absl::string_view file_name, std::string path)
      : value_(value), file_name_(file_name), path_(std::move(path)) {}

  // A member that is null counts as absent, as Kubernetes reads it.
  Field Member(absl::string_view name) const {
    const JsonValue* const found = value_ == nullptr ? nullptr : value_->Find(name);
    const bool is_absent = found == nullptr || found->type == Type::kNull;
    return {is_absent ? nullptr : found, file_name_,
            absl::StrCat(path_, path_.empty() ? "" : ".", name)};
  }

  bool is_given() const { return value_ != nullptr; }

  absl::Status Error(absl::string_view rule) const {
    return FieldError(Reason::kSpecInvalid, absl::StrCat(file_name_, ": ", path_), rule);
  }

  absl::Status CheckObject() const {
    if (is_given() && value_->type != Type::kObject) return Error("must be an object");
    return absl::OkStatus();
  }

  // Returns the text, empty if absent.
  absl::StatusOr<std::string> Text() const {
    if (!is_given()) return std::string();
    if (value_->type != Type::kString) return Error("must be a string");
    return value_->text;
  }

  absl::StatusOr<bool> Boolean() const {
    if (!is_given()) return false;
    if (value_->type != Type::kBoolean) return Error("must be true or false");
    return value_->boolean;
  }

  // Returns a whole number from 1 to `highest`, written as a number or, like quantities and
  // annotations, as a string of digits.
  absl::StatusOr<std::optional<int64_t>> Count(int64_t highest) const {
    if (!is_given()) return std::nullopt;
    int64_t number = 0;
    const bool is_read = value_->type == Type::kInteger ||
                         (value_->type == Type::kString && IsDigits(value_->text) &&
                          absl::SimpleAtoi(value_->text, &number));
    if (value_->type == Type::kInteger) number = value_->integer;
    if (!is_read || number < 1 || number > highest) {
      return Error(absl::StrCat("must be a whole number from 1 to ", highest));
    }
    return number;
  }

  absl::StatusOr<std::optional<int>> SmallCount() const {
    PARPLAN_ASSIGN_OR_RETURN(const std::optional<int64_t> count,
                             Count(std::numeric_limits<int32_t>::max()));
    if (!count.has_value()) return std::nullopt;
    return static_cast<int>(*count);
  }

  const std::vector<JsonValue>& members() const { return value_->items; }

  // Returns the entries of a list, none if absent.
  absl::StatusOr<std::vector<Field>> Items() const {
    std::vector<Field> items;
    if (!is_given()) return items;
    if (value_->type != Type::kArray) return Error("must be a list");
    for (size_t i = 0; i < value_->items.size(); ++i) {
      items.push_back({&value_->items[i], file_name_, absl::StrCat(path_, "[", i, "]")});
    }
    return items;
  }

 private:
  static bool IsDigits(absl::string_view text) {
    return std::all_of(text.begin(), text.end(),
                       [](unsigned char letter) { return absl::ascii_isdigit(letter); });
  }

  const JsonValue* value_;
  absl::string_view file_name_;
  std::string path_;
};

// Checks that the value is one object of the right kind.
absl::Status CheckKind(const Field& root) {
  PARPLAN_ASSIGN_OR_RETURN(const std::string kind, root.Member("kind").Text());
  if (kind == "List" || kind == "TrainJobList") {
    return root.Member("kind").Error("is a list; give one TrainJob at a time");
  }
  if (kind != kKind) return root.Member("kind").Error(absl::StrCat("must be ", kKind));
  PARPLAN_ASSIGN_OR_RETURN(const std::string version, root.Member("apiVersion").Text());
  if (version != kApiVersion) {
    return root.Member("apiVersion").Error(absl::StrCat("must be ", kApiVersion));
  }
  return absl::OkStatus();
}

absl::Status CheckAnnotations(const Field& annotations) {
  static constexpr const char* kKnown[] = {kModelAnnotation, kBatchAnnotation, kTargetAnnotation,
                                           kMinNodesAnnotation, kMaxNodesAnnotation};
  for (const JsonValue& annotation : annotations.members()) {
    const bool is_known =
        !absl::StartsWith(annotation.key, kQuestionPrefix) ||
        std::find(std::begin(kKnown), std::end(kKnown), annotation.key) != std::end(kKnown);
    if (!is_known) {
      return annotations.Member(annotation.key)
          .Error(absl::StrCat("is unknown; there are ", absl::StrJoin(kKnown, ", ")));
    }
    if (annotation.type != Type::kString) {
      return annotations.Member(annotation.key).Error("must be a string");
    }
  }
  return absl::OkStatus();
}

absl::Status ReadMetadata(const Field& metadata, TrainJob* job) {
  PARPLAN_RETURN_IF_ERROR(metadata.CheckObject());
  PARPLAN_ASSIGN_OR_RETURN(const std::string name, metadata.Member("name").Text());
  if (name.empty()) return metadata.Member("name").Error("is required");
  PARPLAN_ASSIGN_OR_RETURN(const std::string space, metadata.Member("namespace").Text());
  job->name = space.empty() ? name : absl::StrCat(space, "/", name);
  PARPLAN_ASSIGN_OR_RETURN(job->resource_version, metadata.Member("resourceVersion").Text());
  const Field annotations = metadata.Member("annotations");
  if (!annotations.is_given()) return absl::OkStatus();
  PARPLAN_RETURN_IF_ERROR(annotations.CheckObject());
  PARPLAN_RETURN_IF_ERROR(CheckAnnotations(annotations));
  PARPLAN_ASSIGN_OR_RETURN(job->plugin, annotations.Member(kPluginAnnotation).Text());
  PARPLAN_ASSIGN_OR_RETURN(const std::string done, annotations.Member(kDoneAnnotation).Text());
  job->is_done = done == "yes";
  PARPLAN_ASSIGN_OR_RETURN(job->model, annotations.Member(kModelAnnotation).Text());
  PARPLAN_ASSIGN_OR_RETURN(job->target, annotations.Member(kTargetAnnotation).Text());
  PARPLAN_ASSIGN_OR_RETURN(
      job->global_batch_size,
      annotations.Member(kBatchAnnotation).Count(std::numeric_limits<int64_t>::max()));
  const Field min_nodes = annotations.Member(kMinNodesAnnotation);
  PARPLAN_ASSIGN_OR_RETURN(job->min_node_count, min_nodes.SmallCount());
  PARPLAN_ASSIGN_OR_RETURN(job->max_node_count,
                           annotations.Member(kMaxNodesAnnotation).SmallCount());
  if (job->max_node_count.has_value() && job->min_node_count.value_or(1) > *job->max_node_count) {
    return min_nodes.Error(
        absl::StrCat("must be at most ", kMaxNodesAnnotation, ", which is ", *job->max_node_count));
  }
  return absl::OkStatus();
}

absl::Status ReadTrainer(const Field& trainer, absl::string_view device_resource, TrainJob* job) {
  job->has_trainer = trainer.is_given();
  PARPLAN_RETURN_IF_ERROR(trainer.CheckObject());
  const Field processes = trainer.Member("numProcPerNode");
  // Releases before 2.2 have words here as well, of which these leave the number to the devices.
  const absl::StatusOr<std::string> word = processes.Text();
  if (!word.ok() || (*word != "auto" && *word != "gpu")) {
    PARPLAN_ASSIGN_OR_RETURN(job->processes_per_node, processes.SmallCount());
  }
  const Field resources = trainer.Member("resourcesPerNode");
  PARPLAN_RETURN_IF_ERROR(resources.CheckObject());
  for (const char* const part : {"limits", "requests"}) {
    PARPLAN_RETURN_IF_ERROR(resources.Member(part).CheckObject());
    const Field devices = resources.Member(part).Member(device_resource);
    PARPLAN_ASSIGN_OR_RETURN(const std::optional<int> count, devices.SmallCount());
    if (!count.has_value()) continue;
    if (job->devices_per_node.value_or(*count) != *count) {
      return devices.Error(absl::StrCat("must be the limit, which is ", *job->devices_per_node));
    }
    job->devices_per_node = count;
  }
  if (job->processes_per_node.has_value() && job->devices_per_node.has_value() &&
      *job->processes_per_node != *job->devices_per_node) {
    return processes.Error(absl::StrCat("must be the number of devices of a node, which is ",
                                        *job->devices_per_node,
                                        ": a plan has one process for each"));
  }
  return absl::OkStatus();
}

absl::Status ReadRuntimePatches(const Field& patches, TrainJob* job) {
  job->has_runtime_patches = patches.is_given();
  PARPLAN_ASSIGN_OR_RETURN(const std::vector<Field> items, patches.Items());
  for (size_t i = 0; i < items.size(); ++i) {
    PARPLAN_RETURN_IF_ERROR(items[i].CheckObject());
    PARPLAN_ASSIGN_OR_RETURN(const std::string manager, items[i].Member("manager").Text());
    if (manager == kPatchManager) job->own_runtime_patch = static_cast<int>(i);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TrainJob> ReadTrainJob(absl::string_view text, absl::string_view file_name,
                                      absl::string_view device_resource) {
  PARPLAN_ASSIGN_OR_RETURN(const JsonValue value, ReadJsonText(text, file_name,
                                                               {.max_bytes = kMaxTrainJobBytes,
                                                                .refuses_repeated_members = true}));
  if (value.type != Type::kObject) {
    return FieldError(Reason::kSpecInvalid, file_name, "must hold one TrainJob");
  }
  const Field root(&value, file_name, "");
  TrainJob job;
  PARPLAN_RETURN_IF_ERROR(CheckKind(root));
  PARPLAN_RETURN_IF_ERROR(ReadMetadata(root.Member("metadata"), &job));
  const Field spec = root.Member("spec");
  if (!spec.is_given()) return spec.Error("is required");
  PARPLAN_RETURN_IF_ERROR(spec.CheckObject());
  PARPLAN_ASSIGN_OR_RETURN(job.is_suspended, spec.Member("suspend").Boolean());
  PARPLAN_RETURN_IF_ERROR(ReadTrainer(spec.Member("trainer"), device_resource, &job));
  PARPLAN_RETURN_IF_ERROR(ReadRuntimePatches(spec.Member("runtimePatches"), &job));
  return job;
}

}  // namespace parplan::kubeflow
