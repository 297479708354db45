#include "proto/wire/profile_coverage.h"

#include "proto/wire/digest.h"
#include "proto/wire/profile_selection.h"

namespace parplan {

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

}  // namespace parplan
