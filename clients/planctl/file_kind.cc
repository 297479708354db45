#include "clients/planctl/file_kind.h"

#include <optional>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace parplan::planctl {
namespace {

// A member of the outermost object that no file of another kind has.
struct SignOfKind {
  const char* member;
  FileKind kind;
};

constexpr SignOfKind kSigns[] = {
    {"layer_runs", FileKind::kModel},
    {"node_groups", FileKind::kCluster},
    {"layer_timings", FileKind::kProfile},
    {"collective_timings", FileKind::kProfile},
    {"coefficient_values", FileKind::kCalibration},
    {"stages", FileKind::kPlan},
    {"payloadType", FileKind::kSignedPlan},
    {"model_type", FileKind::kHuggingFaceConfig},
    {"num_hidden_layers", FileKind::kHuggingFaceConfig},
    {"pp_deg", FileKind::kGalvatronStrategy},
};

const char* NameOf(FileKind kind) {
  switch (kind) {
    case FileKind::kModel:
      return "a model file";
    case FileKind::kCluster:
      return "a cluster file";
    case FileKind::kProfile:
      return "a profile";
    case FileKind::kCalibration:
      return "a calibration";
    case FileKind::kPlan:
      return "a plan";
    case FileKind::kSignedPlan:
      return "a signed plan";
    case FileKind::kHuggingFaceConfig:
      return "a configuration of Hugging Face";
    case FileKind::kGalvatronStrategy:
      return "a strategy file of Galvatron";
  }
  return "";
}

std::optional<FileKind> KindOf(absl::string_view text) {
  std::optional<FileKind> kind;
  // Reads the names of the outermost members and keeps no value, however deeply they are nested.
  const auto see = [&kind](int depth, nlohmann::json::parse_event_t event, nlohmann::json& part) {
    if (depth != 1 || event != nlohmann::json::parse_event_t::key) return depth == 0;
    for (const SignOfKind& sign : kSigns) {
      if (!kind.has_value() && part == sign.member) kind = sign.kind;
    }
    return false;
  };
  const bool is_json =
      !nlohmann::json::parse(text.begin(), text.end(), see, /*allow_exceptions=*/false)
           .is_discarded();
  return is_json ? kind : std::nullopt;
}

std::string WhatToDo(FileKind kind, FileKind wanted, const std::string& path) {
  if (kind == FileKind::kHuggingFaceConfig && wanted == FileKind::kModel) {
    return absl::StrCat("; `planctl import hf ", path, " --out m.model.json` makes one of it");
  }
  if (kind == FileKind::kGalvatronStrategy && wanted == FileKind::kPlan) {
    return "; `planctl evaluate` predicts it, with --model and --cluster";
  }
  return "; give it where that is asked for, and here a file as docs/files.md has it";
}

}  // namespace

absl::Status NameKind(const absl::Status& error, absl::string_view text, const std::string& path,
                      FileKind wanted) {
  const std::optional<FileKind> kind = KindOf(text);
  if (!kind.has_value() || *kind == wanted) return error;
  return FieldError(Reason::kSpecInvalid, path,
                    absl::StrCat("is ", NameOf(*kind), " and not ", NameOf(wanted),
                                 WhatToDo(*kind, wanted, path)));
}

}  // namespace parplan::planctl
