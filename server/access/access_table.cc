#include "server/access/access_table.h"

#include <cstddef>
#include <map>

#include "absl/strings/str_cat.h"

namespace parplan {
namespace {

constexpr Access kNo = Access::kNone;
constexpr Access kOwn = Access::kOwn;
constexpr Access kAny = Access::kAny;

constexpr AccessRow Row(absl::string_view service, absl::string_view method, bool changes,
                        Access agent, Access planner, Access executor, Access reader,
                        Access operator_access) {
  return {service,
          method,
          changes,
          /*is_public=*/false,
          {agent, planner, executor, reader, operator_access}};
}

constexpr bool kChanges = true;
constexpr bool kReads = false;

// clang-format off
constexpr AccessRow kRows[] = {
    //                                                         agent, planner, executor, reader, op.
    Row("AgentService", "ConnectAgent", kChanges,               kOwn, kNo,  kNo,  kNo,  kNo),
    Row("AgentService", "ListAgents", kReads,                   kNo,  kNo,  kNo,  kAny, kAny),
    Row("CalibrationService", "UploadCalibration", kChanges,    kNo,  kNo,  kNo,  kNo,  kAny),
    Row("CalibrationService", "GetCalibration", kReads,         kNo,  kNo,  kNo,  kAny, kAny),
    Row("CalibrationService", "ListCalibrations", kReads,       kNo,  kNo,  kNo,  kAny, kAny),
    Row("CalibrationService", "ActivateCalibration", kChanges,  kNo,  kNo,  kNo,  kNo,  kAny),
    Row("CalibrationService", "GetActiveCalibration", kReads,   kNo,  kNo,  kNo,  kAny, kAny),
    Row("ExecutionService", "CreateExecution", kChanges,        kNo,  kNo,  kOwn, kNo,  kAny),
    Row("ExecutionService", "ReportMetrics", kChanges,          kNo,  kNo,  kOwn, kNo,  kAny),
    Row("ExecutionService", "CompleteExecution", kChanges,      kNo,  kOwn, kOwn, kNo,  kAny),
    Row("ExecutionService", "FailExecution", kChanges,          kNo,  kOwn, kOwn, kNo,  kAny),
    Row("ExecutionService", "GetExecution", kReads,             kNo,  kOwn, kOwn, kAny, kAny),
    Row("ExecutionService", "ListExecutions", kReads,           kNo,  kOwn, kOwn, kAny, kAny),
    Row("PlanService", "ShapePlan", kReads,                     kNo,  kAny, kNo,  kNo,  kAny),
    Row("PlanService", "CreatePlan", kChanges,                  kNo,  kOwn, kOwn, kNo,  kAny),
    Row("PlanService", "SearchPlan", kChanges,                  kNo,  kOwn, kOwn, kNo,  kAny),
    Row("PlanService", "GetPlan", kReads,                       kNo,  kOwn, kOwn, kAny, kAny),
    Row("PlanService", "ListPlans", kReads,                     kNo,  kOwn, kOwn, kAny, kAny),
    Row("PlanService", "VerifyPlan", kReads,                    kAny, kAny, kAny, kAny, kAny),
    Row("PlanService", "ExportPlan", kReads,                    kNo,  kOwn, kOwn, kAny, kAny),
    {"PlanService", "GetCapabilities", kReads, /*is_public=*/true, {}},
    Row("ProfileService", "UploadProfile", kChanges,            kOwn, kNo,  kNo,  kNo,  kAny),
    Row("ProfileService", "GetProfile", kReads,                 kOwn, kNo,  kNo,  kAny, kAny),
    Row("ProfileService", "ListProfiles", kReads,               kOwn, kNo,  kNo,  kAny, kAny),
    Row("ProfileService", "DeleteProfile", kChanges,            kNo,  kNo,  kNo,  kNo,  kAny),
};
// clang-format on

constexpr absl::string_view kRoleNames[kRoleCount] = {"agent", "planner", "executor", "reader",
                                                      "operator"};

absl::string_view CellText(Access access) {
  switch (access) {
    case Access::kNone:
      return "–";
    case Access::kOwn:
      return "own";
    case Access::kAny:
      return "any";
  }
  return "";
}

}  // namespace

absl::string_view RoleName(Role role) { return kRoleNames[static_cast<size_t>(role)]; }

std::optional<Role> RoleOfName(absl::string_view name) {
  for (int i = 0; i < kRoleCount; ++i) {
    if (name == kRoleNames[i]) return static_cast<Role>(i);
  }
  return std::nullopt;
}

absl::Span<const AccessRow> AccessTable() { return kRows; }

const AccessRow& RowOf(absl::string_view method) {
  static const auto& rows = *[] {
    auto* const by_method = new std::map<absl::string_view, const AccessRow*>;
    for (const AccessRow& row : kRows) (*by_method)[row.method] = &row;
    return by_method;
  }();
  static constexpr AccessRow kClosed = {"", "", kChanges, false, {}};
  const auto found = rows.find(method);
  return found == rows.end() ? kClosed : *found->second;
}

std::string AccessTableMarkdown() {
  std::string text = "| service | method | changes | without a role |";
  std::string rule = "|---|---|---|---|";
  for (const absl::string_view name : kRoleNames) {
    absl::StrAppend(&text, " ", name, " |");
    absl::StrAppend(&rule, "---|");
  }
  absl::StrAppend(&text, "\n", rule, "\n");
  for (const AccessRow& row : kRows) {
    absl::StrAppend(&text, "| `", row.service, "` | `", row.method, "` | ",
                    row.changes ? "yes" : "–", " | ", row.is_public ? "any" : "–", " |");
    for (const Access access : row.access) {
      absl::StrAppend(&text, " ", CellText(row.is_public ? Access::kAny : access), " |");
    }
    absl::StrAppend(&text, "\n");
  }
  return text;
}

}  // namespace parplan
