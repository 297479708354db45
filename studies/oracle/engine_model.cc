#include "studies/oracle/engine_model.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace parplan::oracle {
namespace {

// The engine counts in MiB, and takes this much for the context of a process. These numbers, and
// the others of this file, are its own: with others the study would compare with another program.
constexpr double kMegabyte = 1 << 20;
constexpr double kContextMegabytes = 1024.0;

// Backward over forward, in the engine's eyes.
constexpr double kBackwardRatio = 2.0;

double Half(bool is_half) { return is_half ? 0.5 : 1.0; }

// A ZeRO rank's share of what is sharded; the engine's three per mille on top.
double ShardedPart(int ranks) { return 1.0 / ranks + 0.003; }

}  // namespace

std::string EngineStrategy::Name(int pipeline_degree) const {
  return absl::StrCat(pipeline_degree, "-", inner(), inner() > 1 ? "*" : "", "-", data,
                      is_sharded ? "f" : "", recomputes ? "-c" : "", ulysses > 1 ? "-sp" : "");
}

double EngineModel::AllReduceCoefficient(int size, bool neighbours) const {
  if (size <= 1) return 0.0;
  auto found = all_reduce_.find({size, neighbours});
  // The whole cluster is measured once.
  if (found == all_reduce_.end()) found = all_reduce_.find({size, true});
  return 1.0 / found->second;
}

double EngineModel::Latency(bool all_to_all, int size, double megabytes) const {
  if (size <= 1) return 0.0;
  const std::map<int, double>& table = tables_.at({all_to_all, size});
  // An all-gather is taken as half an all-reduce.
  const double factor = all_to_all ? 1.0 : 0.5;
  if (megabytes == std::floor(megabytes) && megabytes < 1 << 30) {
    const auto exact = table.find(static_cast<int>(megabytes));
    if (exact != table.end()) return factor * exact->second;
  }
  double mean_size = 0.0;
  double mean_time = 0.0;
  for (const auto& [at, time] : table) {
    mean_size += at;
    mean_time += time;
  }
  mean_size /= static_cast<double>(table.size());
  mean_time /= static_cast<double>(table.size());
  double covariance = 0.0;
  double variance = 0.0;
  for (const auto& [at, time] : table) {
    covariance += (at - mean_size) * (time - mean_time);
    variance += (at - mean_size) * (at - mean_size);
  }
  const double slope = variance > 0.0 ? covariance / variance : 0.0;
  return factor * (mean_time + slope * (megabytes - mean_size));
}

bool EngineModel::Knows(const EngineShape& shape, int layer_type,
                        const EngineStrategy& strategy) const {
  const int sharded = strategy.data * strategy.ulysses;
  if (sharded > 1 && !all_reduce_.contains({sharded, true}) &&
      (strategy.tensor == 1 || !all_reduce_.contains({sharded, false}))) {
    return false;
  }
  if (strategy.tensor > 1 && !tables_.contains({false, strategy.tensor})) return false;
  if (strategy.ulysses > 1 && !tables_.contains({true, strategy.ulysses})) return false;
  if (shape.pipeline_degree > 1 && !send_receive_.contains(shape.pipeline_degree)) return false;
  if (!layers_[layer_type].memory.activation.contains(strategy.inner())) return false;
  for (const EndMemory* const memory : shape.pipeline_degree == 1
                                           ? std::vector<const EndMemory*>{&both_}
                                           : std::vector<const EndMemory*>{&first_, &last_}) {
    if (!memory->states.contains(strategy.tensor) ||
        !memory->activation.contains(strategy.inner())) {
      return false;
    }
  }
  return true;
}

std::vector<EngineStrategy> EngineModel::Strategies(const EngineShape& shape,
                                                    bool recomputes) const {
  std::vector<EngineStrategy> strategies;
  const int ranks = question_.device_count() / shape.pipeline_degree;
  const int64_t most_data = std::min<int64_t>(shape.global_batch / shape.chunks, ranks);
  constexpr int kDefaultCap = 8;
  const int tensor_cap =
      question_.Space("disable_tp", 0) != 0 ? 1 : question_.Space("max_tp_deg", kDefaultCap);
  const int ulysses_cap =
      question_.Space("disable_sp", 0) != 0 ? 1 : question_.Space("max_sp_deg", kDefaultCap);
  const bool may_shard = question_.Space("disable_sdp", 0) == 0;
  const bool may_replicate = question_.Space("disable_dp", 0) == 0;
  for (int tensor = 1; tensor <= std::min(tensor_cap, ranks); tensor *= 2) {
    for (int ulysses = 1; ulysses <= std::min(ulysses_cap, ranks); ulysses *= 2) {
      if (tensor > 1 && ulysses > 1) continue;
      const int inner = tensor * ulysses;
      if (ranks % inner != 0) continue;
      const int data = ranks / inner;
      if (data > most_data) continue;
      for (const bool is_sharded : {false, true}) {
        if (is_sharded && (data == 1 || !may_shard)) continue;
        if (!is_sharded && data > 1 && !may_replicate) continue;
        for (const bool does_recompute : {false, true}) {
          if (does_recompute && !recomputes) continue;
          const EngineStrategy strategy = {tensor, ulysses, data, is_sharded, does_recompute};
          bool is_known = true;
          for (int type = 0; type < layer_type_count(); ++type) {
            is_known = is_known && Knows(shape, type, strategy);
          }
          if (is_known) strategies.push_back(strategy);
        }
      }
    }
  }
  return strategies;
}

