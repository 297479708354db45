// Random valid values for laws. Same seed, same values; tests print the seed.

#ifndef PARPLAN_TESTS_PROTO_WIRE_RANDOM_VALUES_H_
#define PARPLAN_TESTS_PROTO_WIRE_RANDOM_VALUES_H_

#include <cstdint>
#include <random>
#include <string>

#include "parplan/v1/model.pb.h"
#include "parplan/v1/plan.pb.h"
#include "parplan/v1/profile.pb.h"
#include "parplan/v1/topology.pb.h"
#include "planner/model/plan.h"
#include "planner/model/search_summary.h"

namespace parplan {

class RandomValues {
 public:
  explicit RandomValues(uint64_t seed) : engine_(seed) {}

  // Uniform in [min, max].
  int64_t Integer(int64_t min, int64_t max);
  double Ratio();  // in [0, 1)
  bool Flag() { return Integer(0, 1) == 1; }
  std::string Id();
  // A time of some nanoseconds to some hours, a whole number of nanoseconds.
  google::protobuf::Duration Time();

  v1::ClusterTopology Topology();
  v1::LayerDefinition LayerDefinition(const std::string& id);
  v1::ModelSpec Model();
  // A text that `DimensionSet::Parse` reads.
  std::string SpaceText();
  v1::PlanningOptions Options();
  // Passes `ValidateProfile`; at least one entry of every kind.
  v1::Profile Profile();

  // Passes the checks of `PlanFromPayload`, over layers 0 to layer_count - 1.
  Plan PlanOf(int layer_count);
  Prediction PredictionOf(int stage_count);
  SearchSummary Summary();

 private:
  Strategy StrategyOf(int rank_count);
  // Add a part to a layer whose kind has it.
  void AddAttention(v1::LayerDefinition& definition);
  void AddStateSpace(v1::LayerDefinition& definition);
  void AddOpaque(v1::LayerDefinition& definition);
  void AddFeedForward(v1::LayerDefinition& definition);
  std::mt19937_64 engine_;
};

}  // namespace parplan

#endif  // PARPLAN_TESTS_PROTO_WIRE_RANDOM_VALUES_H_
