// Reads whatever comes as a profile. What passes its rules merges, in any order
// of uploads, and keeps its name.

#include <google/protobuf/stubs/logging.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "parplan/v1/profile.pb.h"
#include "proto/wire/digest.h"
#include "proto/wire/json_file.h"
#include "proto/wire/part_of_node.h"
#include "proto/wire/profile_wire.h"
#include "tests/fuzz/message_mutator.h"

namespace parplan {
namespace {

// So many measurements make one input slow and no input stranger.
constexpr int kMaxEntries = 200;

void ReadProfile(const v1::Profile& profile) {
  PARPLAN_CHECK(ProfileContentDigest(profile).size() == 64);
  ToReadableJson(profile);
  const absl::Status status = ValidateProfile(profile);
  // Without a runtime it holds for all.
  v1::Profile upload = profile;
  upload.clear_runtime_id();
  const std::vector<const v1::Profile*> once = {&upload};
  const absl::StatusOr<ProfileSnapshot> snapshot =
      SnapshotOfNodes(once, profile.device_kind(), profile.devices_per_node(), "");
  if (!status.ok()) {
    PARPLAN_CHECK(GetErrorDetail(status)->reason == Reason::kProfileInvalid);
    return;
  }
  PARPLAN_CHECK(snapshot.ok());
  const std::vector<const v1::Profile*> twice = {&upload, &upload};
  const absl::StatusOr<ProfileSnapshot> again =
      SnapshotOfNodes(twice, profile.device_kind(), profile.devices_per_node(), "");
  PARPLAN_CHECK(again.ok() && again->digest() == snapshot->digest());
}

}  // namespace
}  // namespace parplan

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  google::protobuf::SetLogHandler(nullptr);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  parplan::v1::Profile profile;
  if (!profile.ParseFromArray(data, static_cast<int>(size))) return 0;
  if (profile.layer_definitions_size() + profile.layer_timings_size() +
          profile.layer_memories_size() + profile.collective_timings_size() >
      parplan::kMaxEntries) {
    return 0;
  }
  parplan::ReadProfile(profile);
  return 0;
}

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed) {
  static const auto& words = *new std::vector<std::string>{"", "decoder", "head", "GPU", "a\xff"};
  parplan::MessageMutator mutator(seed);
  if (mutator.Draw(10) == 0) return LLVMFuzzerMutate(data, size, max_size);
  return parplan::MutateSerialized<parplan::v1::Profile>(data, size, max_size, words, mutator);
}