std::vector<EngineStrategy> EngineModel::LayerStrategies(const EngineShape& shape) const {
  return Strategies(shape, question_.Space("disable_ckpt", 0) == 0);
}

std::vector<EngineStrategy> EngineModel::EndStrategies(const EngineShape& shape) const {
  return Strategies(shape, /*recomputes=*/false);
}

double EngineModel::MessageMegabytes(const EngineShape& shape, int layer_type,
                                     const EngineStrategy& strategy) const {
  const OracleLayerRun& run = question_.runs[layer_type];
  const double bytes = question_.is_fp32 ? 4.0 : 2.0;
  return static_cast<double>(LocalSamples(shape, strategy)) * run.sequence_length *
         run.hidden_size * bytes / kMegabyte;
}

EngineTime EngineModel::LayerTime(const EngineShape& shape, int layer_type,
                                  const EngineStrategy& strategy) const {
  const LayerType& layer = layers_[layer_type];
  const double samples = static_cast<double>(LocalSamples(shape, strategy));
  const double forward = layer.time.At(samples / strategy.inner());
  const double backward = (kBackwardRatio + (strategy.recomputes ? 1.0 : 0.0)) * forward;
  const int sharded = strategy.data * strategy.ulysses;
  const double volume = 2.0 * (sharded - 1) / sharded * layer.memory.parameter_megabytes /
                        strategy.tensor * Half(!question_.is_fp32);
  const double coefficient = AllReduceCoefficient(sharded, strategy.tensor == 1);
  const double megabytes = MessageMegabytes(shape, layer_type, strategy);
  EngineTime time;
  time.compute = forward + backward;
  if (strategy.data > 1) {
    const double sync = volume * coefficient;
    const double together =
        sync <= backward ? backward + (overlap_ - 1.0) * sync : sync + (overlap_ - 1.0) * backward;
    time.sync = together - backward;
  }
  if (strategy.tensor > 1) {
    time.inner = (strategy.recomputes ? 9.0 : 6.0) * Latency(false, strategy.tensor, megabytes);
  }
  if (strategy.ulysses > 1) {
    time.inner += (strategy.recomputes ? 6.0 : 4.0) * Latency(true, strategy.ulysses, megabytes);
  }
  if (strategy.is_sharded) time.gather = volume / 2.0 * coefficient;
  if (const int degree = shape.pipeline_degree; degree > 1) {
    // Messages have 16 bits whatever the precision.
    const double message = megabytes * (question_.is_fp32 ? 0.5 : 1.0);
    time.send =
        2.0 * degree * message / send_receive_.at(degree) / question_.runs[layer_type].layer_count;
  }
  constexpr double kSeconds = 1e-3;
  time.compute *= kSeconds;
  time.sync *= kSeconds;
  time.inner *= kSeconds;
  time.gather *= kSeconds;
  time.send *= kSeconds;
  return time;
}

