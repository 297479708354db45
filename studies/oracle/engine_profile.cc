// Reads the numbers of the engine's model from its three profile modes.

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "clients/import/galvatron_names.h"
#include "studies/oracle/engine_model.h"

namespace parplan::oracle {
namespace {

using nlohmann::json;

constexpr Reason kProfileReason = Reason::kProfileInvalid;

struct Point {
  double at = 0.0;
  double value = 0.0;
};

// Least squares, as the engine fits.
std::pair<double, double> FitLine(const std::vector<Point>& points) {
  double mean_at = 0.0;
  double mean = 0.0;
  for (const Point& point : points) {
    mean_at += point.at / static_cast<double>(points.size());
    mean += point.value / static_cast<double>(points.size());
  }
  double covariance = 0.0;
  double variance = 0.0;
  for (const Point& point : points) {
    covariance += (point.at - mean_at) * (point.value - mean);
    variance += (point.at - mean_at) * (point.at - mean_at);
  }
  const double slope = variance > 0.0 ? covariance / variance : 0.0;
  return {slope, mean - slope * mean_at};
}

// The least-squares parabola at `at`; a line through two points.
double FitParabola(const std::vector<Point>& points, double at) {
  if (points.size() < 3) {
    const auto [slope, intercept] = FitLine(points);
    return slope * at + intercept;
  }
  double scale = 0.0;
  for (const Point& point : points) scale = std::max(scale, point.at);
  std::array<std::array<double, 4>, 3> rows = {};
  for (const Point& point : points) {
    const double x = point.at / scale;
    const std::array<double, 5> powers = {1.0, x, x * x, x * x * x, x * x * x * x};
    for (int i = 0; i < 3; ++i) {
      for (int j = 0; j < 3; ++j) rows[i][j] += powers[i + j];
      rows[i][3] += powers[i] * point.value;
    }
  }
  for (int i = 0; i < 3; ++i) {
    for (int k = i + 1; k < 3; ++k) {
      const double factor = rows[k][i] / rows[i][i];
      for (int j = 0; j < 4; ++j) rows[k][j] -= factor * rows[i][j];
    }
  }
  std::array<double, 3> solution = {};
  for (int i = 2; i >= 0; --i) {
    double rest = rows[i][3];
    for (int j = i + 1; j < 3; ++j) rest -= rows[i][j] * solution[j];
    solution[i] = rest / rows[i][i];
  }
  const double x = at / scale;
  return solution[0] + solution[1] * x + solution[2] * x * x;
}

// Whether an entry is of a layer type's sequence length, or says nothing of it.
bool IsOfLength(const GalvatronTimeKey& key, int type, int length) {
  if (key.sequence_lengths.empty()) return true;
  const size_t index = key.sequence_lengths.size() == 1 ? 0 : static_cast<size_t>(type);
  return index < key.sequence_lengths.size() && key.sequence_lengths[index] == length;
}

std::map<int, double> ByDegree(const json& object) {
  std::map<int, double> values;
  for (const auto& [key, value] : object.items()) {
    int degree = 0;
    if (absl::SimpleAtoi(key, &degree) && value.is_number()) values[degree] = value.get<double>();
  }
  return values;
}

// The block of a key at the longest or at an asked length; null when there is none.
struct BlockAt {
  const json* block = nullptr;
  int length = 0;
};

std::vector<BlockAt> BlocksByLength(const json& table) {
  std::vector<BlockAt> blocks;
  for (const auto& [key, value] : table.items()) {
    int length = 0;
    if (absl::SimpleAtoi(key, &length)) blocks.push_back({&value, length});
  }
  std::sort(blocks.begin(), blocks.end(),
            [](const BlockAt& a, const BlockAt& b) { return a.length < b.length; });
  return blocks;
}

}  // namespace

absl::Status EngineModel::ReadTimes(const OracleCase& oracle) {
  const NamedText& file = oracle.files.times.front();
  PARPLAN_ASSIGN_OR_RETURN(const json object, ParseJsonObject(file, kProfileReason));
  const OracleProfileMode mode = question_.time_mode;
  for (int type = 0; type < static_cast<int>(question_.runs.size()); ++type) {
    const int length = question_.runs[type].sequence_length;
    std::vector<Point> layer;
    std::vector<Point> ends;
    for (const auto& [name, value] : object.items()) {
      const std::optional<GalvatronTimeKey> key = ParseGalvatronTimeKey(name);
      if (!key.has_value() || !value.is_number() || !key->part.empty()) continue;
      const bool is_layer = key->kind == GalvatronTimeKey::Kind::kLayer && key->layer_type == type;
      if (!is_layer && key->kind != GalvatronTimeKey::Kind::kOther) continue;
      const double milliseconds = value.get<double>();
      std::vector<Point>& points = is_layer ? layer : ends;
      if (mode == OracleProfileMode::kSequence) {
        if (key->batch_size != 1 || key->sequence_lengths.size() != 1) continue;
        points.push_back({static_cast<double>(key->sequence_lengths.front()), milliseconds});
      } else if (mode == OracleProfileMode::kBatch) {
        if (!IsOfLength(*key, type, length) || key->batch_size < 1) continue;
        points.push_back({static_cast<double>(key->batch_size), key->batch_size * milliseconds});
      } else {
        points.push_back({0.0, milliseconds});
      }
    }
    if (layer.empty()) {
      return ImportError(kProfileReason, file.name, absl::StrCat("layertype_", type),
                         absl::StrCat("has no time at sequence length ", length));
    }
    Line time;
    Line end;
    switch (mode) {
      case OracleProfileMode::kStatic:
        time.slope = layer.front().value;
        end.slope = ends.empty() ? 0.0 : ends.front().value;
        break;
      case OracleProfileMode::kBatch:
        std::tie(time.slope, time.intercept) = FitLine(layer);
        if (!ends.empty()) std::tie(end.slope, end.intercept) = FitLine(ends);
        break;
      case OracleProfileMode::kSequence:
        time.slope = FitParabola(layer, length);
        if (!ends.empty()) {
          const auto [slope, intercept] = FitLine(ends);
          end.slope = slope * length + intercept;
        }
        break;
    }
    layers_.push_back({time, {}});
    if (type == 0) end_time_ = end;
  }
  return absl::OkStatus();
}

absl::Status EngineModel::ReadMemory(const OracleCase& oracle) {
  const NamedText& file = oracle.files.memory.front();
  PARPLAN_ASSIGN_OR_RETURN(const json object, ParseJsonObject(file, kProfileReason));
  const bool scales = question_.memory_mode == OracleProfileMode::kSequence;
  const char* const suffix = question_.sequence_parallel ? "_sp" : "";
  const auto table_of = [&object, suffix](const std::string& name) -> const json* {
    auto found = object.find(name + suffix);
    if (found == object.end()) found = object.find(name);
    return found == object.end() || !found->is_object() ? nullptr : &*found;
  };
  for (int type = 0; type < layer_type_count(); ++type) {
    const std::string name = absl::StrCat("layertype_", type);
    const int length = question_.runs[type].sequence_length;
    const json* const table = table_of(name);
    if (table == nullptr) return ImportError(kProfileReason, file.name, name, "is missing");
    std::vector<BlockAt> blocks = BlocksByLength(*table);
    // Files without lengths hold the block itself.
    if (table->contains("parameter_size")) blocks = {{table, length}};
    double factor = 1.0;
    const json* states = nullptr;
    const json* activations = nullptr;
    for (const BlockAt& block : blocks) {
      if (scales || block.length == length) activations = block.block;
      if (states == nullptr && (scales || block.length == length)) states = block.block;
    }
    if (states == nullptr || !states->contains("parameter_size") ||
        !activations->contains("tp_activation_per_bsz_dict")) {
      return ImportError(kProfileReason, file.name, name,
                         absl::StrCat("has no memory at sequence length ", length));
    }
    if (scales) factor = static_cast<double>(length) / blocks.back().length;
    LayerMemory& memory = layers_[type].memory;
    memory.parameter_megabytes = (*states)["parameter_size"].get<double>();
    const json& dict = (*activations)["tp_activation_per_bsz_dict"];
    memory.activation = ByDegree(dict);
    for (auto& [degree, value] : memory.activation) value *= factor;
    if (dict.contains("checkpoint")) memory.checkpoint = dict["checkpoint"].get<double>() * factor;
  }
  std::vector<int> lengths;
  for (const OracleLayerRun& run : question_.runs) lengths.push_back(run.sequence_length);
  const std::pair<const char*, EndMemory*> places[] = {{"other_memory_pp_off", &both_},
                                                       {"other_memory_pp_on_first", &first_},
                                                       {"other_memory_pp_on_last", &last_}};
  for (const auto& [name, memory] : places) {
    const json* const table = table_of(name);
    if (table == nullptr) return ImportError(kProfileReason, file.name, name, "is missing");
    const json* block = nullptr;
    double factor = 1.0;
    for (const std::string& key :
         {absl::StrJoin(lengths, "_"), absl::StrJoin(lengths, ""), absl::StrCat(lengths.front()),
          absl::StrCat("[", absl::StrJoin(lengths, ","), "]")}) {
      if (block == nullptr && table->contains(key)) block = &(*table)[key];
    }
    if (scales || block == nullptr) {
      const std::vector<BlockAt> blocks = BlocksByLength(*table);
      if (scales && !blocks.empty()) {
        block = blocks.back().block;
        factor = static_cast<double>(lengths.front()) / blocks.back().length;
      }
    }
    if (block == nullptr && table->contains("model_states")) block = table;
    if (block == nullptr || !block->contains("model_states") || !block->contains("activation")) {
      return ImportError(kProfileReason, file.name, name, "has no memory at the sequence length");
    }
    memory->states = ByDegree((*block)["model_states"]);
    memory->activation = ByDegree((*block)["activation"]);
    for (auto& [degree, value] : memory->activation) value *= factor;
  }
  return absl::OkStatus();
}

absl::Status EngineModel::ReadHardware(const OracleCase& oracle) {
  const GalvatronHardwareFiles& files = oracle.files.hardware;
  PARPLAN_ASSIGN_OR_RETURN(const json all_reduce,
                           ParseJsonObject(*files.all_reduce, kProfileReason));
  for (const auto& [name, value] : all_reduce.items()) {
    absl::string_view rest = name;
    int size = 0;
    if (!absl::ConsumePrefix(&rest, "allreduce_size_") || !value.is_number()) continue;
    const std::vector<absl::string_view> parts = absl::StrSplit(rest, "_consec_");
    if (parts.size() != 2 || !absl::SimpleAtoi(parts[0], &size)) continue;
    if (value.get<double>() > 0.0) all_reduce_[{size, parts[1] == "1"}] = value.get<double>();
  }
  PARPLAN_ASSIGN_OR_RETURN(const json send_receive,
                           ParseJsonObject(*files.send_receive, kProfileReason));
  for (const auto& [name, value] : send_receive.items()) {
    absl::string_view rest = name;
    int size = 0;
    if (absl::ConsumePrefix(&rest, "pp_size_") && absl::SimpleAtoi(rest, &size) &&
        value.is_number() && value.get<double>() > 0.0) {
      send_receive_[size] = value.get<double>();
    }
  }
  PARPLAN_ASSIGN_OR_RETURN(const json overlap, ParseJsonObject(*files.overlap, kProfileReason));
  if (overlap.contains("overlap_coe") && overlap["overlap_coe"].is_number()) {
    overlap_ = overlap["overlap_coe"].get<double>();
  }
  if (!files.tables.has_value()) return absl::OkStatus();
  PARPLAN_ASSIGN_OR_RETURN(const json tables, ParseJsonObject(*files.tables, kProfileReason));
  for (const auto& [name, value] : tables.items()) {
    absl::string_view rest = name;
    const bool all_to_all = absl::ConsumePrefix(&rest, "all2all_size_");
    if (!all_to_all && !absl::ConsumePrefix(&rest, "allreduce_size_")) continue;
    if (!absl::ConsumeSuffix(&rest, "MB_time") || !value.is_number()) continue;
    const std::vector<absl::string_view> parts = absl::StrSplit(rest, '_');
    int size = 0;
    int megabytes = 0;
    if (parts.size() == 2 && absl::SimpleAtoi(parts[0], &size) &&
        absl::SimpleAtoi(parts[1], &megabytes)) {
      tables_[{all_to_all, size}][megabytes] = value.get<double>();
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<EngineModel> EngineModel::Create(const OracleCase& oracle) {
  EngineModel model;
  model.question_ = oracle.question;
  PARPLAN_RETURN_IF_ERROR(model.ReadTimes(oracle));
  PARPLAN_RETURN_IF_ERROR(model.ReadMemory(oracle));
  PARPLAN_RETURN_IF_ERROR(model.ReadHardware(oracle));
  return model;
}

}  // namespace parplan::oracle
