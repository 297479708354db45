#include "clients/planctl/commands/show_view.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "clients/planctl/files.h"
#include "clients/planctl/view/plan_json.h"
#include "clients/planctl/view/plan_text.h"
#include "clients/planctl/view/shape_view.h"

namespace parplan::planctl {

absl::Status ShowView(const Session& session, const PlanView& view,
                      const std::string& report_path) {
  if (!report_path.empty()) PARPLAN_RETURN_IF_ERROR(WriteFile(report_path, PlanHtml(view)));
  if (session.json) return Print(session, PlanJson(view));
  std::string text = PlanText(view);
  if (view.money.has_value()) absl::StrAppend(&text, "\n", MoneyText(*view.money));
  if (!report_path.empty()) absl::StrAppend(&text, "\nreport       ", report_path, "\n");
  return Print(session, text);
}

absl::StatusOr<PlanView> ReadView(const std::string& path) {
  PARPLAN_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  return ViewOfFile(text, path);
}

}  // namespace parplan::planctl
