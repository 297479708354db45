#include "executor/exec/exec_inputs.h"

#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/json/json_text.h"
#include "base/service/log/event_log.h"
#include "base/status_macros.h"
#include "clients/files/input_files.h"
#include "proto/envelope/trust_bundle.h"
#include "proto/envelope/verifier.h"
#include "proto/wire/digest.h"
#include "proto/wire/json_field.h"

namespace parplan {
namespace {

// Ids of this runtime in planner/model/runtime_traits.h: that of plans which name none, and as it
// runs on GPUs.
constexpr char kRuntimeId[] = "parplan";
constexpr char kOnGpusId[] = "parplan-exec";

// Reads, verifies and checks plan files.
class PlanReader {
 public:
  PlanReader(const ExecFlags& flags, TrustBundle trust, ModelSpec model, Topology topology,
             absl::Time now)
      : verifier_(std::move(trust)),
        model_(std::move(model)),
        topology_(std::move(topology)),
        takes_any_runtime_(flags.takes_any_runtime),
        runs_on_gpus_(flags.backend != "cpu"),
        now_(now) {
    expected_.cluster = topology_.cluster();
    expected_.job_id = flags.job_id;
    expected_.node_name = flags.node_name;
    expected_.topology_digest = TopologyDigest(topology_);
  }

  absl::StatusOr<CheckedPlan> Read(const std::string& path) const {
    PARPLAN_ASSIGN_OR_RETURN(const v1::SignedPlan envelope, ReadEnvelopeFile(path));
    PARPLAN_ASSIGN_OR_RETURN(const VerifiedPlan verified,
                             verifier_.Verify(envelope, expected_, now_));
    PARPLAN_RETURN_IF_ERROR(CheckRuntime(verified.payload().runtime_id()));
    if (runs_on_gpus_ && verified.payload().runtime_id() != kOnGpusId) {
      LogEvent("warning", "the plan was predicted for memory that this program does not have",
               {{"message", absl::StrCat("ask for plans for GPUs with --runtime ", kOnGpusId)}});
    }
    return CheckedPlan::Create(verified, model_, topology_);
  }

 private:
  // A prediction for another program does not hold for this one.
  absl::Status CheckRuntime(const std::string& runtime_id) const {
    if (takes_any_runtime_ || runtime_id.empty() || runtime_id == kRuntimeId ||
        runtime_id == kOnGpusId) {
      return absl::OkStatus();
    }
    return MakeError(absl::StatusCode::kFailedPrecondition, Reason::kSpecInvalid,
                     absl::StrCat("runtime_id: the plan was predicted for \"", runtime_id,
                                  "\", this program is \"", kRuntimeId,
                                  "\"; ask for a plan for it, or give --any-runtime"),
                     {{"field", "runtime_id"}});
  }

