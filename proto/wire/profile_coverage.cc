#include "proto/wire/profile_coverage.h"

#include <cstdint>
#include <optional>

#include "proto/wire/digest.h"
#include "proto/wire/profile_selection.h"

namespace parplan {
namespace {

// The types of values in the wire format of Protobuf; groups are in no message of the contract.
constexpr uint64_t kVarint = 0;
constexpr uint64_t kFixed64 = 1;
constexpr uint64_t kLengthDelimited = 2;
constexpr uint64_t kFixed32 = 5;

// The messages whose fields are treated differently.
enum class Part { kProfile, kProvenance, kLayerTiming, kLayerMemory, kCollective, kOptimizer };

// The part of a field that is in the shape.
enum class Use { kNothing, kPresence, kContent };

Use UseOf(Part part, int field) {
  const auto keep_unless = [](bool is_value) { return is_value ? Use::kNothing : Use::kContent; };
  switch (part) {
    case Part::kProfile:
      if (field == v1::Profile::kOverlapSlowdownFieldNumber ||
          field == v1::Profile::kContextMemoryBytesFieldNumber ||
          field == v1::Profile::kCommunicatorMemoryBytesFieldNumber) {
        return Use::kPresence;
      }
      return keep_unless(field == v1::Profile::kNameFieldNumber ||
                         field == v1::Profile::kCreateTimeFieldNumber ||
                         field == v1::Profile::kDigestFieldNumber);
    case Part::kProvenance:
      return keep_unless(field != v1::Provenance::kLibraryVersionsFieldNumber);
    case Part::kLayerTiming:
      return keep_unless(field == v1::LayerTiming::kForwardDurationFieldNumber ||
                         field == v1::LayerTiming::kBackwardDurationFieldNumber ||
                         field == v1::LayerTiming::kForwardDurationP90FieldNumber ||
                         field == v1::LayerTiming::kSampleCountFieldNumber ||
                         field == v1::LayerTiming::kOriginFieldNumber);
    case Part::kLayerMemory:
      return keep_unless(field == v1::LayerMemory::kParameterCountFieldNumber ||
                         field == v1::LayerMemory::kActivationBytesPerSampleFieldNumber ||
                         field == v1::LayerMemory::kCheckpointBytesPerSampleFieldNumber ||
                         field == v1::LayerMemory::kOriginFieldNumber);
    case Part::kCollective:
      return keep_unless(field == v1::CollectiveTiming::kMedianDurationFieldNumber ||
                         field == v1::CollectiveTiming::kP90DurationFieldNumber ||
                         field == v1::CollectiveTiming::kSampleCountFieldNumber ||
                         field == v1::CollectiveTiming::kOriginFieldNumber);
    case Part::kOptimizer:
      return keep_unless(field == v1::OptimizerTiming::kMedianDurationFieldNumber ||
                         field == v1::OptimizerTiming::kP90DurationFieldNumber ||
                         field == v1::OptimizerTiming::kSampleCountFieldNumber ||
                         field == v1::OptimizerTiming::kOriginFieldNumber);
  }
  return Use::kContent;
}

// Returns the message in this field of a profile if its fields are treated differently.
std::optional<Part> PartIn(int field) {
  switch (field) {
    case v1::Profile::kProvenanceFieldNumber:
      return Part::kProvenance;
    case v1::Profile::kLayerTimingsFieldNumber:
      return Part::kLayerTiming;
    case v1::Profile::kLayerMemoriesFieldNumber:
      return Part::kLayerMemory;
    case v1::Profile::kCollectiveTimingsFieldNumber:
      return Part::kCollective;
    case v1::Profile::kOptimizerTimingsFieldNumber:
      return Part::kOptimizer;
    default:
      return std::nullopt;
  }
}

// Reads the fields of one message. Views into bytes that outlive it.
class FieldReader {
 public:
  explicit FieldReader(absl::string_view bytes)
      : next_(bytes.data()), end_(bytes.data() + bytes.size()) {}

  bool AtEnd() const { return next_ == end_; }
  // The first byte that was not read.
  const char* position() const { return next_; }

  // Reads the number and the type of the next field. Returns whether they are well formed.
  bool ReadTag(int& field, uint64_t& type) {
    uint64_t tag = 0;
    if (!ReadVarint(tag) || tag > UINT32_MAX) return false;
    field = static_cast<int>(tag >> 3);
    type = tag & 7;
    return field != 0;
  }

