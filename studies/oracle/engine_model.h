// The cost model of the public Galvatron search engine (PKU-DAIR/Hetu-Galvatron, branch `main` at
// commit cea12ff), written again with its faults.
//
// It prices plans as that engine does, so that the oracle study can compare plans by the engine's
// own numbers and explain why two models disagree. `CompareOracle` (oracle_comparison.h) makes one
// for each case. The formulas are closed: a pair of times for each kind of layer and strategy, and
// an amount of memory for each kind, stage and strategy. docs/measurements/oracle.md has their
// source and how closely this follows it.

#ifndef PARPLAN_STUDIES_ORACLE_ENGINE_MODEL_H_
#define PARPLAN_STUDIES_ORACLE_ENGINE_MODEL_H_

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "studies/oracle/oracle_case.h"

namespace parplan::oracle {

// The engine's strategies: tensor parallelism or Ulysses, never both above 1.
struct EngineStrategy {
  int tensor = 1;
  int ulysses = 1;
  int data = 1;
  // ZeRO-3; otherwise the default kind of data parallelism.
  bool is_sharded = false;
  bool recomputes = false;

  // Returns the larger of the degrees `tensor` and `ulysses`, of which one is 1.
  int inner() const { return tensor > ulysses ? tensor : ulysses; }
  // Returns the name that the engine's files use: `2-4*-1-c`, `2-2*-2f-sp`.
  std::string Name(int pipeline_degree) const;
  friend auto operator<=>(const EngineStrategy&, const EngineStrategy&) = default;
};

// The batch, micro-batches ("chunks") and stages of a plan.
struct EngineShape {
  // Samples of a step, micro-batches of a step, and stages.
  int64_t global_batch = 0;
  int64_t chunks = 1;
  int pipeline_degree = 1;
};

// Seconds of one layer, or of embedding and head in one stage, for one micro-batch;
// forward and backward together.
struct EngineTime {
  // Computation, recomputation included.
  double compute = 0.0;
  // Tensor parallelism or Ulysses.
  double inner = 0.0;
  // ZeRO-3 gathers.
  double gather = 0.0;
  // To and from the next stage, spread over the layers.
  double send = 0.0;
  // Time that gradient synchronisation adds.
  double sync = 0.0;
  // Return the sum without, and with, the synchronisation of gradients.
  double without_sync() const { return compute + inner + gather + send; }
  double with_sync() const { return without_sync() + sync; }
};

// The costs of one case. Immutable; any thread may read it.
class EngineModel {
 public:
  // Copies what it needs of the tables of a case. Returns INVALID_ARGUMENT (PROFILE_INVALID) naming
  // file and entry for a file that is no JSON object, and for a time or a memory that is missing at
  // the sequence length in the profile modes of the case. Bandwidths are not checked: `Knows` says
  // whether there are enough of them. REQUIRES, unchecked: `oracle` is from `ReadOracleCase`.
  static absl::StatusOr<EngineModel> Create(const OracleCase& oracle);

  // Return the question of the case, and the number of kinds of layers in it.
  const OracleQuestion& question() const { return question_; }
  int layer_type_count() const { return static_cast<int>(layers_.size()); }

  // Returns whether the case has every bandwidth, latency and memory that `strategy` needs in plans
  // of `shape`. `layer_type` is the index of a kind of layer, below `layer_type_count()`.
  bool Knows(const EngineShape& shape, int layer_type, const EngineStrategy& strategy) const;

  // Lists the strategies of layers for a shape, in the engine's order: those that the case allows
  // (`max_tp_deg`, `max_sp_deg`, `disable_tp` and so on), with degrees that are powers of two,
  // whose data-parallel degree is at most min(global_batch / chunks, ranks of a stage), and which
  // `Knows` has for every kind of layer. The engine does not ask that the degree divides the
  // micro-batch; it rounds samples down.
  std::vector<EngineStrategy> LayerStrategies(const EngineShape& shape) const;
  // Lists those of embedding and head: the same without recomputation.
  std::vector<EngineStrategy> EndStrategies(const EngineShape& shape) const;

  // The functions below that take a strategy REQUIRE, unchecked, that `Knows` has it for the shape.
  // Stages count from 0.

  // Returns the time of one layer of kind `layer_type`.
  EngineTime LayerTime(const EngineShape& shape, int layer_type,
                       const EngineStrategy& strategy) const;
  // Returns the time that embedding and head add to stage `stage`. It is 0 for stages other than
  // the first and the last.
  EngineTime EndTime(const EngineShape& shape, int stage, const EngineStrategy& strategy) const;

  // Returns the memory of a layer on a device of stage `stage`, in megabytes of 2^20 bytes, not
  // rounded.
  double LayerMegabytes(const EngineShape& shape, int layer_type, int stage,
                        const EngineStrategy& strategy) const;
  // Returns the megabytes of embedding and head in stage `stage`, if it has any, and of the context
  // of a process.
  double EndMegabytes(const EngineShape& shape, int stage, const EngineStrategy& strategy) const;
  // Returns the megabytes of the buffer for gathered activations if no layer is split over more
  // than `cap` ranks; 0 without sequence parallelism.
  double BufferMegabytes(const EngineShape& shape, int cap) const;
  // Returns the megabytes of a device, less a fifth if it has more than 20 GiB.
  int UsableMegabytes() const;

 private:
  struct LayerMemory {
    double parameter_megabytes = 0.0;
    std::map<int, double> activation;
    double checkpoint = 0.0;
  };
  struct EndMemory {
    std::map<int, double> states;
    std::map<int, double> activation;
  };
  // A line through times: slope * samples + intercept ms.
  struct Line {
    double slope = 0.0;
    double intercept = 0.0;
    double At(double samples) const { return slope * samples + intercept; }
  };
  struct LayerType {
    Line time;
    LayerMemory memory;
  };

  EngineModel() = default;
  absl::Status ReadTimes(const OracleCase& oracle);
  absl::Status ReadMemory(const OracleCase& oracle);
  absl::Status ReadHardware(const OracleCase& oracle);
  // Returns ms per megabyte; 0 for one device.
  double AllReduceCoefficient(int size, bool neighbours) const;
  // Returns the ms of one message.
  double Latency(bool all_to_all, int size, double megabytes) const;
  double ShardedShare(const EngineShape& shape, const EngineStrategy& strategy) const;
  int64_t LocalSamples(const EngineShape& shape, const EngineStrategy& strategy) const {
    return shape.global_batch / shape.chunks / strategy.data;
  }
  double MessageMegabytes(const EngineShape& shape, int layer_type,
                          const EngineStrategy& strategy) const;
  std::vector<EngineStrategy> Strategies(const EngineShape& shape, bool recomputes) const;

  OracleQuestion question_;
  std::vector<LayerType> layers_;
  Line end_time_;
  EndMemory both_;
  EndMemory first_;
  EndMemory last_;
  // [size, neighbours]
  std::map<std::pair<int, bool>, double> all_reduce_;
  std::map<int, double> send_receive_;
  // [all-to-all, size] ms by megabytes.
  std::map<std::pair<bool, int>, std::map<int, double>> tables_;
  double overlap_ = 1.0;
};

}  // namespace parplan::oracle

#endif  // PARPLAN_STUDIES_ORACLE_ENGINE_MODEL_H_
