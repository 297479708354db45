#include "clients/planctl/commands/import_flags.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
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

}  // namespace

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
  command
      .AddChoice(
          "--precision", flags.precision, PrecisionsByName(),
          "fp32, bf16, fp16, or bf16 with quantised layers: fp8-delayed, fp8-current, fp8-rowwise, "
          "fp8-blockwise, mxfp8, nvfp4 [bf16]")
      .Group(group);
  command.AddChoice("--optimizer", flags.optimizer, kOptimizers, "adam or sgd [adam]").Group(group);
  add("--prediction-layers", flags.prediction_layer_count,
      "Layers that predict further tokens [as in the file]");
  add("--tied-embedding", flags.tied_embedding, "Whether the head shares the table (true, false)");
}

absl::Status Written::Add(const char* what, const std::string& path,
                          const google::protobuf::Message& message) {
  if (path.empty()) return absl::OkStatus();
  PARPLAN_RETURN_IF_ERROR(WriteFile(path, ToReadableJson(message)));
  files[what] = path;
  absl::StrAppend(&text, what, "\t", path, "\n");
  return absl::OkStatus();
}

absl::Status ReportWritten(const Session& session, const Written& written,
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

}  // namespace parplan::planctl
