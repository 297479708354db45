// Adds measurements to a profile, each once. Used by `RunProbe`.

#ifndef PARPLAN_PROFILER_AGENT_PROBE_PROFILE_ENTRIES_H_
#define PARPLAN_PROFILER_AGENT_PROBE_PROFILE_ENTRIES_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "executor/layer_probe/layer_probe.h"
#include "executor/layer_probe/memory_probe.h"
#include "executor/layer_probe/time_spread.h"
#include "parplan/agent/v1/probe_plan.pb.h"
#include "parplan/v1/profile.pb.h"
#include "planner/model/model_spec.h"

namespace parplan {

// Builds the entries of one profile. Layers that models have in common are added under one id, with
// the times and sizes that came first; later calls for the same layer and shape do nothing. A time
// of 0 or below, as the noise of a difference may make it, is stored as 1 ns, because profiles need
// positive times, and a 90th percentile is at least the median. REQUIRES, unchecked: indices of
// layer definitions are those of `model`.
class ProfileEntries {
 public:
  // `profile` must outlive this object and have no layers yet, which is not checked.
  explicit ProfileEntries(v1::Profile& profile) : profile_(profile) {}

  // Adds the time of a collective; the caller adds each key once.
  void AddCollective(const agent::v1::CollectiveKey& key, const TimeSpread& spread);
  // Adds the times of a layer of `model`, and those of its optimizer step once for each optimizer
  // and number of parameters. A step whose time is not above 0 counts as not measured and is left
  // out.
  void AddLayer(const ModelSpec& model, const LayerTimes& times);
  // Adds the memory of a layer of `model`.
  void AddSizes(const ModelSpec& model, const LayerSizes& sizes);

 private:
  // Returns the layer's id in the profile, adding the layer if it is new.
  std::string IdOf(const LayerDefinition& layer, Precision precision);
  void AddOptimizer(Optimizer optimizer, const LayerTimes& times);

  v1::Profile& profile_;
  // Ids by digest of the layer, and the set of all ids.
  std::map<std::string, std::string> ids_;
  std::set<std::string> known_ids_;
  // Timed entries: (id, tensor-parallel degree, samples, sequence length).
  std::set<std::tuple<std::string, int, int64_t, int>> timed_;
  // Timed optimizer steps: (optimizer, number of parameters).
  std::set<std::pair<int, int64_t>> stepped_;
  // Sized entries: (id, tensor-parallel degree, whether tokens are shared, sequence length).
  std::set<std::tuple<std::string, int, bool, int>> sized_;
};

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_PROBE_PROFILE_ENTRIES_H_
