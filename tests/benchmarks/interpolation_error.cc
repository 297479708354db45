// How well tables of measured layers tell what was left out of them: reads the
// published profiles, leaves points out, and prints the error of what the tables
// say in their place as a table in Markdown. docs/measurements/interpolation.md
// holds the figures.
//
//     interpolation_error            reads PARPLAN_SHARED_DATA, else ../shared/data

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "clients/import/galvatron_profile.h"
#include "planner/cost/measured_layer_memory.h"
#include "planner/cost/measured_layer_times.h"
#include "planner/cost/size_curve.h"
#include "proto/wire/part_of_node.h"
#include "tests/support/shared_data.h"

namespace parplan {
namespace {

namespace fs = std::filesystem;

NamedText Read(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {path.filename().string(),
          std::string(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>())};
}

// The layers of a set of files, with the first of the configs of its family that
// goes with them.
std::vector<MeasuredLayer> Import(const fs::path& times, const std::vector<fs::path>& files) {
  GalvatronFiles import;
  import.times.push_back(Read(times));
  const fs::path memory = times.parent_path() / absl::StrReplaceAll(times.filename().string(),
                                                                    {{"computation", "memory"}});
  if (memory != times && fs::exists(memory)) import.memory.push_back(Read(memory));
  const std::string family = times.parent_path().parent_path().filename().string();
  std::vector<std::optional<fs::path>> configs = {std::nullopt};
  for (const std::string& folder :
       {absl::StrCat("/", family, "/meta_configs/"), absl::StrCat("/", family, "/hf_configs/"),
        std::string("/meta_configs/llama-7b.json")}) {
    for (const fs::path& file : files) {
      if (absl::StrContains(file.string(), folder)) configs.emplace_back(file);
    }
  }
  for (const std::optional<fs::path>& config : configs) {
    if (config.has_value()) import.model_config = Read(*config);
    GalvatronFlags flags;
    flags.nodes = {1, 8};
    const absl::StatusOr<GalvatronImport> imported = ImportGalvatron(import, flags);
    if (!imported.ok()) continue;
    const v1::Profile* const profile = &imported->profile;
    const absl::StatusOr<ProfileSnapshot> snapshot = SnapshotOfNodes(
        {&profile, 1}, profile->device_kind(), profile->devices_per_node(), profile->runtime_id());
    if (snapshot.ok()) return snapshot->layers();
  }
  return {};
}

struct Errors {
  std::vector<double> relative;
  std::vector<double> before;  // of what `before` says, where it says anything