  // Reads a value; `payload` becomes what follows the length of one that has a length. Returns
  // whether it is well formed.
  bool ReadValue(uint64_t type, absl::string_view& payload) {
    uint64_t size = 0;
    if (type == kVarint) return ReadVarint(size);
    if (type == kFixed64) {
      size = 8;
    } else if (type == kFixed32) {
      size = 4;
    } else if (type != kLengthDelimited || !ReadVarint(size)) {
      return false;
    }
    if (size > static_cast<uint64_t>(end_ - next_)) return false;
    payload = absl::string_view(next_, static_cast<size_t>(size));
    next_ += size;
    return true;
  }

 private:
  bool ReadVarint(uint64_t& value) {
    value = 0;
    for (int shift = 0; shift < 64 && next_ != end_; shift += 7) {
      const auto byte = static_cast<unsigned char>(*next_++);
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return true;
    }
    return false;
  }

  const char* next_;
  const char* const end_;
};

// Appends the shape of a message and the tag 0, which no field has. Each tag is followed by a
// content that ends by itself, so that different messages have different texts. Returns false for
// malformed bytes.
bool AppendShape(Part part, absl::string_view bytes, std::string& shape) {
  FieldReader reader(bytes);
  // The first byte that was read and is not in `shape` yet.
  const char* pending = reader.position();
  const auto append_until = [&](const char* end) {
    shape.append(pending, static_cast<size_t>(end - pending));
  };
  while (!reader.AtEnd()) {
    const char* const begin = reader.position();
    int field = 0;
    uint64_t type = 0;
    absl::string_view payload;
    if (!reader.ReadTag(field, type)) return false;
    const char* const value = reader.position();
    if (!reader.ReadValue(type, payload)) return false;
    const Use use = UseOf(part, field);
    const std::optional<Part> inner =
        part == Part::kProfile && type == kLengthDelimited ? PartIn(field) : std::nullopt;
    if (use == Use::kContent && !inner.has_value()) continue;
    append_until(use == Use::kNothing ? begin : value);
    pending = reader.position();
    if (inner.has_value() && !AppendShape(*inner, payload, shape)) return false;
  }
  append_until(reader.position());
  shape.push_back('\0');
  return true;
}

}  // namespace

std::string ProfileCoverage(v1::Profile profile) {
  // Removes the values; whatever this does not know stays, and makes more coverages than needed.
  v1::Provenance compared;
  if (!profile.runtime_id().empty()) {
    for (const v1::LibraryVersion& library : profile.provenance().library_versions()) {
      if (RuntimeSelection::IsCompared(library)) *compared.add_library_versions() = library;
    }
  }
  *profile.mutable_provenance() = compared;
  if (profile.has_overlap_slowdown()) profile.set_overlap_slowdown(1);
  if (profile.has_context_memory_bytes()) profile.set_context_memory_bytes(1);
  if (profile.has_communicator_memory_bytes()) profile.set_communicator_memory_bytes(1);
  for (v1::LayerTiming& timing : *profile.mutable_layer_timings()) {
    timing.clear_forward_duration();
    timing.clear_backward_duration();
    timing.clear_forward_duration_p90();
    timing.clear_sample_count();
    timing.clear_origin();
  }
  for (v1::LayerMemory& memory : *profile.mutable_layer_memories()) {
    memory.clear_parameter_count();
    memory.clear_activation_bytes_per_sample();
    memory.clear_checkpoint_bytes_per_sample();
    memory.clear_origin();
  }
  for (v1::CollectiveTiming& timing : *profile.mutable_collective_timings()) {
    timing.clear_median_duration();
    timing.clear_p90_duration();
    timing.clear_sample_count();
    timing.clear_origin();
  }
  for (v1::OptimizerTiming& timing : *profile.mutable_optimizer_timings()) {
    timing.clear_median_duration();
    timing.clear_p90_duration();
    timing.clear_sample_count();
    timing.clear_origin();
  }
  return ProfileContentDigest(profile);
}

std::optional<std::string> StoredProfileShape(absl::string_view bytes) {
  std::string shape;
  shape.reserve(bytes.size());
  if (!AppendShape(Part::kProfile, bytes, shape)) return std::nullopt;
  return Sha256Hex(shape);
}

}  // namespace parplan
