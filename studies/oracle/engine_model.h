// The cost model of the public Galvatron search engine, as its `main` computes it.
//
// PKU-DAIR/Hetu-Galvatron at cea12ff, faults included: the cost of its plans by its own account, to
// compare plans and to explain why two models disagree. Closed formulas: one pair of times for each
// kind of layer and strategy, one amount of memory for each kind, stage and strategy.
// docs/measurements/oracle.md has the formulas' source and how closely this follows it.

#ifndef PARPLAN_STUDIES_ORACLE_ENGINE_MODEL_H_
#define PARPLAN_STUDIES_ORACLE_ENGINE_MODEL_H_

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
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

  int inner() const { return tensor > ulysses ? tensor : ulysses; }
  // Returns the name that the engine's files use: `2-4*-1-c`, `2-2*-2f-sp`.
  std::string Name(int pipeline_degree) const;
  friend auto operator<=>(const EngineStrategy&, const EngineStrategy&) = default;
};

// The batch, micro-batches ("chunks") and stages of a plan.
struct EngineShape {
  int64_t global_batch = 0;
  int64_t chunks = 1;
  int pipeline_degree = 1;
};

// Seconds of one layer, or of embedding and head in one stage, for one micro-batch;
// forward and backward together.
struct EngineTime {
  double compute = 0.0;
  // Tensor parallelism or Ulysses.
  double inner = 0.0;
  // ZeRO-3 gathers.
  double gather = 0.0;
  // To and from the next stage, spread over the layers.
  double send = 0.0;
  // Time that gradient synchronisation adds.
  double sync = 0.0;
  double without_sync() const { return compute + inner + gather + send; }
  double with_sync() const { return without_sync() + sync; }
};

class EngineModel {
 public:
  // Reads the tables of a case, which it copies. Returns INVALID_ARGUMENT (PROFILE_INVALID) that
  // names what the engine would lack: a time or memory at the sequence length in its modes, or the
  // bandwidth of some group.
  static absl::StatusOr<EngineModel> Create(const OracleCase& oracle);

  const OracleQuestion& question() const { return question_; }
  int layer_type_count() const { return static_cast<int>(layers_.size()); }

  // Returns whether the case has every table that a strategy of `shape` needs.
  bool Knows(const EngineShape& shape, int layer_type, const EngineStrategy& strategy) const;

  // Lists the strategies of layers for a shape, in the engine's order: powers of two within its
  // caps whose data-parallel degree divides into the micro-batch it floors.
  std::vector<EngineStrategy> LayerStrategies(const EngineShape& shape) const;
  // Lists those of embedding and head: the same without recomputation.
  std::vector<EngineStrategy> EndStrategies(const EngineShape& shape) const;

  EngineTime LayerTime(const EngineShape& shape, int layer_type,
                       const EngineStrategy& strategy) const;
  // Returns the time that embedding and head add to a stage: 0 between the first and the last.
  EngineTime EndTime(const EngineShape& shape, int stage, const EngineStrategy& strategy) const;

  // Returns the memory of a layer in megabytes of 2^20 bytes, not rounded.
  double LayerMegabytes(const EngineShape& shape, int layer_type, int stage,
                        const EngineStrategy& strategy) const;
  // Returns the megabytes of embedding, head and the context of a process.
  double EndMegabytes(const EngineShape& shape, int stage, const EngineStrategy& strategy) const;
  // Returns the megabytes of the buffer for gathered activations, if layers are split at most `cap`
  // times.
  double BufferMegabytes(const EngineShape& shape, int cap) const;
  // Returns the megabytes of a device, less a fifth if it has more than 20 GB.
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

// Returns the engine's time of a step in seconds: T of its ranking, from the times of stages
// without and with gradient synchronisation (the latter for layers alone).
double EnginePipelineTime(absl::Span<const double> without_sync, absl::Span<const double> with_sync,
                          int64_t chunks);

}  // namespace parplan::oracle

#endif  // PARPLAN_STUDIES_ORACLE_ENGINE_MODEL_H_
