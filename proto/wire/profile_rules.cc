// The rules of profile.proto, in the order of its fields; declared in
// profile_wire.h.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "proto/wire/digest.h"
#include "proto/wire/duration_wire.h"
#include "proto/wire/enum_wire.h"
#include "proto/wire/field_path.h"
#include "proto/wire/model_wire.h"
#include "proto/wire/profile_wire.h"

namespace parplan {
namespace {

static_assert(v1::Origin_MAX == static_cast<int>(Origin::kEstimated));
static_assert(v1::Collective_MAX == static_cast<int>(Collective::kBroadcast));

constexpr int kReportedErrors = 10;

// Larger than the memory of one layer on any device, and small enough that sums are exact.
constexpr int64_t kLargestSize = int64_t{1} << 44;
constexpr char kSizeRule[] = "must be 0 to 2^44";
// Other ids have the same limit.
constexpr size_t kLongestRuntimeId = 63;
constexpr Seconds kLongestTime = Seconds::Of(3600.0);

bool IsSize(int64_t size) { return size >= 0 && size <= kLargestSize; }

// Collects broken rules, with messages for the first kReportedErrors of them.
class Findings {
 public:
  void Add(const std::string& field, absl::string_view rule) {
    AddStatus(FieldError(Reason::kProfileInvalid, field, rule));
  }

  void AddStatus(const absl::Status& status) {
    if (status.ok()) return;
    ++count_;
    if (count_ > kReportedErrors) return;
    if (count_ == 1) first_ = status;
    lines_.emplace_back(status.message());
  }

  void Require(bool holds, const std::string& field, absl::string_view rule) {
    if (!holds) Add(field, rule);
  }

  absl::Status ToStatus() const {
    if (count_ == 0) return absl::OkStatus();
    std::string message = absl::StrJoin(lines_, "\n");
    if (count_ > kReportedErrors) {
      absl::StrAppend(&message, "\nand ", count_ - kReportedErrors, " more");
    }
    const std::optional<ErrorDetail> detail = GetErrorDetail(first_);
    return MakeError(absl::StatusCode::kInvalidArgument, Reason::kProfileInvalid, message,
                     detail->metadata);
  }

 private:
  int64_t count_ = 0;
  absl::Status first_;
  std::vector<std::string> lines_;
};

// A definition of the profile: the key of its layer, and its tokens per sample.
struct KnownLayer {
  std::string digest;
  int sequence_length = 0;
};

class ProfileRules {
 public:
  ProfileRules(const v1::Profile& profile, absl::string_view field)
      : profile_(profile), field_(field) {}

  absl::Status Check() {
    CheckProvenance();
    Require(!profile_.device_kind().empty(), "device_kind", "required");
    Require(profile_.devices_per_node() >= 1, "devices_per_node", "must be at least 1");
    Require(profile_.runtime_id().size() <= kLongestRuntimeId, "runtime_id",
            "must have at most 63 bytes");
    CheckPrecision();
    CheckDefinitions();
    for (int i = 0; i < profile_.layer_timings_size(); ++i) CheckLayerTiming(i);
    for (int i = 0; i < profile_.layer_memories_size(); ++i) CheckLayerMemory(i);
    for (int i = 0; i < profile_.collective_timings_size(); ++i) CheckCollectiveTiming(i);
    for (int i = 0; i < profile_.optimizer_timings_size(); ++i) CheckOptimizerTiming(i);
    if (profile_.has_overlap_slowdown()) {
      Require(std::isfinite(profile_.overlap_slowdown()) && profile_.overlap_slowdown() >= 1,
              "overlap_slowdown", "must be at least 1.0");
    }
    if (profile_.has_context_memory_bytes()) {
      Require(IsSize(profile_.context_memory_bytes()), "context_memory_bytes", kSizeRule);
    }
    if (profile_.has_communicator_memory_bytes()) {
      Require(IsSize(profile_.communicator_memory_bytes()), "communicator_memory_bytes", kSizeRule);
      Require(profile_.has_context_memory_bytes(), "communicator_memory_bytes",
              "needs context_memory_bytes, of which it is no part");
    }
    return findings_.ToStatus();
  }

 private:
  void Require(bool holds, absl::string_view name, absl::string_view rule) {
    findings_.Require(holds, JoinPath(field_, name), rule);
  }

  void CheckProvenance() {
    if (!profile_.has_provenance()) {
      Require(false, "provenance", "required: say at least which agent measured");
      return;
    }
    const v1::Provenance& provenance = profile_.provenance();
    Require(!provenance.agent().empty(), "provenance.agent",
            "required: the program and release that measured");
    if (provenance.has_measure_time()) {
      findings_.AddStatus(TimestampFromProto(provenance.measure_time(),
                                             JoinPath(field_, "provenance.measure_time"),
                                             Reason::kProfileInvalid)
                              .status());
    }
  }