EngineTime EngineModel::EndTime(const EngineShape& shape, int stage,
                                const EngineStrategy& strategy) const {
  const int degree = shape.pipeline_degree;
  EngineTime time;
  if (stage != 0 && stage != degree - 1) return time;
  const EndMemory& memory = degree == 1 ? both_ : stage == 0 ? first_ : last_;
  const double samples = static_cast<double>(LocalSamples(shape, strategy));
  const double forward = end_time_.At(samples / strategy.inner()) * (degree > 1 ? 0.5 : 1.0);
  const double backward = kBackwardRatio * forward;
  const int sharded = strategy.data * strategy.ulysses;
  const double volume = memory.states.at(strategy.tensor) / 4.0 * Half(!question_.is_fp32);
  const double coefficient = AllReduceCoefficient(sharded, strategy.tensor == 1) *
                             static_cast<double>(sharded - 1) / sharded;
  const auto together = [this](double compute, double communication) {
    return overlap_ * compute > communication ? communication + compute - communication / overlap_
                                              : communication;
  };
  const double traffic = volume * coefficient;
  const double forward_factor = strategy.is_sharded ? 0.5 : 0.0;
  const double backward_factor = strategy.is_sharded ? 1.0 : 0.5;
  const double gathered = together(forward, forward_factor * traffic) +
                          together(backward, (backward_factor - 0.5) * traffic);
  const double synchronised =
      together(forward, forward_factor * traffic) + together(backward, backward_factor * traffic);
  constexpr double kSeconds = 1e-3;
  time.compute = (forward + backward) * kSeconds;
  time.gather = (gathered - forward - backward) * kSeconds;
  time.sync = (synchronised - gathered) * kSeconds;
  if (strategy.tensor > 1) {
    time.inner = (degree == 1 ? 2.0 : 1.0) *
                 Latency(false, strategy.tensor, MessageMegabytes(shape, 0, strategy)) * kSeconds;
  }
  return time;
}

double EngineModel::ShardedShare(const EngineShape& shape, const EngineStrategy& strategy) const {
  const bool is_zero_2 = question_.default_is_zero_2 && strategy.data > 1;
  if (!strategy.is_sharded && !is_zero_2) return 1.0;
  const double part = ShardedPart(strategy.data * strategy.ulysses);
  const bool async = question_.async_grad_reduce;
  const bool many = shape.chunks > 1;
  if (strategy.is_sharded) {
    if (!many) return part;
    if (!async) return 1.25 * part;
    return question_.is_fp32 ? 0.75 * part + 0.25 : 0.875 * part + 0.125;
  }
  if (question_.is_fp32) {
    return many && async ? 0.5 * part + 0.5 : 0.75 * part + 0.25;
  }
  if (!many) return 0.875 * part + 0.125;
  return async ? 0.75 * part + 0.25 : 1.25 * (0.875 * part + 0.125);
}

double EngineModel::LayerMegabytes(const EngineShape& shape, int layer_type, int stage,
                                   const EngineStrategy& strategy) const {
  const LayerMemory& memory = layers_[layer_type].memory;
  const int degree = shape.pipeline_degree;
  const double in_flight = degree == 1          ? 1.0
                           : question_.is_gpipe ? static_cast<double>(shape.chunks)
                                                : static_cast<double>(degree - stage);
  const double samples = static_cast<double>(LocalSamples(shape, strategy));
  double per_sample = 0.0;
  if (!strategy.recomputes) {
    per_sample = memory.activation.at(strategy.inner());
  } else {
    const bool is_split =
        strategy.ulysses > 1 || (strategy.tensor > 1 && question_.sequence_parallel);
    per_sample = memory.checkpoint / (is_split ? strategy.inner() : 1);
  }
  return 4.0 * memory.parameter_megabytes / strategy.tensor * ShardedShare(shape, strategy) +
         per_sample * samples * in_flight;
}

double EngineModel::EndMegabytes(const EngineShape& shape, int stage,
                                 const EngineStrategy& strategy) const {
  const int degree = shape.pipeline_degree;
  if (stage != 0 && stage != degree - 1) return kContextMegabytes;
  const EndMemory& memory = degree == 1 ? both_ : stage == 0 ? first_ : last_;
  const double samples = static_cast<double>(LocalSamples(shape, strategy));
  double in_flight = 1.0;
  if (degree > 1 && question_.is_gpipe) in_flight = static_cast<double>(shape.chunks);
  if (degree > 1 && !question_.is_gpipe && stage == 0) in_flight = degree;
  return kContextMegabytes + memory.states.at(strategy.tensor) * ShardedShare(shape, strategy) +
         memory.activation.at(strategy.inner()) * samples * in_flight;
}

double EngineModel::BufferMegabytes(const EngineShape& shape, int cap) const {
  if (!question_.sequence_parallel) return 0.0;
  int longest = 0;
  for (const OracleLayerRun& run : question_.runs) longest = std::max(longest, run.sequence_length);
  const double ranks = static_cast<double>(question_.device_count()) / shape.pipeline_degree;
  return static_cast<double>(shape.global_batch) / static_cast<double>(shape.chunks) /
         (ranks / cap) * question_.runs.front().hidden_size * longest * 2.0 / kMegabyte;
}

int EngineModel::UsableMegabytes() const {
  const int whole = static_cast<int>(1024.0 * question_.memory_gibibytes);
  constexpr double kWithoutReserve = 20.0;
  if (question_.memory_gibibytes <= kWithoutReserve) return whole;
  return whole - static_cast<int>(whole * 0.2);
}

}  // namespace parplan::oracle
