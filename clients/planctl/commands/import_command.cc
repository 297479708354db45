// `planctl import galvatron|hf`: files of others as files of ours.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "clients/import/galvatron_profile.h"
#include "clients/import/hugging_face.h"
#include "clients/planctl/commands/command.h"
#include "clients/planctl/files.h"
#include "planner/model/precision.h"
#include "proto/wire/json_file.h"
#include "proto/wire/model_wire.h"

namespace parplan::planctl {
namespace {

const std::vector<std::pair<std::string, v1::Optimizer>> kOptimizers = {
    {"adam", v1::OPTIMIZER_ADAM}, {"sgd", v1::OPTIMIZER_SGD}};
const std::vector<std::pair<std::string, v1::LayerKind>> kLayerKinds = {
    {"decoder", v1::LAYER_KIND_DECODER}, {"encoder", v1::LAYER_KIND_ENCODER}};
const std::vector<std::pair<std::string, v1::FeedForwardKind>> kFeedForwardKinds = {
    {"gelu", v1::FEED_FORWARD_KIND_GELU}, {"swiglu", v1::FEED_FORWARD_KIND_SWIGLU}};

std::vector<std::pair<std::string, v1::Precision>> PrecisionsByName() {
  std::vector<std::pair<std::string, v1::Precision>> precisions;
  for (const PrecisionTraits& traits : KnownPrecisions()) {
    precisions.emplace_back(std::string(traits.name), PrecisionToProto(traits.precision));
  }
  std::sort(precisions.begin(), precisions.end());
  return precisions;
}

// Flags of a model that files may leave open.
void AddModelFlags(Command command, ModelFlags& flags) {
  const char* group = "Model (wins over files)";
  const auto add = [&command, group](const char* name, auto& value, const char* help) {
    return command.AddOption(name, value, help).Group(group);
  };
  add("--model-id", flags.model_id, "Name of the model");
  add("--layers", flags.layer_counts, "Layers, one number a run").Delimiter(',');
  add("--sequence-length", flags.sequence_lengths, "Tokens per sample").Delimiter(',');
  add("--hidden-size", flags.hidden_size, "Width of the residual stream");
  add("--attention-heads", flags.attention_head_count, "Attention heads");
  add("--key-value-heads", flags.key_value_head_count, "Key/value heads");
  add("--head-size", flags.head_size, "Width of one head");
  add("--feed-forward-size", flags.feed_forward_size, "Width of the feed-forward part");
  add("--vocabulary-size", flags.vocabulary_size, "Rows of the embedding table");
  command.AddChoice("--layer-kind", flags.layer_kind, kLayerKinds, "decoder or encoder")
      .Group(group);
  command
      .AddChoice("--feed-forward-kind", flags.feed_forward_kind, kFeedForwardKinds,
                 "gelu or swiglu")
      .Group(group);
  command.AddChoice("--precision", flags.precision, PrecisionsByName(), "fp32, bf16 or fp16 [bf16]")
      .Group(group);
  command.AddChoice("--optimizer", flags.optimizer, kOptimizers, "adam or sgd [adam]").Group(group);
  add("--tied-embedding", flags.tied_embedding, "Whether the head shares the table (true, false)");
}

// The files that were written, and the answer about them.
struct Written {
  nlohmann::ordered_json files = nlohmann::ordered_json::object();
  std::string text;