  void Add(double predicted, double measured) { relative.push_back(predicted / measured - 1.0); }
  void AddBefore(double predicted, double measured) {
    before.push_back(predicted / measured - 1.0);
  }
};

double MeanMagnitude(const std::vector<double>& values) {
  double sum = 0.0;
  for (const double value : values) sum += std::abs(value);
  return values.empty() ? 0.0 : 100.0 * sum / static_cast<double>(values.size());
}

double Mean(const std::vector<double>& values) {
  double sum = 0.0;
  for (const double value : values) sum += value;
  return values.empty() ? 0.0 : 100.0 * sum / static_cast<double>(values.size());
}

double Median(std::vector<double> values) {
  if (values.empty()) return 0.0;
  for (double& value : values) value = std::abs(value);
  std::sort(values.begin(), values.end());
  return 100.0 * values[values.size() / 2];
}

double Largest(const std::vector<double>& values) {
  double largest = 0.0;
  for (const double value : values) largest = std::max(largest, std::abs(value));
  return 100.0 * largest;
}

using Kept = std::function<bool(const LayerTimingPoint&)>;

// Returns what the tables predict for `left_out` from the points that were kept.
void CheckTime(const MeasuredLayer& layer, const LayerTimingPoint& left_out, const Kept& kept,
               Errors& errors) {
  std::vector<LayerTimingPoint> rest;
  std::vector<SizeCurve::Point> row;
  int nearest_length = 0;
  for (const LayerTimingPoint& point : layer.timings) {
    if (!kept(point)) continue;
    rest.push_back(point);
    if (nearest_length == 0 || std::abs(point.sequence_length - left_out.sequence_length) <=
                                   std::abs(nearest_length - left_out.sequence_length)) {
      nearest_length = point.sequence_length;
    }
  }
  if (rest.empty()) return;
  LayerDefinition definition = layer.definition;
  definition.sequence_length = left_out.sequence_length;
  ResolutionNotes notes;
  const LayerNeeds needs{{left_out.tensor_parallel_degree}, true};
  const MeasuredLayerTimes times =
      MeasuredLayerTimes::Resolve(definition, rest, needs, false, nullptr, notes);
  const double measured = left_out.forward.value();
  const int degree = left_out.tensor_parallel_degree;
  errors.Add(times.Forward(degree, left_out.micro_batch_size).value(), measured);

  // Straight lines over the micro-batch at the nearest length, scaled by
  // operations; in proportion above the last point.
  const double scale = ForwardFlopsPerSample(definition, left_out.sequence_length) /
                       ForwardFlopsPerSample(definition, nearest_length);
  for (const LayerTimingPoint& point : rest) {
    if (point.sequence_length == nearest_length && point.tensor_parallel_degree == degree) {
      row.push_back({static_cast<double>(point.micro_batch_size), point.forward * scale});
    }
  }
  errors.AddBefore(SizeCurve(std::move(row)).At(left_out.micro_batch_size).value(), measured);
}

struct Report {
  std::string name;
  Errors micro_batch;         // one inner micro-batch left out
  Errors micro_batch_coarse;  // only 1, 2, 4, 8, ... kept
  Errors micro_batch_beyond;  // only the smaller half kept
  Errors length;
  Errors length_coarse;
  Errors length_beyond;
};

bool IsPowerOfTwo(int value) { return (value & (value - 1)) == 0; }

void CheckMicroBatches(const MeasuredLayer& layer, Report& report) {
  std::map<std::pair<int, int>, std::vector<LayerTimingPoint>> rows;
  for (const LayerTimingPoint& point : layer.timings) {
    rows[{point.tensor_parallel_degree, point.sequence_length}].push_back(point);
  }
  for (const auto& [key, row] : rows) {
    if (row.size() < 4) continue;
    const int first = row.front().micro_batch_size;
    const int last = row.back().micro_batch_size;
    for (const LayerTimingPoint& out : row) {
      const int size = out.micro_batch_size;
      const auto elsewhere = [&out](const LayerTimingPoint& point) {
        return point.sequence_length != out.sequence_length ||
               point.tensor_parallel_degree != out.tensor_parallel_degree;
      };
      if (size != first && size != last) {
        CheckTime(
            layer, out,
            [&](const LayerTimingPoint& point) {
              return elsewhere(point) || point.micro_batch_size != size;
            },
            report.micro_batch);
      }
      if (!IsPowerOfTwo(size) && size < last) {
        CheckTime(
            layer, out,
            [&](const LayerTimingPoint& point) {
              return elsewhere(point) || IsPowerOfTwo(point.micro_batch_size) ||
                     point.micro_batch_size == last;
            },
            report.micro_batch_coarse);
      }
      if (2 * size > last) {
        CheckTime(
            layer, out,
            [&](const LayerTimingPoint& point) { return 2 * point.micro_batch_size <= last; },
            report.micro_batch_beyond);
      }
    }
  }
}

void CheckLengths(const MeasuredLayer& layer, Report& report) {
  std::set<int> lengths;
  for (const LayerTimingPoint& point : layer.timings) lengths.insert(point.sequence_length);
  if (lengths.size() < 4) return;
  const int first = *lengths.begin();
  const int last = *lengths.rbegin();
  for (const LayerTimingPoint& out : layer.timings) {
    const int length = out.sequence_length;
    if (length != first && length != last) {
      CheckTime(
          layer, out,
          [&](const LayerTimingPoint& point) { return point.sequence_length != length; },
          report.length);
    }
    const auto in_coarse = [&](int value) {
      return value == last || (value % first == 0 && IsPowerOfTwo(value / first));
    };
    if (!in_coarse(length)) {
      CheckTime(
          layer, out,
          [&](const LayerTimingPoint& point) { return in_coarse(point.sequence_length); },
          report.length_coarse);
    }
    if (2 * length > last) {
      CheckTime(
          layer, out,
          [&](const LayerTimingPoint& point) { return 2 * point.sequence_length <= last; },
          report.length_beyond);
    }
  }
}

// Activations, each point left out in turn: between others, and the largest degree
// from the smaller ones.
struct MemoryReport {
  Errors length;
  Errors length_beyond;
  Errors degree;
  Errors degree_beyond;
};

void CheckMemory(const MeasuredLayer& layer, MemoryReport& report) {
  for (const LayerMemoryPoint& out : layer.memories) {
    std::vector<LayerMemoryPoint> row;     // other degrees at this length
    std::vector<LayerMemoryPoint> column;  // other lengths at this degree
    bool shorter = false, longer = false, narrower = false, wider = false;
    for (const LayerMemoryPoint& point : layer.memories) {
      const bool same_kind = point.sequence_parallel == out.sequence_parallel ||
                             (point.tensor_parallel_degree == 1 && out.sequence_parallel);
      if (!same_kind) continue;
      if (point.sequence_length == out.sequence_length &&
          point.tensor_parallel_degree != out.tensor_parallel_degree) {
        row.push_back(point);
        narrower = narrower || point.tensor_parallel_degree < out.tensor_parallel_degree;
        wider = wider || point.tensor_parallel_degree > out.tensor_parallel_degree;
      }
      if (point.tensor_parallel_degree == out.tensor_parallel_degree &&
          point.sequence_parallel == out.sequence_parallel &&
          point.sequence_length != out.sequence_length) {
        column.push_back(point);
        shorter = shorter || point.sequence_length < out.sequence_length;
        longer = longer || point.sequence_length > out.sequence_length;
      }
    }
    LayerDefinition definition = layer.definition;
    definition.sequence_length = out.sequence_length;
    const LayerNeeds needs{{out.tensor_parallel_degree}, true, out.sequence_parallel};
    const auto check = [&](const std::vector<LayerMemoryPoint>& points, Errors& errors) {
      ResolutionNotes notes;
      const MeasuredLayerMemory memory =
          MeasuredLayerMemory::Resolve(definition, layer.precision, points, needs, nullptr, notes);
      errors.Add(memory.At(out.tensor_parallel_degree).activation_per_sample.as_double(),
                 out.activation_per_sample.as_double());
    };
    if (out.activation_per_sample <= Bytes()) continue;
    if (narrower && wider) check(row, report.degree);
    if (narrower && !wider && row.size() > 1) check(row, report.degree_beyond);
    if (shorter && longer) check(column, report.length);
    if (shorter && !longer && column.size() > 1) check(column, report.length_beyond);
  }
}

void Row(const std::string& what, const Errors& errors) {
  if (errors.relative.empty()) return;
  std::printf("| %s | %zu | %.1f | %.1f | %+.1f | %.1f |", what.c_str(), errors.relative.size(),
              MeanMagnitude(errors.relative), Median(errors.relative), Mean(errors.relative),
              Largest(errors.relative));
  if (errors.before.empty()) {
    std::printf(" |\n");
  } else {
    std::printf(" %.1f |\n", MeanMagnitude(errors.before));
  }
}

void Append(const Errors& from, Errors& to) {
  to.relative.insert(to.relative.end(), from.relative.begin(), from.relative.end());
  to.before.insert(to.before.end(), from.before.begin(), from.before.end());
}

void Print(const Report& report) {
  const std::string& name = report.name;
  Row(name + ", one micro-batch between others", report.micro_batch);
  Row(name + ", micro-batches between powers of two", report.micro_batch_coarse);
  Row(name + ", micro-batches above half of the largest", report.micro_batch_beyond);
  Row(name + ", one sequence length between others", report.length);
  Row(name + ", lengths between doublings", report.length_coarse);
  Row(name + ", lengths above half of the longest", report.length_beyond);
}

int Main() {
  const std::optional<std::string> data = SharedDataDir();
  if (!data.has_value()) {
    std::printf("%s\n", kNoSharedData);
    return 0;
  }
  const fs::path root = fs::path(*data) / "galvatron_profiles";
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root)) {
    if (entry.is_regular_file() && entry.path().extension() == ".json") {
      files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());

  std::printf(
      "| left out | points | mean %% | median %% | bias %% | worst %% | before, mean %% |\n");
  std::printf("|---|---|---|---|---|---|---|\n");
  Report total;
  total.name = "all";
  MemoryReport memory;
  for (const fs::path& file : files) {
    if (!absl::StartsWith(file.filename().string(), "computation_profiling")) continue;
    Report report;
    const fs::path folder = file.parent_path().parent_path();
    report.name = absl::StrCat(
        fs::relative(file, root).begin()->string(), " ", folder.filename().string(), " ",
        absl::StrReplaceAll(file.stem().string(), {{"computation_profiling_bf16_", ""}}));
    for (const MeasuredLayer& layer : Import(file, files)) {
      if (!IsTransformer(layer.definition.kind)) continue;
      CheckMicroBatches(layer, report);
      CheckLengths(layer, report);
      CheckMemory(layer, memory);
    }
    Print(report);
    Append(report.micro_batch, total.micro_batch);
    Append(report.micro_batch_coarse, total.micro_batch_coarse);
    Append(report.micro_batch_beyond, total.micro_batch_beyond);
    Append(report.length, total.length);
    Append(report.length_coarse, total.length_coarse);
    Append(report.length_beyond, total.length_beyond);
  }
  Print(total);
  Row("activations, one degree between others", memory.degree);
  Row("activations, the largest degree", memory.degree_beyond);
  Row("activations, one length between others", memory.length);
  Row("activations, the longest length", memory.length_beyond);
  return 0;
}

}  // namespace
}  // namespace parplan

// Takes no arguments; those of other benchmarks are let pass.
int main() { return parplan::Main(); }
