// The answer to a question about money beside a shape (`MoneyQuestion` of plan_service.proto): what
// each plan costs, which no other beats, and which meets deadline and budget. `SearchShapes`
// (solve/shape_search.h) fills it.
//
//   PARPLAN_ASSIGN_OR_RETURN(
//       MoneyTable table, MoneyTable::Create(request.money(), offers, model, searches_batch));
//   PARPLAN_RETURN_IF_ERROR(table.Add(option_index, offer_index, found));  // for each option
//   *response.mutable_money() = table.Answer();

#ifndef PARPLAN_SOLVE_MONEY_ANSWER_H_
#define PARPLAN_SOLVE_MONEY_ANSWER_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "parplan/v1/plan_service.pb.h"
#include "planner/model/model_spec.h"
#include "planner/model/planning_result.h"
#include "planner/worth/weigh_plans.h"
#include "proto/wire/money_wire.h"

namespace parplan {

// Not safe to use from several threads.
class MoneyTable {
 public:
  // Reads the question, before anything is searched. INVALID_ARGUMENT (SPEC_INVALID) naming the
  // field below `field`: the errors of `MoneyFromProto` and `LengthWithoutTokens`.
  static absl::StatusOr<MoneyTable> Create(const v1::MoneyQuestion& message,
                                           const std::vector<v1::DeviceOffer>& offers,
                                           const ModelSpec& model, bool searches_batch,
                                           absl::string_view field = "money");

  // Adds the plan of an option and its alternatives. INVALID_ARGUMENT if a cost is not finite
  // (`CostOfRun`). REQUIRES, unchecked: the offer is one of `Create`.
  absl::Status Add(int option_index, int offer_index, const PlanFound& found);

  // Returns the answer for the plans that were added; with none, that nothing fits is for the
  // caller to say.
  v1::MoneyAnswer Answer() const;

  bool is_empty() const { return plans_.empty(); }

 private:
  MoneyTable() = default;
  absl::Status AddPlan(int option_index, int offer_index, const PredictedPlan& plan);
  std::string UnmetReason(const MoneyChoice& choice) const;

  AskedMoney asked_;
  // In samples or steps.
  RunLength length_;
  // [offer]
  std::vector<int> devices_per_node_;
  // [plan] The rows of the answer, and what they are weighed by.
  std::vector<v1::PlanCost> rows_;
  std::vector<WeighedPlan> plans_;
};

}  // namespace parplan

#endif  // PARPLAN_SOLVE_MONEY_ANSWER_H_
