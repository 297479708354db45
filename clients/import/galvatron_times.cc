#include "clients/import/galvatron_times.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "clients/import/galvatron_file_rules.h"
#include "clients/import/galvatron_names.h"

namespace parplan {
namespace {

using nlohmann::json;
using Kind = GalvatronTimeKey::Kind;

// Most passes of one batch size; more than the release with most layer types writes.
constexpr size_t kMaxPasses = 64;

// One whole forward pass.
struct Pass {
  std::vector<int> layer_counts;
  double milliseconds = 0.0;
};

// Passes of the same batch size and sequence lengths.
using PassKey = std::pair<int, std::vector<int>>;
using Passes = std::map<PassKey, std::vector<Pass>>;

// Returns the text behind the prefix of a time of the first release, which should be a width;
// nothing for other keys.
std::optional<absl::string_view> WidthText(absl::string_view key) {
  if (absl::ConsumePrefix(&key, "fwd_time_hidden_")) return key;
  if (absl::ConsumePrefix(&key, "fwd_time_embed_dim_")) return key;
  return std::nullopt;
}

// Collects the times of one file; later keys never replace earlier ones.
class TimeReader {
 public:
  explicit TimeReader(const NamedText& file) : file_(file) {}

  absl::StatusOr<GalvatronTimes> Read(int hidden_size);

 private:
  absl::Status ReadFirstRelease(const json& object, int hidden_size);
  absl::Status ReadKeys(const json& object);
  void AddPlainTimes();
  void AddDifferences();
  void AddLayer(int type, int batch, int sequence, double value, bool differenced,
                absl::string_view field);
  void Finish();
  void NoteNoBatchSize(absl::string_view field) {
    times_.notes.push_back(
        absl::StrCat(file_.name, ": ", field, " says no batch size and was left out"));
  }

