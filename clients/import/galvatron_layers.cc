#include "clients/import/galvatron_layers.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/wire/duration_wire.h"

namespace parplan {
namespace {

using Place = GalvatronOtherMemory::Place;

constexpr double kBytesPerMegabyte = 1024.0 * 1024.0;
constexpr double kSmallestShare = 0.01;
// Adam in mixed precision keeps 16 bytes a parameter: four times fp32.
constexpr double kStateBytesPerParameter = 16.0;

int64_t Count(double value) { return std::llround(std::clamp(value, 0.0, 9e18)); }
int64_t BytesOf(double megabytes) { return Count(megabytes * kBytesPerMegabyte); }

// The entry of `lengths` for a layer type; the definition's own when there is
// none.
int SequenceFor(const std::vector<int>& lengths, size_t type, const LayerDefinition& definition) {
  if (lengths.empty()) return definition.sequence_length;
  return lengths[std::min(type, lengths.size() - 1)];
}

// Operations of the head on one sample: on every token, or for images on the
// one token that is classified.
double HeadFlops(const LayersOfModel& model) {
  return ForwardFlopsPerSample(model.head(), model.image() ? 1 : model.head().sequence_length);
}

// Adds timings, each key once.
class TimingWriter {
 public:
  explicit TimingWriter(v1::Profile* profile) : profile_(profile) {}

  void Add(const LayerDefinition& layer, int batch, int sequence, double milliseconds,
           v1::Origin origin) {
    if (!(milliseconds >= 1e-6)) return;
    if (!seen_.insert({layer.layer_definition_id, sequence, batch}).second) return;
    v1::LayerTiming* timing = profile_->add_layer_timings();
    timing->set_layer_definition_id(layer.layer_definition_id);
    timing->set_tensor_parallel_degree(1);
    timing->set_micro_batch_size(batch);
    if (sequence != layer.sequence_length) timing->set_sequence_length(sequence);
    *timing->mutable_forward_duration() = DurationToProto(Seconds::Milliseconds(milliseconds));
    timing->set_origin(origin);
  }

 private:
  v1::Profile* profile_;
  std::set<std::tuple<std::string, int, int>> seen_;
};

// Embedding and head at the batches and lengths of the first layer type, by
// operations; for files that do not give their time.
void EstimateEnds(const GalvatronTimes& times, const LayersOfModel& model, double share,
                  TimingWriter* writer) {
  const LayerDefinition& layer = model.layer(0);
  for (const GalvatronLayerTime& time : times.layers) {
    if (time.layer_type != 0) continue;
    const int length = time.sequence_length == 0 ? layer.sequence_length : time.sequence_length;
    const double layer_flops = ForwardFlopsPerSample(layer, length);
    // The head grows with the sequence, the classifier of an image does not.
    const double stretch = static_cast<double>(length) / layer.sequence_length;
    const double ends = ForwardFlopsPerSample(model.embedding(), length) +
                        HeadFlops(model) * (model.image() ? 1.0 : stretch);
    const double both = time.milliseconds_per_sample * time.batch_size * ends / layer_flops;
    const int head_length = model.layer_type_count() == 1 ? length : model.head().sequence_length;
    writer->Add(model.embedding(), time.batch_size, length, both * share, v1::ORIGIN_ESTIMATED);
    writer->Add(model.head(), time.batch_size, head_length, both * (1.0 - share),
                v1::ORIGIN_ESTIMATED);
  }
}

// Adds memory points, each key once.
class MemoryWriter {
 public:
  explicit MemoryWriter(v1::Profile* profile) : profile_(profile) {}

  void Add(const LayerDefinition& layer, int degree, bool sequence_parallel, int sequence,
           double parameters, double activation_megabytes,
           std::optional<double> checkpoint_megabytes, v1::Origin origin) {
    const std::tuple<std::string, bool, int, int> key(layer.layer_definition_id, sequence_parallel,
                                                      sequence, degree);
    if (!seen_.insert(key).second) return;
    v1::LayerMemory* memory = profile_->add_layer_memories();
    memory->set_layer_definition_id(layer.layer_definition_id);
    memory->set_tensor_parallel_degree(degree);
    memory->set_sequence_parallel(sequence_parallel);
    if (sequence != layer.sequence_length) memory->set_sequence_length(sequence);
    memory->set_parameter_count(Count(parameters));
    memory->set_activation_bytes_per_sample(BytesOf(activation_megabytes));
    if (checkpoint_megabytes.has_value()) {
      memory->set_checkpoint_bytes_per_sample(BytesOf(*checkpoint_megabytes));
    }
    memory->set_origin(origin);
  }