  absl::Status Add(const char* what, const std::string& path,
                   const google::protobuf::Message& message) {
    if (path.empty()) return absl::OkStatus();
    PARPLAN_RETURN_IF_ERROR(WriteFile(path, ToReadableJson(message)));
    files[what] = path;
    absl::StrAppend(&text, what, "\t", path, "\n");
    return absl::OkStatus();
  }
};

absl::Status Report(const Session& session, const Written& written,
                    const std::vector<std::string>& notes) {
  if (session.json) {
    nlohmann::ordered_json object = written.files;
    object["notes"] = notes;
    return Print(
        session,
        object.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
  }
  for (const std::string& note : notes) Note(session, "note: " + note);
  return Print(session, written.text);
}

absl::StatusOr<NamedText> ReadNamed(const std::string& path) {
  PARPLAN_ASSIGN_OR_RETURN(std::string text, ReadFile(path));
  return NamedText{path, std::move(text)};
}

absl::Status ReadOptional(const std::string& path, std::optional<NamedText>& target) {
  if (path.empty()) return absl::OkStatus();
  PARPLAN_ASSIGN_OR_RETURN(target, ReadNamed(path));
  return absl::OkStatus();
}

struct GalvatronCommandFlags {
  std::vector<std::string> times;
  std::vector<std::string> memory;
  std::string model_config;
  std::string all_reduce;
  std::string send_receive;
  std::string overlap;
  std::string tables;
  GalvatronFlags import;
  std::string profile_path;
  std::string model_path;
  std::string cluster_path;
};

absl::Status RunGalvatron(const Session& session, const GalvatronCommandFlags& flags) {
  if (flags.profile_path.empty() && flags.model_path.empty() && flags.cluster_path.empty()) {
    return FieldError(Reason::kSpecInvalid, "--profile-out",
                      "nothing to write; give at least one of --profile-out, --model-out and "
                      "--cluster-out");
  }
  GalvatronFiles files;
  for (const std::string& path : flags.times) {
    PARPLAN_ASSIGN_OR_RETURN(NamedText text, ReadNamed(path));
    files.times.push_back(std::move(text));
  }
  for (const std::string& path : flags.memory) {
    PARPLAN_ASSIGN_OR_RETURN(NamedText text, ReadNamed(path));
    files.memory.push_back(std::move(text));
  }
  PARPLAN_RETURN_IF_ERROR(ReadOptional(flags.model_config, files.model_config));
  PARPLAN_RETURN_IF_ERROR(ReadOptional(flags.all_reduce, files.hardware.all_reduce));
  PARPLAN_RETURN_IF_ERROR(ReadOptional(flags.send_receive, files.hardware.send_receive));
  PARPLAN_RETURN_IF_ERROR(ReadOptional(flags.overlap, files.hardware.overlap));
  PARPLAN_RETURN_IF_ERROR(ReadOptional(flags.tables, files.hardware.tables));
  PARPLAN_ASSIGN_OR_RETURN(const GalvatronImport made, ImportGalvatron(files, flags.import));
  if (!flags.model_path.empty() && !made.model.has_value()) {
    return FieldError(Reason::kSpecInvalid, "--model-out",
                      "the files given describe no model; give --computation, --memory or "
                      "--model-config too");
  }
  Written written;
  PARPLAN_RETURN_IF_ERROR(written.Add("profile", flags.profile_path, made.profile));
  if (made.model.has_value()) {
    PARPLAN_RETURN_IF_ERROR(written.Add("model", flags.model_path, *made.model));
  }
  PARPLAN_RETURN_IF_ERROR(written.Add("cluster", flags.cluster_path, made.topology));
  return Report(session, written, made.notes);
}

struct HuggingFaceCommandFlags {
  std::string config_path;
  ModelFlags model;
  std::string model_path;
};

absl::Status RunHuggingFace(const Session& session, const HuggingFaceCommandFlags& flags) {
  PARPLAN_ASSIGN_OR_RETURN(const NamedText config, ReadNamed(flags.config_path));
  PARPLAN_ASSIGN_OR_RETURN(const HuggingFaceImport made, ImportHuggingFace(config, flags.model));
  Written written;
  PARPLAN_RETURN_IF_ERROR(written.Add("model", flags.model_path, made.model));
  return Report(session, written, made.notes);
}

}  // namespace

void AddImportCommand(Command app, const Session& session, Action& action) {
  Command import = app.AddCommand("import", "Turn files of others into files of ours");
  import.RequireCommand();
  import.Footer(
      "`planctl import galvatron --help` lists the files it takes.\nExample:\n"
      "  planctl import hf config.json --out llama.model.json");

  auto galvatron = std::make_shared<GalvatronCommandFlags>();
  Command command = import.AddCommand(
      "galvatron", "Galvatron's computation, memory and hardware JSON, all releases");
  command.Footer(
      "Example:\n  planctl import galvatron --computation computation_profiling_bf16_x.json "
      "--memory memory_profiling_bf16_x.json --allreduce allreduce_bandwidth_1nodes_8gpus_per_node"
      ".json --p2p p2p_bandwidth_1nodes_8gpus_per_node.json --overlap overlap_coefficient.json "
      "--profile-out x.profile.json --model-out x.model.json --cluster-out x.cluster.json");
  command.AddOption("--computation", galvatron->times, "Computation (forward) times");
  command.AddOption("--memory", galvatron->memory, "Memory");
  command.AddOption("--model-config", galvatron->model_config,
                    "meta_configs/*.json, or the config.json of the model");
  command.AddOption("--allreduce", galvatron->all_reduce, "All-reduce bandwidths");
  command.AddOption("--p2p", galvatron->send_receive, "Point-to-point bandwidths");
  command.AddOption("--overlap", galvatron->overlap, "Overlap coefficient");
  command.AddOption("--sp-time", galvatron->tables, "Collective times by message size");
  command.AddOption("--node-count", galvatron->import.nodes.node_count, "Nodes of the files");
  command.AddOption("--devices-per-node", galvatron->import.nodes.devices_per_node,
                    "Devices per node of the files");
  command.AddOption("--device-kind", galvatron->import.device_kind, "Model of the device");
  command.AddOption("--device-memory-bytes", galvatron->import.device_memory_bytes,
                    "Memory of a device");
  command.AddOption("--cluster", galvatron->import.cluster, "Name of the cluster");
  command.AddOption("--source", galvatron->import.source,
                    "Where the files come from: publication, version, licence");
  command.AddOption("--profile-out", galvatron->profile_path, "Profile file to write");
  command.AddOption("--model-out", galvatron->model_path, "Model file to write");
  command.AddOption("--cluster-out", galvatron->cluster_path, "Cluster file to write");
  AddModelFlags(command, galvatron->import.model);
  command.OnChosen([&session, &action, galvatron] {
    action = [&session, galvatron] { return RunGalvatron(session, *galvatron); };
  });

  auto hugging_face = std::make_shared<HuggingFaceCommandFlags>();
  command = import.AddCommand("hf", "A Hugging Face config.json as a model file");
  command.Footer(
      "Example:\n  planctl import hf config.json --sequence-length 4096 --out "
      "llama.model.json");
  command.AddOption("config", hugging_face->config_path, "config.json").Required();
  command.AddOption("--out", hugging_face->model_path, "Model file to write").Required();
  AddModelFlags(command, hugging_face->model);
  command.OnChosen([&session, &action, hugging_face] {
    action = [&session, hugging_face] { return RunHuggingFace(session, *hugging_face); };
  });
}

}  // namespace parplan::planctl