  const NamedText& file_;
  Passes passes_;
  std::map<int, double> plain_;  // `layertype_{i}` without a batch size
  std::map<std::tuple<int, int, int>, GalvatronLayerTime> layers_;
  std::map<PassKey, GalvatronOtherTime> other_;
  GalvatronTimes times_;
};

void TimeReader::AddLayer(int type, int batch, int sequence, double value, bool differenced,
                          absl::string_view field) {
  times_.layer_type_count = std::max(times_.layer_type_count, type + 1);
  if (!(value > 0.0)) {
    times_.notes.push_back(absl::StrCat(file_.name, ": ", field, " is ", value,
                                        " ms; a time that is not positive was left out"));
    return;
  }
  layers_.try_emplace({type, sequence, batch},
                      GalvatronLayerTime{type, batch, sequence, value, differenced});
}

// `fwd_time_hidden_{H}` and `fwd_time_embed_dim_{E}`: a number, or an object with
// one number a layer type.
absl::Status TimeReader::ReadFirstRelease(const json& object, int hidden_size) {
  std::map<int, std::pair<std::string, const json*>> by_width;
  for (const auto& [key, value] : object.items()) {
    const std::optional<absl::string_view> text = WidthText(key);
    if (!text.has_value()) continue;
    int width = 0;
    if (!absl::SimpleAtoi(*text, &width) || width < 1 || width > kMaxImportCount) {
      return ImportError(kFileReason, file_.name, key, "must end in the width of the model");
    }
    const auto [entry, is_first] = by_width.try_emplace(width, key, &value);
    if (!is_first) {
      times_.notes.push_back(absl::StrCat(file_.name, ": ", key, " was left out, since ",
                                          entry->second.first, " is of the same width"));
    }
  }
  if (by_width.empty()) return absl::OkStatus();
  if (hidden_size == 0 && by_width.size() == 1) hidden_size = by_width.begin()->first;
  const auto found = by_width.find(hidden_size);
  if (found == by_width.end()) {
    std::vector<int> widths;
    for (const auto& [width, entry] : by_width) widths.push_back(width);
    return ImportError(
        kFileReason, file_.name, by_width.begin()->second.first,
        absl::StrCat("and its like are given for the hidden sizes ", absl::StrJoin(widths, ", "),
                     "; choose one with --hidden-size"));
  }
  times_.hidden_size = hidden_size;
  const auto& [key, value] = found->second;
  if (value->is_object()) {
    static constexpr absl::string_view kTypes[] = {"encoder", "decoder"};
    for (const auto& [name, entry] : value->items()) {
      const std::string field = absl::StrCat(key, ".", name);
      PARPLAN_ASSIGN_OR_RETURN(const double time,
                               ReadNumber(entry, kFileReason, file_.name, field));
      absl::string_view rest = name;
      int type = 0;
      if (name == kTypes[0] || name == kTypes[1]) {
        type = name == kTypes[1];
      } else if (!absl::ConsumePrefix(&rest, "layer_type_") || !absl::SimpleAtoi(rest, &type) ||
                 type < 0 || type >= kMaxLayerTypes) {
        return ImportError(kFileReason, file_.name, field,
                           "must be `encoder`, `decoder` or `layer_type_` and a number");
      }
      AddLayer(type, 1, 0, time, false, field);
    }
  } else {
    PARPLAN_ASSIGN_OR_RETURN(const double time, ReadNumber(*value, kFileReason, file_.name, key));
    AddLayer(0, 1, 0, time, false, key);
  }
  times_.notes.push_back(absl::StrCat(
      file_.name, ": the batch size measured at is not in the file; taken as one sample"));
  return absl::OkStatus();
}

absl::Status TimeReader::ReadKeys(const json& object) {
  std::vector<std::string> unknown;
  int left_out_passes = 0;
  for (const auto& [name, value] : object.items()) {
    if (WidthText(name).has_value()) continue;
    const std::optional<GalvatronTimeKey> key = ParseGalvatronTimeKey(name);
    if (!key.has_value()) {
      unknown.push_back(name);
      continue;
    }
    if (!key->part.empty()) {
      return ImportError(kFileReason, file_.name, name,
                         "is the time of a part of a mixture-of-experts layer; this importer "
                         "reads dense layers only, because its files lack the time of one expert "
                         "and of the routing");
    }
    PARPLAN_ASSIGN_OR_RETURN(const double time, ReadNumber(value, kFileReason, file_.name, name));
    if (key->kind == Kind::kWholeModel) {
      // Such a pass gives neither the time of a sample nor the batch of a plain time.
      if (key->batch_size == 0) NoteNoBatchSize(name);
      std::vector<Pass>& passes = passes_[{key->batch_size, key->sequence_lengths}];
      if (passes.size() < kMaxPasses) {
        passes.push_back({key->layer_counts, time});
      } else {
        ++left_out_passes;
      }
    } else if (key->kind == Kind::kOther) {
      if (!(time > 0.0)) {
        times_.notes.push_back(absl::StrCat(file_.name, ": ", name, " is ", time,
                                            " ms; a time that is not positive was left out"));
      } else if (key->batch_size > 0) {
        other_.try_emplace({key->batch_size, key->sequence_lengths},
                           GalvatronOtherTime{key->batch_size, key->sequence_lengths, time});
      } else {
        NoteNoBatchSize(name);
      }
    } else if (key->layer_type >= kMaxLayerTypes) {
      return ImportError(kFileReason, file_.name, name,
                         absl::StrCat("must be of one of at most ", kMaxLayerTypes, " types"));
    } else if (key->batch_size == 0) {
      plain_[key->layer_type] = time;
      times_.layer_type_count = std::max(times_.layer_type_count, key->layer_type + 1);
    } else {
      const int sequence = key->sequence_lengths.empty() ? 0 : key->sequence_lengths.front();
      AddLayer(key->layer_type, key->batch_size, sequence, time, false, name);
    }
  }
  if (left_out_passes > 0) {
    times_.notes.push_back(absl::StrCat(file_.name, ": ", left_out_passes,
                                        " whole passes were left out, which are more than ",
                                        kMaxPasses, " of one batch size"));
  }
  if (!unknown.empty()) {
    times_.notes.push_back(absl::StrCat(file_.name, ": ", unknown.size(),
                                        " keys of unknown meaning were left out, the first is `",
                                        unknown.front(), "`"));
  }
  return absl::OkStatus();
}

// The time of one layer of `type` between two passes that differ in its count
// only; nothing when there is no such pair.
std::optional<double> Difference(const std::vector<Pass>& passes, size_t type) {
  for (const Pass& low : passes) {
    for (const Pass& high : passes) {
      if (type >= low.layer_counts.size() || low.layer_counts.size() != high.layer_counts.size() ||
          high.layer_counts[type] <= low.layer_counts[type]) {
        continue;
      }
      std::vector<int> same = high.layer_counts;
      same[type] = low.layer_counts[type];
      if (same != low.layer_counts) continue;
      return (high.milliseconds - low.milliseconds) /
             (high.layer_counts[type] - low.layer_counts[type]);
    }
  }
  return std::nullopt;
}

// A time without a batch size is of the batch whose passes give it.
void TimeReader::AddPlainTimes() {
  for (const auto& [type, time] : plain_) {
    const std::string field = absl::StrCat("layertype_", type);
    std::set<int> batches;
    std::optional<PassKey> from;
    for (const auto& [key, passes] : passes_) {
      if (key.first == 0) continue;
      batches.insert(key.first);
      const std::optional<double> layer = Difference(passes, type);
      if (layer.has_value() && std::abs(*layer / key.first - time) <= 1e-6 * std::abs(time) &&
          !from.has_value()) {
        from = key;
      }
    }
    if (!from.has_value() && batches.size() == 1) from = PassKey{*batches.begin(), {}};
    if (!from.has_value()) {
      const bool covered = std::any_of(
          layers_.begin(), layers_.end(),
          [type = type](const auto& entry) { return std::get<0>(entry.first) == type; });
      if (covered) {
        NoteNoBatchSize(field);
        continue;
      }
      times_.notes.push_back(
          absl::StrCat(file_.name, ": ", field, " says no batch size; taken as one sample"));
      from = PassKey{1, {}};
    }
    const std::vector<int>& lengths = from->second;
    const int sequence = lengths.empty() ? 0 : lengths[std::min<size_t>(type, lengths.size() - 1)];
    AddLayer(type, from->first, sequence, time, false, field);
  }
}

// Adds times of types for which the file has none: differences of whole passes.
void TimeReader::AddDifferences() {
  size_t type_count = times_.layer_type_count;
  for (const auto& [key, passes] : passes_) {
    for (const Pass& pass : passes) {
      type_count = std::max(type_count, std::min<size_t>(pass.layer_counts.size(), kMaxLayerTypes));
    }
  }
  times_.layer_type_count = static_cast<int>(type_count);
  const bool other_is_given = !other_.empty();
  for (const auto& [key, passes] : passes_) {
    const auto& [batch, lengths] = key;
    if (batch == 0) continue;
    std::vector<double> layer_times;
    for (size_t type = 0; type < type_count; ++type) {
      const bool covered = std::any_of(layers_.begin(), layers_.end(), [type](const auto& entry) {
        return std::get<0>(entry.first) == static_cast<int>(type) && !entry.second.differenced;
      });
      const std::optional<double> time = Difference(passes, type);
      if (!time.has_value()) break;
      layer_times.push_back(*time);
      if (covered) continue;
      const int sequence = lengths.empty() ? 0 : lengths[std::min(type, lengths.size() - 1)];
      AddLayer(static_cast<int>(type), batch, sequence, *time / batch, true,
               absl::StrCat("the difference of layernum passes of layer type ", type, " at bsz ",
                            batch));
    }
    if (layer_times.size() != type_count || type_count == 0 || other_is_given) continue;
    const bool positive =
        std::all_of(layer_times.begin(), layer_times.end(), [](double time) { return time > 0.0; });
    double rest = passes.front().milliseconds;
    for (size_t type = 0; type < type_count; ++type) {
      if (type < passes.front().layer_counts.size()) {
        rest -= layer_times[type] * passes.front().layer_counts[type];
      }
    }
    if (positive && rest > 0.0) {
      other_.try_emplace(key, GalvatronOtherTime{batch, lengths, rest / batch, true});
    }
  }
}

void TimeReader::Finish() {
  for (auto& [key, layer] : layers_) times_.layers.push_back(layer);
  for (auto& [key, other] : other_) times_.other.push_back(std::move(other));
}

absl::StatusOr<GalvatronTimes> TimeReader::Read(int hidden_size) {
  PARPLAN_RETURN_IF_ERROR(RefuseMixtureOfExperts(file_));
  PARPLAN_ASSIGN_OR_RETURN(const json object, ParseJsonObject(file_, kFileReason));
  PARPLAN_RETURN_IF_ERROR(ReadFirstRelease(object, hidden_size));
  PARPLAN_RETURN_IF_ERROR(ReadKeys(object));
  AddPlainTimes();
  AddDifferences();
  Finish();
  for (int type = 0; type < std::max(1, times_.layer_type_count); ++type) {
    const bool found =
        std::any_of(times_.layers.begin(), times_.layers.end(),
                    [type](const GalvatronLayerTime& time) { return time.layer_type == type; });
    if (!found) {
      return ImportError(
          kFileReason, file_.name, absl::StrCat("layertype_", type),
          "has no positive time, and none can be had from differences: that takes `layernum[...]` "
          "of the same batch size at two layer counts");
    }
  }
  return std::move(times_);
}

// Adds the layer times of the second half to the first; what has no counterpart
// is left out.
GalvatronTimes AddHalves(GalvatronTimes first, const GalvatronTimes& second) {
  std::vector<GalvatronLayerTime> sums;
  for (GalvatronLayerTime time : first.layers) {
    for (const GalvatronLayerTime& other : second.layers) {
      if (other.layer_type != time.layer_type || other.batch_size != time.batch_size ||
          other.sequence_length != time.sequence_length) {
        continue;
      }
      time.milliseconds_per_sample += other.milliseconds_per_sample;
      time.differenced = true;
      sums.push_back(time);
    }
  }
  first.layers = std::move(sums);
  first.notes.insert(first.notes.end(), second.notes.begin(), second.notes.end());
  first.notes.push_back(
      "layer times are the sum of the times of attention and feed-forward; those of embedding and "
      "head are of the first file");
  return first;
}

}  // namespace

absl::Status RefuseMixtureOfExperts(const NamedText& file) {
  if (absl::StrContains(file.name, "mixtral") || absl::StrContains(file.name, "/moe/")) {
    return ImportError(kFileReason, file.name, "",
                       "is of a mixture of experts; this importer reads dense layers only, because "
                       "its files lack the time of one expert and of the routing");
  }
  return absl::OkStatus();
}

absl::StatusOr<GalvatronTimes> ReadGalvatronTimes(absl::Span<const NamedText> files,
                                                  int hidden_size) {
  if (files.empty() || files.size() > 2) {
    return ImportError(kFileReason, "times", "",
                       "must be one file, or the two halves of one model");
  }
  PARPLAN_ASSIGN_OR_RETURN(GalvatronTimes times, TimeReader(files[0]).Read(hidden_size));
  if (files.size() == 1) return times;
  PARPLAN_ASSIGN_OR_RETURN(const GalvatronTimes half, TimeReader(files[1]).Read(hidden_size));
  times = AddHalves(std::move(times), half);
  if (times.layers.empty()) {
    return ImportError(
        kFileReason, files[1].name, "layertype_0",
        absl::StrCat("must have a batch size and sequence length in common with ", files[0].name));
  }
  return times;
}

}  // namespace parplan
