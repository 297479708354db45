#include "tests/server/core/core_fixture.h"

#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "proto/envelope/key_store.h"
#include "proto/wire/duration_wire.h"
#include "proto/wire/model_wire.h"
#include "proto/wire/rules_wire.h"
#include "proto/wire/topology_wire.h"
#include "tests/support/status_matchers.h"
#include "tests/support/test_folder.h"

namespace parplan {
namespace {

void AddLayer(const MeasuredLayer& layer, v1::Profile* profile) {
  const std::string& id = layer.definition.layer_definition_id;
  *profile->add_layer_definitions() = LayerDefinitionToProto(layer.definition);
  for (const LayerTimingPoint& point : layer.timings) {
    v1::LayerTiming& timing = *profile->add_layer_timings();
    timing.set_layer_definition_id(id);
    timing.set_tensor_parallel_degree(point.tensor_parallel_degree);
    timing.set_micro_batch_size(point.micro_batch_size);
    timing.set_sequence_length(point.sequence_length);
    *timing.mutable_forward_duration() = DurationToProto(point.forward);
    *timing.mutable_backward_duration() = DurationToProto(*point.backward);
  }
  for (const LayerMemoryPoint& point : layer.memories) {
    v1::LayerMemory& memory = *profile->add_layer_memories();
    memory.set_layer_definition_id(id);
    memory.set_tensor_parallel_degree(point.tensor_parallel_degree);
    memory.set_sequence_parallel(point.sequence_parallel);
    memory.set_sequence_length(point.sequence_length);
    memory.set_parameter_count(point.parameter_count);
    memory.set_activation_bytes_per_sample(point.activation_per_sample.count());
    memory.set_checkpoint_bytes_per_sample(point.checkpoint_per_sample->count());
  }
}

}  // namespace

v1::Profile SyntheticProfile(const SyntheticOptions& options) {
  const ProfileSnapshot::Content content = SyntheticProfileContent(options);
  v1::Profile profile;
  profile.mutable_provenance()->set_agent("core_test");
  profile.set_device_kind(content.device_kind);
  profile.set_devices_per_node(content.devices_per_node);
  profile.set_precision(PrecisionToProto(content.layers.front().precision));
  for (const MeasuredLayer& layer : content.layers) AddLayer(layer, &profile);
  for (const CollectivePoint& point : content.collectives) {
    v1::CollectiveTiming& timing = *profile.add_collective_timings();
    timing.set_collective(static_cast<v1::Collective>(point.collective));
    timing.set_participant_count(point.participant_count);
    timing.set_rank_stride(point.rank_stride);
    timing.set_message_size_bytes(point.message_size.count());
    *timing.mutable_median_duration() = DurationToProto(point.duration);
  }
  if (content.overlap_slowdown.has_value()) {
    profile.set_overlap_slowdown(*content.overlap_slowdown);
  }
  if (content.context_memory.has_value()) {
    profile.set_context_memory_bytes(content.context_memory->count());
  }
  if (content.communicator_memory.has_value()) {
    profile.set_communicator_memory_bytes(content.communicator_memory->count());
  }
  return profile;
}

v1::PlanSpec SyntheticSpec(const SyntheticOptions& options) {
  v1::PlanSpec spec;
  *spec.mutable_model() = ModelToProto(*SyntheticModel(options));
  *spec.mutable_topology() = TopologyToProto(*SyntheticTopology(options));
  spec.set_global_batch_size(options.global_batch_size);
  return spec;
}

std::string FactOf(const absl::Status& status, const std::string& key) {
  const std::optional<ErrorDetail> detail = GetErrorDetail(status);
  if (!detail.has_value()) return "";
  const auto found = detail->metadata.find(key);
  return found == detail->metadata.end() ? "" : found->second;
}

v1::PlanPayload PayloadOf(const v1::Plan& plan) {
  v1::PlanPayload payload;
  PARPLAN_CHECK(payload.ParseFromString(plan.signed_plan().payload()));
  return payload;
}

CoreTest::CoreTest() : key_folder_(MakeTestFolder()) {}

CoreTest::~CoreTest() {
  core_.reset();
  std::error_code unused;
  std::filesystem::remove_all(key_folder_, unused);
}

void CoreTest::Start(std::unique_ptr<MemoryStore> store) {
  core_.reset();
  store_ = store.get();
  core_ = MakeCore(std::move(store), nullptr);
}

void CoreTest::RevokeKeys() {
  absl::StatusOr<KeyStore> keys = KeyStore::Open(key_folder_, clock.Now());
  ASSERT_OK(keys);
  for (const KeyInfo& key : keys->List(clock.Now())) {
    ASSERT_OK(keys->Revoke(key.key_id, clock.Now()));
  }
  clock.Advance(KeyRing::kLookInterval);
}

void CoreTest::BlockKeys() {
  std::filesystem::remove_all(key_folder_ + "/keys");
  std::ofstream(key_folder_ + "/keys") << "in the way";
}

std::unique_ptr<ServerCore> CoreTest::MakeCore(std::unique_ptr<MemoryStore> store,
                                               std::unique_ptr<Turns> turns) {
  // Made some days ago, so that a clock that is set back finds a key it may use.
  absl::StatusOr<KeyStore> keys =
      KeyStore::OpenOrCreate(key_folder_, clock.Now() - absl::Hours(24 * 5));
  PARPLAN_CHECK(keys.ok());
  return std::make_unique<ServerCore>(
      std::move(store), std::make_unique<KeyRing>(*std::move(keys), clock.Now()), limits, clock,
      observer,
      [this](const PlanningProblem& problem, absl::string_view name, const SearchControl& control) {
        return planner(problem, name, control);
      },
      std::move(turns));
}

absl::StatusOr<v1::Profile> CoreTest::Upload(const v1::Profile& profile,
                                             const std::string& request_id,
                                             const std::string& node) {
  v1::UploadProfileRequest first;
  v1::UploadHeader& header = *first.mutable_header();
  header.set_parent(absl::StrCat("clusters/synthetic/nodes/", node));
  header.set_request_id(request_id);
  *header.mutable_provenance() = profile.provenance();
  header.set_device_kind(profile.device_kind());
  header.set_devices_per_node(profile.devices_per_node());
  header.set_precision(profile.precision());
  header.set_runtime_id(profile.runtime_id());
  if (profile.has_overlap_slowdown()) header.set_overlap_slowdown(profile.overlap_slowdown());
  if (profile.has_context_memory_bytes()) {
    header.set_context_memory_bytes(profile.context_memory_bytes());
  }
  if (profile.has_communicator_memory_bytes()) {
    header.set_communicator_memory_bytes(profile.communicator_memory_bytes());
  }
  v1::UploadProfileRequest second;
  v1::ProfilePiece& piece = *second.mutable_measurements();
  *piece.mutable_layer_definitions() = profile.layer_definitions();
  *piece.mutable_layer_timings() = profile.layer_timings();
  *piece.mutable_layer_memories() = profile.layer_memories();
  *piece.mutable_collective_timings() = profile.collective_timings();
  const std::unique_ptr<UploadSession> upload = core_->profiles().StartUpload();
  for (const v1::UploadProfileRequest& request : {first, second}) {
    const absl::Status added = upload->Add(request);
    if (!added.ok()) return added;
  }
  return upload->Finish();
}

void CoreTest::StartMeasured(const SyntheticOptions& options) {
  Start();
  const absl::StatusOr<v1::Profile> stored = Upload(SyntheticProfile(options), "first-upload");
  ASSERT_TRUE(stored.ok()) << stored.status();
}

v1::CreatePlanRequest CoreTest::Question(const SyntheticOptions& options) const {
  v1::CreatePlanRequest request;
  *request.mutable_spec() = SyntheticSpec(options);
  request.set_parent(absl::StrCat("clusters/", request.spec().topology().cluster()));
  return request;
}

absl::StatusOr<SharedPlan> CoreTest::Ask(const v1::CreatePlanRequest& request) {
  return AskLater(request, Call()).get();
}

std::future<absl::StatusOr<SharedPlan>> CoreTest::AskLater(
    const v1::CreatePlanRequest& request, const std::shared_ptr<CallContext>& context) {
  return AskLater(*core_, request, context);
}

std::future<absl::StatusOr<SharedPlan>> CoreTest::AskLater(
    ServerCore& core, const v1::CreatePlanRequest& request,
    const std::shared_ptr<CallContext>& context) {
  const auto answer = std::make_shared<std::promise<absl::StatusOr<SharedPlan>>>();
  std::future<absl::StatusOr<SharedPlan>> future = answer->get_future();
  core.plans().CreatePlan(context, request, [answer](absl::StatusOr<SharedPlan> plan) {
    answer->set_value(std::move(plan));
  });
  return future;
}

absl::StatusOr<SharedShape> CoreTest::AskShape(const v1::ShapePlanRequest& request) {
  const auto answer = std::make_shared<std::promise<absl::StatusOr<SharedShape>>>();
  std::future<absl::StatusOr<SharedShape>> future = answer->get_future();
  core_->shapes().ShapePlan(Call(), request, [answer](absl::StatusOr<SharedShape> shape) {
    answer->set_value(std::move(shape));
  });
  return future.get();
}

}  // namespace parplan