  void CheckPrecision() {
    const bool has_layers = !profile_.layer_timings().empty() ||
                            !profile_.layer_memories().empty() ||
                            !profile_.optimizer_timings().empty();
    if (profile_.precision() == v1::PRECISION_UNSPECIFIED && !has_layers) return;
    findings_.AddStatus(PrecisionFromProto(profile_.precision(), JoinPath(field_, "precision"),
                                           Reason::kProfileInvalid)
                            .status());
  }

  void CheckDefinitions() {
    for (int i = 0; i < profile_.layer_definitions_size(); ++i) {
      const std::string path = JoinPath(field_, "layer_definitions", i);
      absl::StatusOr<LayerDefinition> definition =
          LayerDefinitionFromProto(profile_.layer_definitions(i), path, Reason::kProfileInvalid);
      const std::string& id = profile_.layer_definitions(i).layer_definition_id();
      KnownLayer known;
      if (definition.ok()) {
        // All layers of a profile have its precision, so it does not matter here.
        known = {LayerDigest(*definition, Precision::kFp32), definition->sequence_length};
      } else {
        findings_.AddStatus(definition.status());
        // References to it are not reported as a second error.
        known = {absl::StrCat("#", i), 0};
      }
      if (!layers_.emplace(id, std::move(known)).second) {
        findings_.Add(JoinPath(path, "layer_definition_id"),
                      absl::StrCat("`", id, "` is the id of another definition too"));
      }
    }
  }

  // Returns the layer that an entry refers to; null, after reporting it, if there is none.
  const KnownLayer* FindLayer(const std::string& path, const std::string& id) {
    const auto found = layers_.find(id);
    if (found != layers_.end()) return &found->second;
    findings_.Add(JoinPath(path, "layer_definition_id"),
                  absl::StrCat("no entry of layer_definitions has the id `", id, "`"));
    return nullptr;
  }

  // Returns a time that must be set and above 0; 0 if it is not valid.
  Seconds CheckTime(bool present, const google::protobuf::Duration& duration,
                    const std::string& path) {
    if (!present) {
      findings_.Add(path, "required");
      return Seconds();
    }
    const absl::StatusOr<Seconds> seconds =
        SecondsFromProto(duration, path, Reason::kProfileInvalid);
    if (!seconds.ok()) {
      findings_.AddStatus(seconds.status());
      return Seconds();
    }
    findings_.Require(*seconds > Seconds() && *seconds <= kLongestTime, path,
                      "must be above 0 and at most an hour");
    return *seconds;
  }

  void CheckPercentile(bool present, const google::protobuf::Duration& duration, Seconds median,
                       const std::string& path) {
    if (!present) return;
    const Seconds percentile = CheckTime(present, duration, path);
    findings_.Require(percentile >= median, path, "must not be below the median");
  }

  void CheckSamples(int sample_count, v1::Origin origin, const std::string& path) {
    findings_.Require(sample_count >= 0, JoinPath(path, "sample_count"), "must not be negative");
    if (origin != v1::ORIGIN_UNSPECIFIED) {
      findings_.AddStatus(
          EnumFromProto<Origin>(origin, JoinPath(path, "origin"), Reason::kProfileInvalid)
              .status());
    }
  }

  void CheckLayerTiming(int index) {
    const v1::LayerTiming& timing = profile_.layer_timings(index);
    const std::string path = JoinPath(field_, "layer_timings", index);
    const KnownLayer* layer = FindLayer(path, timing.layer_definition_id());
    findings_.Require(timing.tensor_parallel_degree() >= 1,
                      JoinPath(path, "tensor_parallel_degree"), "must be at least 1");
    findings_.Require(timing.micro_batch_size() >= 1, JoinPath(path, "micro_batch_size"),
                      "must be at least 1");
    findings_.Require(timing.sequence_length() >= 0, JoinPath(path, "sequence_length"),
                      "must not be negative");
    const Seconds forward = CheckTime(timing.has_forward_duration(), timing.forward_duration(),
                                      JoinPath(path, "forward_duration"));
    if (timing.has_backward_duration()) {
      CheckTime(true, timing.backward_duration(), JoinPath(path, "backward_duration"));
    }
    CheckPercentile(timing.has_forward_duration_p90(), timing.forward_duration_p90(), forward,
                    JoinPath(path, "forward_duration_p90"));
    CheckSamples(timing.sample_count(), timing.origin(), path);
    if (layer == nullptr) return;
    const auto key = std::make_tuple(layer->digest, timing.tensor_parallel_degree(),
                                     SequenceLength(*layer, timing.sequence_length()),
                                     timing.micro_batch_size());
    findings_.Require(timing_keys_.insert(key).second, path,
                      "this layer, degree, micro-batch size and sequence length was timed "
                      "by an entry before; keep one");
  }

