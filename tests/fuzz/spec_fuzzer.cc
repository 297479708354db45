// Reads whatever comes as a question and as a plan: JSON as people write it,
// and messages as they arrive. The first byte picks. What is read can be written
// and read again.

#include <google/protobuf/stubs/logging.h>
#include <google/protobuf/util/message_differencer.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "parplan/v1/plan.pb.h"
#include "parplan/v1/profile.pb.h"
#include "proto/wire/digest.h"
#include "proto/wire/json_file.h"
#include "proto/wire/model_wire.h"
#include "proto/wire/plan_wire.h"
#include "proto/wire/problem_wire.h"
#include "proto/wire/rules_wire.h"
#include "proto/wire/topology_wire.h"
#include "tests/fuzz/message_mutator.h"
#include "tests/proto/wire/reverse_wire.h"

namespace parplan {
namespace {

// A snapshot of the node kind a spec asks for, so that its problem gets through.
absl::StatusOr<ProfileSnapshot> SnapshotFor(const v1::PlanSpec& spec) {
  ProfileSnapshot::Content content;
  content.device_kind = "GPU";
  content.devices_per_node = 8;
  if (!spec.topology().node_groups().empty()) {
    content.device_kind = spec.topology().node_groups(0).device_kind();
    content.devices_per_node = spec.topology().node_groups(0).devices_per_node();
  }
  return ProfileSnapshot::Create(std::move(content));
}

void ReadSpec(const v1::PlanSpec& spec) {
  const absl::StatusOr<ModelSpec> model = ModelFromProto(spec.model());
  if (model.ok()) {
    const absl::StatusOr<ModelSpec> again = ModelFromProto(ModelToProto(*model));
    PARPLAN_CHECK(again.ok() && *again == *model);
    PARPLAN_CHECK(ModelDigest(*again) == ModelDigest(*model));
  }
  const absl::StatusOr<Topology> topology = TopologyFromProto(spec.topology());
  if (topology.ok()) {
    const absl::StatusOr<Topology> again = TopologyFromProto(TopologyToProto(*topology));
    PARPLAN_CHECK(again.ok() && *again == *topology);
    PARPLAN_CHECK(TopologyDigest(*again) == TopologyDigest(*topology));
  }
  const absl::StatusOr<PlanningOptions> options = OptionsFromProto(spec.options());
  if (options.ok()) {
    const absl::StatusOr<PlanningOptions> again = OptionsFromProto(OptionsToProto(*options));
    PARPLAN_CHECK(again.ok() && *again == *options);
  }
  absl::StatusOr<ProfileSnapshot> snapshot = SnapshotFor(spec);
  if (!snapshot.ok()) return;
  const absl::StatusOr<AskedPlan> asked = AskedPlanFromProto(spec, "spec");
  PARPLAN_CHECK(asked.ok() == (model.ok() && topology.ok() && options.ok()));
  if (!asked.ok()) return;
  ProblemFor(*asked, {{{std::make_shared<const ProfileSnapshot>(*std::move(snapshot))}}}, "spec")
      .IgnoreError();
}

void ReadPayload(const v1::PlanPayload& payload) {
  ToReadableJson(payload);
  const absl::StatusOr<Plan> plan = PlanFromPayload(payload);
  if (plan.ok()) PARPLAN_CHECK(plan->device_count >= 1 && !PlanGist(*plan).empty());
  const absl::StatusOr<Prediction> prediction = PredictionFromProto(payload.prediction());
  if (prediction.ok()) {
    PARPLAN_CHECK(PredictionFromProto(PredictionToProto(*prediction)).ok());
  }
  const absl::StatusOr<SearchSummary> search = SearchSummaryFromProto(payload.search());
  if (search.ok()) PARPLAN_CHECK(SearchSummaryFromProto(SearchSummaryToProto(*search)).ok());
}

template <typename Message>
bool ReadJson(const std::string& text, Message* message) {
  if (!ParseJson(text, "file.json", message).ok()) return false;
  Message again;
  PARPLAN_CHECK(ParseJson(ToReadableJson(*message), "file.json", &again).ok());
  PARPLAN_CHECK(google::protobuf::util::MessageDifferencer::Equals(again, *message));
  return true;
}

}  // namespace
}  // namespace parplan

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  google::protobuf::SetLogHandler(nullptr);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string rest(reinterpret_cast<const char*>(data + 1), size - 1);
  switch (data[0] % 4) {
    case 0: {
      parplan::v1::PlanSpec spec;
      if (spec.ParseFromString(rest)) parplan::ReadSpec(spec);
      break;
    }
    case 1: {
      parplan::v1::PlanPayload payload;
      if (payload.ParseFromString(rest)) parplan::ReadPayload(payload);
      break;
    }
    case 2: {
      parplan::v1::PlanSpec spec;
      if (parplan::ReadJson(rest, &spec)) parplan::ReadSpec(spec);
      break;
    }
    default: {
      parplan::v1::Profile profile;
      parplan::ReadJson(rest, &profile);
      break;
    }
  }
  return 0;
}

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed) {
  static const auto& words =
      *new std::vector<std::string>{"", "decoder", "head", "GPU", "lab", "n0", "a\xff"};
  parplan::MessageMutator mutator(seed);
  if (size < 2 || max_size < 2 || data[0] % 4 > 1 || mutator.Draw(10) == 0) {
    return LLVMFuzzerMutate(data, size, max_size);
  }
  const size_t rest = data[0] % 4 == 0 ? parplan::MutateSerialized<parplan::v1::PlanSpec>(
                                             data + 1, size - 1, max_size - 1, words, mutator)
                                       : parplan::MutateSerialized<parplan::v1::PlanPayload>(
                                             data + 1, size - 1, max_size - 1, words, mutator);
  return rest == 0 ? 0 : rest + 1;
}
