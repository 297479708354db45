#include "clients/import/galvatron_memory.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "clients/import/galvatron_file_rules.h"
#include "clients/import/galvatron_names.h"
#include "clients/import/galvatron_times.h"
#include "planner/model/planning_problem.h"

namespace parplan {
namespace {

using nlohmann::json;
using Place = GalvatronOtherMemory::Place;

class MemoryReader {
 public:
  explicit MemoryReader(const NamedText& file) : file_(file) {}

  absl::StatusOr<GalvatronMemory> Read();

 private:
  absl::Status ReadLayer(int type, bool sequence_parallel, const json& block,
                         const std::string& field);
  absl::Status ReadLayerEntry(GalvatronLayerMemory entry, const json& block,
                              const std::string& field);
  absl::Status ReadOther(Place place, bool sequence_parallel, const json& block,
                         const std::string& field);
  absl::Status ReadOtherEntry(GalvatronOtherMemory entry, const json& block,
                              const std::string& field);
  // A number, which is that of degree 1, or an object keyed by degree.
  absl::Status ReadByDegree(const json& block, const std::string& field,
                            std::map<int, double>* by_degree, std::optional<double>* checkpoint);
  absl::StatusOr<const json*> Member(const json& block, const char* key,
                                     const std::string& field) const;

  const NamedText& file_;
  GalvatronMemory memory_;
};

absl::StatusOr<const json*> MemoryReader::Member(const json& block, const char* key,
                                                 const std::string& field) const {
  if (!block.is_object()) return ImportError(kFileReason, file_.name, field, "must be an object");
  const auto found = block.find(key);
  if (found == block.end()) {
    return ImportError(kFileReason, file_.name, absl::StrCat(field, ".", key), "is missing");
  }
  return &*found;
}

absl::Status MemoryReader::ReadByDegree(const json& block, const std::string& field,
                                        std::map<int, double>* by_degree,
                                        std::optional<double>* checkpoint) {
  const auto keep = [&](const std::string& at, double value, auto&& store) {
    if (value >= 0.0) {
      store(value);
    } else {
      memory_.notes.push_back(
          absl::StrCat(file_.name, ": ", at, " is ", value, " MB; a negative size was left out"));
    }
  };
  if (block.is_number()) {
    PARPLAN_ASSIGN_OR_RETURN(const double value, ReadNumber(block, kFileReason, file_.name, field));
    keep(field, value, [&](double size) { (*by_degree)[1] = size; });
    return absl::OkStatus();
  }
  if (!block.is_object()) {
    return ImportError(kFileReason, file_.name, field,
                       "must be a number, or an object keyed by tensor-parallel degree");
  }
  for (const auto& [key, entry] : block.items()) {
    const std::string at = absl::StrCat(field, ".", key);
    PARPLAN_ASSIGN_OR_RETURN(const double value, ReadNumber(entry, kFileReason, file_.name, at));
    int degree = 0;
    if (key == "checkpoint" && checkpoint != nullptr) {
      keep(at, value, [&](double size) { *checkpoint = size; });
    } else if (absl::SimpleAtoi(key, &degree) && degree >= 1 && degree <= kMaxDeviceCount) {
      keep(at, value, [&](double size) { (*by_degree)[degree] = size; });
    } else {
      return ImportError(kFileReason, file_.name, at, "must be keyed by a tensor-parallel degree");
    }
  }
  return absl::OkStatus();
}

absl::Status MemoryReader::ReadLayerEntry(GalvatronLayerMemory entry, const json& block,
                                          const std::string& field) {
  PARPLAN_ASSIGN_OR_RETURN(const json* size, Member(block, "parameter_size", field));
  PARPLAN_ASSIGN_OR_RETURN(
      entry.parameter_megabytes,
      ReadNumber(*size, kFileReason, file_.name, absl::StrCat(field, ".parameter_size")));
  PARPLAN_ASSIGN_OR_RETURN(const json* activations,
                           Member(block, "tp_activation_per_bsz_dict", field));
  PARPLAN_RETURN_IF_ERROR(ReadByDegree(*activations,
                                       absl::StrCat(field, ".tp_activation_per_bsz_dict"),
                                       &entry.activation_megabytes, &entry.checkpoint_megabytes));
  if (!(entry.parameter_megabytes > 0.0)) {
    memory_.notes.push_back(absl::StrCat(file_.name, ": ", field, ".parameter_size is ",
                                         entry.parameter_megabytes, " MB; the block was left out"));
    return absl::OkStatus();
  }
  memory_.layers.push_back(std::move(entry));
  return absl::OkStatus();
}

// Until v2.3 the sizes lie in the block itself, later under sequence lengths.
absl::Status MemoryReader::ReadLayer(int type, bool sequence_parallel, const json& block,
                                     const std::string& field) {
  memory_.layer_type_count = std::max(memory_.layer_type_count, type + 1);
  GalvatronLayerMemory entry;
  entry.layer_type = type;
  entry.sequence_parallel = sequence_parallel;
  if (!block.is_object()) return ImportError(kFileReason, file_.name, field, "must be an object");
  if (block.contains("parameter_size")) return ReadLayerEntry(std::move(entry), block, field);
  for (const auto& [key, inner] : block.items()) {
    const std::vector<int> lengths = ParseGalvatronSequenceList(key);
    if (lengths.size() != 1) {
      return ImportError(kFileReason, file_.name, absl::StrCat(field, ".", key),
                         "must be keyed by a sequence length");
    }
    entry.sequence_length = lengths.front();
    PARPLAN_RETURN_IF_ERROR(ReadLayerEntry(entry, inner, absl::StrCat(field, ".", key)));
  }
  return absl::OkStatus();
}

absl::Status MemoryReader::ReadOtherEntry(GalvatronOtherMemory entry, const json& block,
                                          const std::string& field) {
  PARPLAN_ASSIGN_OR_RETURN(const json* states, Member(block, "model_states", field));
  PARPLAN_RETURN_IF_ERROR(
      ReadByDegree(*states, absl::StrCat(field, ".model_states"), &entry.state_megabytes, nullptr));
  PARPLAN_ASSIGN_OR_RETURN(const json* activations, Member(block, "activation", field));
  PARPLAN_RETURN_IF_ERROR(ReadByDegree(*activations, absl::StrCat(field, ".activation"),
                                       &entry.activation_megabytes, nullptr));
  memory_.other.push_back(std::move(entry));
  return absl::OkStatus();
}

absl::Status MemoryReader::ReadOther(Place place, bool sequence_parallel, const json& block,
                                     const std::string& field) {
  GalvatronOtherMemory entry;
  entry.place = place;
  entry.sequence_parallel = sequence_parallel;
  if (!block.is_object()) return ImportError(kFileReason, file_.name, field, "must be an object");
  if (block.contains("model_states")) return ReadOtherEntry(std::move(entry), block, field);
  bool has_list = false;
  for (const auto& [key, inner] : block.items()) {
    has_list = has_list || ParseGalvatronSequenceList(key).size() > 1;
  }
  for (const auto& [key, inner] : block.items()) {
    entry.sequence_lengths = ParseGalvatronSequenceList(key);
    if (entry.sequence_lengths.empty()) {
      return ImportError(kFileReason, file_.name, absl::StrCat(field, ".", key),
                         "must be keyed by a sequence length or a list of them");
    }
    // `512512` is how one release misreads its own `512_512`; both are there.
    if (has_list && entry.sequence_lengths.size() == 1) continue;
    PARPLAN_RETURN_IF_ERROR(ReadOtherEntry(entry, inner, absl::StrCat(field, ".", key)));
  }
  return absl::OkStatus();
}

absl::StatusOr<GalvatronMemory> MemoryReader::Read() {
  PARPLAN_RETURN_IF_ERROR(RefuseMixtureOfExperts(file_));
  PARPLAN_ASSIGN_OR_RETURN(const json object, ParseJsonObject(file_, kFileReason));
  int unknown_count = 0;
  for (const auto& [key, block] : object.items()) {
    absl::string_view rest = key;
    const bool sequence_parallel = absl::ConsumeSuffix(&rest, "_sp");
    int type = 0;
    if (rest == "other_memory_pp_off") {
      PARPLAN_RETURN_IF_ERROR(ReadOther(Place::kBoth, sequence_parallel, block, key));
    } else if (rest == "other_memory_pp_on_first") {
      PARPLAN_RETURN_IF_ERROR(ReadOther(Place::kEmbedding, sequence_parallel, block, key));
    } else if (rest == "other_memory_pp_on_last") {
      PARPLAN_RETURN_IF_ERROR(ReadOther(Place::kHead, sequence_parallel, block, key));
    } else if (absl::ConsumePrefix(&rest, "layertype_")) {
      if (!absl::SimpleAtoi(rest, &type) || type < 0 || type >= kMaxLayerTypes) {
        return ImportError(kFileReason, file_.name, key,
                           absl::StrCat("must be of one of at most ", kMaxLayerTypes, " types"));
      }
      PARPLAN_RETURN_IF_ERROR(ReadLayer(type, sequence_parallel, block, key));
    } else if (key == "model_config") {
      if (!block.is_object()) return ImportError(kFileReason, file_.name, key, "must be an object");
      memory_.model_config = block;
    } else if (!ParseGalvatronMemoryBlock(key).has_value()) {
      ++unknown_count;
    }
  }
  if (unknown_count > 0) {
    memory_.notes.push_back(
        absl::StrCat(file_.name, ": ", unknown_count, " keys of unknown meaning were left out"));
  }
  if (memory_.layers.empty()) {
    PARPLAN_RETURN_IF_ERROR(ReadRawGalvatronMemory(object, file_.name, &memory_));
  }
  if (memory_.layers.empty()) {
    return ImportError(kFileReason, file_.name, "layertype_0",
                       "is missing, and the raw blocks do not give it: that takes a block "
                       "`1_{tp}_{dp}` with `layernum[...]` of one layer type at two layer counts, "
                       "each with `_ms` and `_act`");
  }
  return std::move(memory_);
}

// Adds parameters and activations of the second half of a layer to the first;
// the saved input is that of the whole layer, so of the first half.
GalvatronMemory AddHalves(GalvatronMemory first, const GalvatronMemory& second) {
  std::vector<GalvatronLayerMemory> sums;
  for (GalvatronLayerMemory& layer : first.layers) {
    for (const GalvatronLayerMemory& other : second.layers) {
      if (other.layer_type != layer.layer_type ||
          other.sequence_parallel != layer.sequence_parallel ||
          other.sequence_length != layer.sequence_length) {
        continue;
      }
      GalvatronLayerMemory sum = layer;
      sum.parameter_megabytes += other.parameter_megabytes;
      sum.activation_megabytes.clear();
      for (const auto& [degree, size] : layer.activation_megabytes) {
        const auto found = other.activation_megabytes.find(degree);
        if (found != other.activation_megabytes.end()) {
          sum.activation_megabytes[degree] = size + found->second;
        }
      }
      sum.differenced = true;
      sums.push_back(std::move(sum));
    }
  }
  first.layers = std::move(sums);
  first.notes.insert(first.notes.end(), second.notes.begin(), second.notes.end());
  first.notes.push_back(
      "layer memory is the sum of the memory of attention and feed-forward; that of embedding and "
      "head is of the first file");
  return first;
}

}  // namespace

absl::StatusOr<GalvatronMemory> ReadGalvatronMemory(absl::Span<const NamedText> files) {
  if (files.empty() || files.size() > 2) {
    return ImportError(kFileReason, "memory", "",
                       "must be one file, or the two halves of one model");
  }
  PARPLAN_ASSIGN_OR_RETURN(GalvatronMemory memory, MemoryReader(files[0]).Read());
  if (files.size() == 1) return memory;
  PARPLAN_ASSIGN_OR_RETURN(const GalvatronMemory half, MemoryReader(files[1]).Read());
  memory = AddHalves(std::move(memory), half);
  if (memory.layers.empty()) {
    return ImportError(kFileReason, files[1].name, "layertype_0",
                       absl::StrCat("must have a sequence length in common with ", files[0].name));
  }
  return memory;
}

}  // namespace parplan
