#include "planner/model/recompute_modules.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/error.h"

namespace parplan {
namespace {

// The order of the enum.
constexpr std::array<absl::string_view, kRecomputeModuleCount> kModuleNames = {
    "core_attn", "moe_act", "layernorm", "mla_up_proj", "mlp", "moe", "shared_experts"};

RecomputeModule ModuleAt(int index) { return static_cast<RecomputeModule>(index + 1); }

}  // namespace

absl::string_view RecomputeModuleName(RecomputeModule module) {
  return kModuleNames[static_cast<size_t>(module) - 1];
}

std::optional<RecomputeModule> FindRecomputeModule(absl::string_view name) {
  for (int i = 0; i < kRecomputeModuleCount; ++i) {
    if (RecomputeModuleName(ModuleAt(i)) == name) return ModuleAt(i);
  }
  return std::nullopt;
}

bool HasRecomputeModule(const LayerDefinition& layer, RecomputeModule module) {
  if (!IsTransformer(layer.kind) || layer.kind == LayerKind::kOpaque) return false;
  switch (module) {
    case RecomputeModule::kCoreAttention:
      return HasAttention(layer.kind);
    case RecomputeModule::kExpertActivation:
    case RecomputeModule::kExperts:
      return layer.has_experts();
    case RecomputeModule::kNorms:
      return layer.has_experts() || layer.latent_attention.has_value();
    case RecomputeModule::kLatentUpProjection:
      return layer.latent_attention.has_value();
    case RecomputeModule::kFeedForward:
      return layer.has_feed_forward() && !layer.has_experts();
    case RecomputeModule::kSharedExperts:
      return layer.has_experts() && layer.shared_expert_feed_forward_size > 0;
  }
  return false;
}

absl::StatusOr<RecomputeModules> RecomputeModules::Create(absl::Span<const RecomputeModule> modules,
                                                          absl::string_view field) {
  uint8_t bits = 0;
  for (const RecomputeModule module : modules) {
    if ((bits & Bit(module)) != 0) {
      return FieldError(Reason::kSpecInvalid, field,
                        absl::StrCat("names `", RecomputeModuleName(module), "` twice"));
    }
    bits |= Bit(module);
  }
  if (bits == 0) return FieldError(Reason::kSpecInvalid, field, "must name a module");
  if (bits == Bit(RecomputeModule::kCoreAttention)) {
    return FieldError(Reason::kSpecInvalid, field,
                      "names attention alone, which is selective recomputation without modules");
  }
  return RecomputeModules(bits);
}

std::vector<RecomputeModule> RecomputeModules::Modules() const {
  std::vector<RecomputeModule> modules;
  for (int i = 0; i < kRecomputeModuleCount; ++i) {
    if (has(ModuleAt(i))) modules.push_back(ModuleAt(i));
  }
  return modules;
}

std::string RecomputeModules::ToString(absl::string_view separator) const {
  return absl::StrJoin(Modules(), separator, [](std::string* out, RecomputeModule module) {
    absl::StrAppend(out, RecomputeModuleName(module));
  });
}

std::vector<RecomputeModules> SearchedModuleSets(absl::Span<const LayerDefinition> layers,
                                                 bool with_attention) {
  using enum RecomputeModule;
  const auto has = [layers](RecomputeModule module) {
    return std::any_of(layers.begin(), layers.end(), [module](const LayerDefinition& layer) {
      return HasRecomputeModule(layer, module);
    });
  };
  std::vector<RecomputeModules> sets;
  const auto add = [&sets](const std::vector<RecomputeModule>& modules) {
    absl::StatusOr<RecomputeModules> set = RecomputeModules::Create(modules, "recompute_modules");
    PARPLAN_CHECK(set.ok());
    sets.push_back(*set);
  };
  const std::vector<RecomputeModule> cheapest = {kNorms, kExpertActivation, kLatentUpProjection};
  const std::vector<RecomputeModule> all = {kNorms, kLatentUpProjection, kFeedForward, kExperts};
  std::vector<RecomputeModule> before;
  for (const std::vector<RecomputeModule>& wanted : {cheapest, all}) {
    std::vector<RecomputeModule> modules;
    std::copy_if(wanted.begin(), wanted.end(), std::back_inserter(modules), has);
    if (modules.empty() || modules == before) continue;
    before = modules;
    add(modules);
    if (!with_attention || !has(kCoreAttention)) continue;
    modules.push_back(kCoreAttention);
    add(modules);
  }
  return sets;
}

}  // namespace parplan