 private:
  v1::Profile* profile_;
  std::set<std::tuple<std::string, bool, int, int>> seen_;
};

// Elements of the output of one sample, which is what a head or an embedding
// keeps for the backward pass.
double OutputElements(const LayerDefinition& layer, bool one_token) {
  const double width = layer.kind == LayerKind::kHead ? layer.vocabulary_size : layer.hidden_size;
  return width * (one_token ? 1.0 : layer.sequence_length);
}

}  // namespace

double EmbeddingTimeShare(const LayersOfModel& model) {
  const double embedding =
      ForwardFlopsPerSample(model.embedding(), model.embedding().sequence_length);
  const double both = embedding + HeadFlops(model);
  const double share = both > 0.0 ? embedding / both : kSmallestShare;
  return std::clamp(share, kSmallestShare, 1.0 - kSmallestShare);
}

void AddLayerTimings(const GalvatronTimes& times, const LayersOfModel& model, v1::Profile* profile,
                     std::vector<std::string>* notes) {
  TimingWriter writer(profile);
  for (const GalvatronLayerTime& time : times.layers) {
    if (time.layer_type >= model.layer_type_count()) continue;
    const LayerDefinition& layer = model.layer(time.layer_type);
    writer.Add(layer, time.batch_size,
               time.sequence_length == 0 ? layer.sequence_length : time.sequence_length,
               time.milliseconds_per_sample * time.batch_size,
               time.differenced ? v1::ORIGIN_DERIVED : v1::ORIGIN_MEASURED);
  }

  const double share = EmbeddingTimeShare(model);
  const std::string parts =
      absl::StrCat("embedding ", std::lround(share * 1000.0) / 10.0, " %, head ",
                   std::lround((1 - share) * 1000.0) / 10.0, " %");
  for (const GalvatronOtherTime& time : times.other) {
    const double both = time.milliseconds_per_sample * time.batch_size;
    const size_t last = static_cast<size_t>(model.layer_type_count()) - 1;
    writer.Add(model.embedding(), time.batch_size,
               SequenceFor(time.sequence_lengths, 0, model.embedding()), both * share,
               v1::ORIGIN_DERIVED);
    writer.Add(model.head(), time.batch_size,
               SequenceFor(time.sequence_lengths, last, model.head()), both * (1.0 - share),
               v1::ORIGIN_DERIVED);
  }
  if (times.other.empty()) {
    EstimateEnds(times, model, share, &writer);
    notes->push_back(absl::StrCat(
        "no time of embedding and head is in the file; estimated from that of a layer by "
        "operations and split by them, at least 1 % each: ",
        parts));
  } else {
    notes->push_back(absl::StrCat(
        "embedding and head were timed together; the time is split by operations, at least 1 % "
        "each (a table lookup has none): ",
        parts));
  }
}

void AddLayerMemories(const GalvatronMemory& memory, const LayersOfModel& model,
                      v1::Profile* profile, std::vector<std::string>* notes) {
  MemoryWriter writer(profile);
  for (const GalvatronLayerMemory& block : memory.layers) {
    if (block.layer_type >= model.layer_type_count()) continue;
    const LayerDefinition& layer = model.layer(block.layer_type);
    const int length = block.sequence_length == 0 ? layer.sequence_length : block.sequence_length;
    const double parameters = block.parameter_megabytes * kBytesPerMegabyte / 4.0;
    for (const auto& [degree, activation] : block.activation_megabytes) {
      std::optional<double> checkpoint = block.checkpoint_megabytes;
      if (checkpoint.has_value() && block.sequence_parallel) *checkpoint /= degree;
      writer.Add(layer, degree, block.sequence_parallel, length, parameters / degree, activation,
                 checkpoint, block.differenced ? v1::ORIGIN_DERIVED : v1::ORIGIN_MEASURED);
    }
  }

  const auto add_end = [&](const LayerDefinition& layer, const GalvatronOtherMemory& block,
                           double state_share, double activation_share, v1::Origin origin) {
    const size_t type =
        layer.kind == LayerKind::kHead ? static_cast<size_t>(model.layer_type_count()) - 1 : 0;
    const int length = SequenceFor(block.sequence_lengths, type, layer);
    for (const auto& [degree, states] : block.state_megabytes) {
      const auto activation = block.activation_megabytes.find(degree);
      if (activation == block.activation_megabytes.end()) continue;
      writer.Add(layer, degree, block.sequence_parallel, length,
                 states * kBytesPerMegabyte / kStateBytesPerParameter * state_share,
                 activation->second * activation_share, std::nullopt, origin);
    }
  };
  for (const GalvatronOtherMemory& block : memory.other) {
    if (block.place == Place::kBoth) continue;
    add_end(block.place == Place::kEmbedding ? model.embedding() : model.head(), block, 1.0, 1.0,
            block.differenced ? v1::ORIGIN_DERIVED : v1::ORIGIN_MEASURED);
  }
  // Degrees that were measured without a pipeline only: one number for both.
  const int before = profile->layer_memories_size();
  const double parameters = static_cast<double>(model.embedding().parameter_count) +
                            static_cast<double>(model.head().parameter_count);
  const double state_share =
      parameters > 0.0 ? static_cast<double>(model.embedding().parameter_count) / parameters : 0.5;
  const double embedding_output = OutputElements(model.embedding(), false);
  const double activation_share =
      embedding_output / (embedding_output + OutputElements(model.head(), model.image()));
  for (const GalvatronOtherMemory& block : memory.other) {
    if (block.place != Place::kBoth) continue;
    add_end(model.embedding(), block, state_share, activation_share, v1::ORIGIN_DERIVED);
    add_end(model.head(), block, 1.0 - state_share, 1.0 - activation_share, v1::ORIGIN_DERIVED);
  }
  if (profile->layer_memories_size() > before) {
    notes->push_back(
        "memory of embedding and head that was measured together is split, states by parameters, "
        "activations by the size of their outputs");
  }
}

}  // namespace parplan