  const PlanVerifier verifier_;
  const ModelSpec model_;
  const Topology topology_;
  ExpectedAudience expected_;
  const bool takes_any_runtime_;
  const bool runs_on_gpus_;
  const absl::Time now_;
};

// Every rank holds the whole text; a corpus that is larger than this needs a data loader.
constexpr size_t kMaxTextBytes = size_t{8} << 30;

absl::StatusOr<std::unique_ptr<TokenSource>> MakeTokens(const ExecFlags& flags,
                                                        const ModelSpec& model) {
  const LayerDefinition& first = model.layer(0);
  if (flags.text.empty()) return MakeSyntheticTokens(first.vocabulary_size, flags.seed);
  PARPLAN_ASSIGN_OR_RETURN(std::string text, ReadInputFile(flags.text, kMaxTextBytes));
  return MakeTextTokens(std::move(text), first.sequence_length, first.vocabulary_size, flags.seed);
}

OptimizerSettings OptimizerOf(const ExecFlags& flags, const ModelSpec& model) {
  OptimizerSettings settings = SettingsOf(model.optimizer());
  if (flags.learning_rate > 0.0) {
    std::visit([&](auto& any) { any.learning_rate = flags.learning_rate; }, settings);
  }
  return settings;
}

absl::StatusOr<LinkShape> ParseShape(const JsonValue& object, const std::string& field) {
  if (object.type != JsonValue::Type::kObject) {
    return FieldError(Reason::kSpecInvalid, field, "must be an object");
  }
  LinkShape shape;
  for (const JsonValue& member : object.items) {
    const std::string path = absl::StrCat(field, ".", member.key);
    if (member.key != "bytes_per_second" && member.key != "latency_seconds") {
      return FieldError(Reason::kSpecInvalid, path,
                        "no such field; fields are bytes_per_second, latency_seconds");
    }
    const double number = JsonNumber(member).value_or(-1.0);
    if (!(number > 0.0) || number > 1e18) {
      return FieldError(Reason::kSpecInvalid, path, "must be a number above 0");
    }
    if (member.key == "bytes_per_second") {
      shape.bytes_per_second = number;
    } else {
      shape.latency = absl::Seconds(number);
    }
  }
  return shape;
}

}  // namespace

absl::StatusOr<std::function<LinkShape(int, int)>> ParseLinkShapes(absl::string_view json,
                                                                   const std::string& file_name) {
  PARPLAN_ASSIGN_OR_RETURN(const JsonValue object,
                           ReadJsonText(json, file_name, {.refuses_repeated_members = true}));
  if (object.type != JsonValue::Type::kObject) {
    return FieldError(Reason::kSpecInvalid, file_name, "must be a JSON object");
  }
  const std::set<std::string> known = {"ranks_per_node", "between_nodes", "within_node"};
  for (const JsonValue& member : object.items) {
    if (!known.contains(member.key)) {
      return FieldError(Reason::kSpecInvalid, absl::StrCat(file_name, ": ", member.key),
                        "no such field; fields are ranks_per_node, between_nodes, within_node");
    }
  }
  const std::string ranks_field = absl::StrCat(file_name, ": ranks_per_node");
  const JsonValue* const ranks = object.Find("ranks_per_node");
  if (ranks == nullptr || ranks->type != JsonValue::Type::kInteger) {
    return FieldError(Reason::kSpecInvalid, ranks_field, "must be a whole number");
  }
  const int64_t ranks_per_node = ranks->integer;
  if (ranks_per_node < 1) {
    return FieldError(Reason::kSpecInvalid, ranks_field, "must be at least 1");
  }
  LinkShape between;
  LinkShape within;
  for (const auto& [name, shape] :
       {std::pair("between_nodes", &between), std::pair("within_node", &within)}) {
    const JsonValue* const given = object.Find(name);
    if (given == nullptr) continue;
    PARPLAN_ASSIGN_OR_RETURN(*shape, ParseShape(*given, absl::StrCat(file_name, ": ", name)));
  }
  return [=](int from, int to) {
    return from / ranks_per_node == to / ranks_per_node ? within : between;
  };
}

absl::StatusOr<ExecInputs> ReadInputs(const ExecFlags& flags, absl::Time now) {
  PARPLAN_ASSIGN_OR_RETURN(TrustBundle trust, ReadTrustFile(flags.trust));
  PARPLAN_ASSIGN_OR_RETURN(const ModelSpec model, ReadModelFile(flags.model));
  PARPLAN_ASSIGN_OR_RETURN(const Topology topology, ReadTopologyFile(flags.topology));
  const PlanReader reader(flags, std::move(trust), model, topology, now);
  PARPLAN_ASSIGN_OR_RETURN(CheckedPlan plan, reader.Read(flags.plan));
  ExecInputs inputs = {.plan = std::move(plan), .optimizer = OptimizerOf(flags, model)};
  if (!flags.swap_to.empty()) {
    PARPLAN_ASSIGN_OR_RETURN(inputs.swap_to, reader.Read(flags.swap_to));
    if (flags.swap_at >= flags.steps) {
      return FieldError(Reason::kSpecInvalid, "--swap-at", "must be below --steps");
    }
  }
  PARPLAN_ASSIGN_OR_RETURN(inputs.tokens, MakeTokens(flags, model));
  if (!flags.shape_links.empty()) {
    PARPLAN_ASSIGN_OR_RETURN(const std::string text, ReadInputFile(flags.shape_links));
    PARPLAN_ASSIGN_OR_RETURN(inputs.shape, ParseLinkShapes(text, flags.shape_links));
  }
  return inputs;
}

}  // namespace parplan
