#include "planner/planners/exact/interleaved/interleaved_loads.h"

#include <algorithm>
#include <cstdint>

#include "planner/model/in_flight.h"

namespace parplan {

InterleavedLoads::InterleavedLoads(const PipelineSetting& setting,
                                   const std::vector<int>& layer_counts, int64_t micro_batch_count)
    : shares_(setting.depth()), messages_(setting.depth()) {
  const int depth = setting.depth();
  const auto chunk_count = static_cast<int>(layer_counts.size()) / depth;
  std::vector<int> begins = {0};
  for (const int count : layer_counts) begins.push_back(begins.back() + count);
  std::vector<Share> sums(setting.problem().model().layer_definitions().size());
  std::vector<int> touched;
  std::vector<Bytes> kept(chunk_count);
  std::vector<int64_t> in_flight(chunk_count);
  for (int device = 0; device < depth; ++device) {
    if (device > 0)
      messages_[device] = messages_[device - 1] + setting.stage(device - 1).least_send;
    for (int chunk = 0; chunk < chunk_count; ++chunk) {
      kept[chunk] = Bytes::Of(layer_counts[chunk * depth + device]);
    }
    InFlightPeak({.pipeline_parallel_degree = depth,
                  .virtual_stage_count = chunk_count,
                  .device_index = device,
                  .micro_batch_count = setting.candidate().micro_batch_count},
                 kept, absl::MakeSpan(in_flight));
    touched.clear();
    for (int chunk = 0; chunk < chunk_count; ++chunk) {
      const int stage = chunk * depth + device;
      for (int layer = begins[stage]; layer < begins[stage + 1];) {
        const int end = std::min(setting.EndOfRun(layer), begins[stage + 1]);
        const double count = end - layer;
        Share& share = sums[setting.definition_of(layer)];
        if (share.layers == 0.0) touched.push_back(setting.definition_of(layer));
        share.layers += count;
        share.in_flight += count * static_cast<double>(in_flight[chunk]);
        if (chunk == 0) share.first += count;
        layer = end;
      }
    }
    std::sort(touched.begin(), touched.end());
    for (const int definition : touched) {
      shares_[device].push_back(sums[definition]);
      shares_[device].back().definition = definition;
      sums[definition] = {};
    }
  }
  AddThrough(setting, begins, micro_batch_count);
}

void InterleavedLoads::AddThrough(const PipelineSetting& setting, const std::vector<int>& begins,
                                  int64_t micro_batch_count) {
  const int depth = setting.depth();
  const double others = static_cast<double>(micro_batch_count - depth);
  std::vector<double> counts(setting.problem().model().layer_definitions().size());
  const auto add = [&](int first, int last, double count) {
    for (int layer = first; layer < last;) {
      const int end = std::min(setting.EndOfRun(layer), last);
      counts[setting.definition_of(layer)] += count * (end - layer);
      layer = end;
    }
  };
  const size_t last_stage = begins.size() - 2;
  add(0, begins[last_stage], 1.0);
  add(begins[last_stage], begins.back(), depth);
  for (const Share& share : shares_.back()) counts[share.definition] += others * share.layers;
  for (size_t definition = 0; definition < counts.size(); ++definition) {
    if (counts[definition] == 0.0) continue;
    through_.push_back({static_cast<int>(definition), counts[definition]});
  }
  const auto chunk_count = static_cast<double>((begins.size() - 1) / depth);
  through_messages_ = 2.0 * chunk_count * messages_.back();
}

}  // namespace parplan
