// Puts what ranks have measured into a profile, each thing once.

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

// Models may have layers in common: those are in the profile under one id, with the times and
// sizes that came first. No time is 0, however little was done.
class ProfileEntries {
 public:
  // `profile` outlives it and has no layers yet.
  explicit ProfileEntries(v1::Profile& profile) : profile_(profile) {}

  void AddCollective(const agent::v1::CollectiveKey& key, const TimeSpread& spread);
  // Of a layer of `model`; the optimizer's step too, once for each number of parameters.
  void AddLayer(const ModelSpec& model, const LayerTimes& times);
  void AddSizes(const ModelSpec& model, const LayerSizes& sizes);

 private:
  // The id of a layer in the profile, where it is added when it is new.
  std::string IdOf(const LayerDefinition& layer, Precision precision);
  void AddOptimizer(Optimizer optimizer, const LayerTimes& times);

  v1::Profile& profile_;
  // By digest, and all of them.
  std::map<std::string, std::string> ids_;
  std::set<std::string> known_ids_;
  // Id, tensor-parallel degree, samples, sequence length.
  std::set<std::tuple<std::string, int, int64_t, int>> timed_;
  // Optimizers and numbers of parameters.
  std::set<std::pair<int, int64_t>> stepped_;
  // Id, tensor-parallel degree, whether tokens are shared, sequence length.
  std::set<std::tuple<std::string, int, bool, int>> sized_;
};

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_PROBE_PROFILE_ENTRIES_H_