  void CheckLayerMemory(int index) {
    const v1::LayerMemory& memory = profile_.layer_memories(index);
    const std::string path = JoinPath(field_, "layer_memories", index);
    const KnownLayer* layer = FindLayer(path, memory.layer_definition_id());
    findings_.Require(memory.tensor_parallel_degree() >= 1,
                      JoinPath(path, "tensor_parallel_degree"), "must be at least 1");
    findings_.Require(memory.sequence_length() >= 0, JoinPath(path, "sequence_length"),
                      "must not be negative");
    findings_.Require(IsSize(memory.parameter_count()), JoinPath(path, "parameter_count"),
                      kSizeRule);
    findings_.Require(IsSize(memory.activation_bytes_per_sample()),
                      JoinPath(path, "activation_bytes_per_sample"), kSizeRule);
    findings_.Require(IsSize(memory.checkpoint_bytes_per_sample()),
                      JoinPath(path, "checkpoint_bytes_per_sample"), kSizeRule);
    CheckSamples(0, memory.origin(), path);
    if (layer == nullptr) return;
    const auto key = std::make_tuple(layer->digest, memory.tensor_parallel_degree(),
                                     SequenceLength(*layer, memory.sequence_length()),
                                     memory.sequence_parallel());
    findings_.Require(memory_keys_.insert(key).second, path,
                      "the memory of this layer, degree, sequence_parallel and sequence length "
                      "was given by an entry before; keep one");
  }

  void CheckCollectiveTiming(int index) {
    const v1::CollectiveTiming& timing = profile_.collective_timings(index);
    const std::string path = JoinPath(field_, "collective_timings", index);
    findings_.AddStatus(EnumFromProto<Collective>(timing.collective(), JoinPath(path, "collective"),
                                                  Reason::kProfileInvalid)
                            .status());
    const std::string participants = JoinPath(path, "participant_count");
    findings_.Require(timing.participant_count() >= 2, participants, "must be at least 2");
    findings_.Require(
        timing.collective() != v1::COLLECTIVE_SEND_RECEIVE || timing.participant_count() <= 2,
        participants, "must be 2 for COLLECTIVE_SEND_RECEIVE");
    findings_.Require(timing.rank_stride() >= 1, JoinPath(path, "rank_stride"),
                      "must be at least 1");
    findings_.Require(timing.message_size_bytes() > 0, JoinPath(path, "message_size_bytes"),
                      "must be above 0");
    const Seconds median = CheckTime(timing.has_median_duration(), timing.median_duration(),
                                     JoinPath(path, "median_duration"));
    CheckPercentile(timing.has_p90_duration(), timing.p90_duration(), median,
                    JoinPath(path, "p90_duration"));
    CheckSamples(timing.sample_count(), timing.origin(), path);
    const auto key =
        std::make_tuple(static_cast<int>(timing.collective()), timing.participant_count(),
                        timing.rank_stride(), timing.message_size_bytes());
    findings_.Require(collective_keys_.insert(key).second, path,
                      "this collective, participant count, stride and size was timed by an "
                      "entry before; keep one");
  }

  void CheckOptimizerTiming(int index) {
    const v1::OptimizerTiming& timing = profile_.optimizer_timings(index);
    const std::string path = JoinPath(field_, "optimizer_timings", index);
    findings_.AddStatus(EnumFromProto<Optimizer>(timing.optimizer(), JoinPath(path, "optimizer"),
                                                 Reason::kProfileInvalid)
                            .status());
    findings_.Require(timing.parameter_count() >= 1 && IsSize(timing.parameter_count()),
                      JoinPath(path, "parameter_count"), "must be 1 to 2^44");
    const Seconds median = CheckTime(timing.has_median_duration(), timing.median_duration(),
                                     JoinPath(path, "median_duration"));
    CheckPercentile(timing.has_p90_duration(), timing.p90_duration(), median,
                    JoinPath(path, "p90_duration"));
    CheckSamples(timing.sample_count(), timing.origin(), path);
    const auto key = std::make_pair(static_cast<int>(timing.optimizer()), timing.parameter_count());
    findings_.Require(optimizer_keys_.insert(key).second, path,
                      "this optimizer and parameter count was timed by an entry before; keep one");
  }

  static int SequenceLength(const KnownLayer& layer, int given) {
    return given == 0 ? layer.sequence_length : given;
  }

  const v1::Profile& profile_;
  const std::string field_;
  Findings findings_;
  std::map<std::string, KnownLayer> layers_;
  std::set<std::tuple<std::string, int, int, int>> timing_keys_;
  std::set<std::tuple<std::string, int, int, bool>> memory_keys_;
  std::set<std::tuple<int, int, int, int64_t>> collective_keys_;
  std::set<std::pair<int, int64_t>> optimizer_keys_;
};

}  // namespace

absl::Status ValidateProfile(const v1::Profile& profile, absl::string_view field) {
  return ProfileRules(profile, field).Check();
}

}  // namespace parplan
