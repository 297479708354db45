#include "proto/wire/profile_coverage.h"

#include <algorithm>
#include <cstdint>
#include <memory>
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

constexpr uint64_t Bit(int field) { return uint64_t{1} << field; }

// The fields of a message that are not in its shape with their contents; bit n stands for field n.
struct FieldUses {
  // Fields that are not there at all, and those of which only the presence is.
  uint64_t left_out = 0;
  uint64_t presence = 0;
  // Whether fields from 64 on are left out.
  bool leaves_out_others = false;
};

constexpr FieldUses UsesOf(Part part) {
  switch (part) {
    case Part::kProfile:
      return {.left_out = Bit(v1::Profile::kNameFieldNumber) |
                          Bit(v1::Profile::kCreateTimeFieldNumber) |
                          Bit(v1::Profile::kDigestFieldNumber),
              .presence = Bit(v1::Profile::kOverlapSlowdownFieldNumber) |
                          Bit(v1::Profile::kContextMemoryBytesFieldNumber) |
                          Bit(v1::Profile::kCommunicatorMemoryBytesFieldNumber)};
    case Part::kProvenance:
      return {.left_out = ~Bit(v1::Provenance::kLibraryVersionsFieldNumber),
              .leaves_out_others = true};
    case Part::kLayerTiming:
      return {.left_out = Bit(v1::LayerTiming::kForwardDurationFieldNumber) |
                          Bit(v1::LayerTiming::kBackwardDurationFieldNumber) |
                          Bit(v1::LayerTiming::kForwardDurationP90FieldNumber) |
                          Bit(v1::LayerTiming::kSampleCountFieldNumber) |
                          Bit(v1::LayerTiming::kOriginFieldNumber)};
    case Part::kLayerMemory:
      return {.left_out = Bit(v1::LayerMemory::kParameterCountFieldNumber) |
                          Bit(v1::LayerMemory::kActivationBytesPerSampleFieldNumber) |
                          Bit(v1::LayerMemory::kCheckpointBytesPerSampleFieldNumber) |
                          Bit(v1::LayerMemory::kOriginFieldNumber)};
    case Part::kCollective:
      return {.left_out = Bit(v1::CollectiveTiming::kMedianDurationFieldNumber) |
                          Bit(v1::CollectiveTiming::kP90DurationFieldNumber) |
                          Bit(v1::CollectiveTiming::kSampleCountFieldNumber) |
                          Bit(v1::CollectiveTiming::kOriginFieldNumber)};
    case Part::kOptimizer:
      return {.left_out = Bit(v1::OptimizerTiming::kMedianDurationFieldNumber) |
                          Bit(v1::OptimizerTiming::kP90DurationFieldNumber) |
                          Bit(v1::OptimizerTiming::kSampleCountFieldNumber) |
                          Bit(v1::OptimizerTiming::kOriginFieldNumber)};
  }
  return {};
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
    // Most tags, lengths and numbers have one byte.
    if (next_ != end_ && static_cast<unsigned char>(*next_) < 0x80) {
      value = static_cast<unsigned char>(*next_++);
      return true;
    }
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

// `WriteShape` of a message in a profile.
bool WriteShapeOf(Part part, absl::string_view bytes, char*& end);

// Writes the shape of a message and the tag 0, which no field has, to `end` and moves that. Each
// tag is followed by a content that ends by itself, so that different messages have different
// texts. Writes at most one byte more than the message has: of a message in it the length is left
// out. Returns false for malformed bytes.
template <Part part>
bool WriteShape(absl::string_view bytes, char*& end) {
  constexpr FieldUses kUses = UsesOf(part);
  FieldReader reader(bytes);
  // The first byte that was read and is not in the shape yet.
  const char* pending = reader.position();
  const auto write_until = [&pending, &end](const char* last) {
    end = std::copy(pending, last, end);
  };
  while (!reader.AtEnd()) {
    const char* const begin = reader.position();
    int field = 0;
    uint64_t type = 0;
    absl::string_view payload;
    if (!reader.ReadTag(field, type)) return false;
    const char* const value = reader.position();
    if (!reader.ReadValue(type, payload)) return false;
    const uint64_t bit = field < 64 ? Bit(field) : 0;
    const bool is_left_out = bit == 0 ? kUses.leaves_out_others : (kUses.left_out & bit) != 0;
    std::optional<Part> inner;
    if constexpr (part == Part::kProfile) {
      if (type == kLengthDelimited) inner = PartIn(field);
    }
    if (!is_left_out && (kUses.presence & bit) == 0 && !inner.has_value()) continue;
    write_until(is_left_out ? begin : value);
    pending = reader.position();
    if constexpr (part == Part::kProfile) {
      if (inner.has_value() && !WriteShapeOf(*inner, payload, end)) return false;
    }
  }
  write_until(reader.position());
  *end++ = '\0';
  return true;
}

bool WriteShapeOf(Part part, absl::string_view bytes, char*& end) {
  switch (part) {
    case Part::kProfile:
      return false;
    case Part::kProvenance:
      return WriteShape<Part::kProvenance>(bytes, end);
    case Part::kLayerTiming:
      return WriteShape<Part::kLayerTiming>(bytes, end);
    case Part::kLayerMemory:
      return WriteShape<Part::kLayerMemory>(bytes, end);
    case Part::kCollective:
      return WriteShape<Part::kCollective>(bytes, end);
    case Part::kOptimizer:
      return WriteShape<Part::kOptimizer>(bytes, end);
  }
  return false;
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
  // Not set to zero before it is written.
  const std::unique_ptr<char[]> shape(new char[bytes.size() + 1]);
  char* end = shape.get();
  if (!WriteShape<Part::kProfile>(bytes, end)) return std::nullopt;
  return Sha256Hex(absl::string_view(shape.get(), static_cast<size_t>(end - shape.get())));
}

}  // namespace parplan
