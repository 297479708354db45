// The flags of a question about money: prices, the length of the run, deadline and budget.
// `planctl plan` and `planctl shape` have them.

#ifndef PARPLAN_CLIENTS_PLANCTL_COMMANDS_MONEY_FLAGS_H_
#define PARPLAN_CLIENTS_PLANCTL_COMMANDS_MONEY_FLAGS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/service/shell/command_line.h"
#include "parplan/v1/plan.pb.h"
#include "parplan/v1/plan_service.pb.h"

namespace parplan::planctl {

// The values of the flags. 0, empty texts and -1 of `budget` stand for flags that are not given.
struct MoneyFlags {
  // Whether money is asked for; every other flag needs it.
  bool is_asked = false;
  // Path of a file with a `MoneyQuestion` of plan_service.proto, which the other flags add to.
  std::string path;
  // `KIND=NUMBER` each, or a number for the devices of every node group.
  std::vector<std::string> prices;
  std::vector<std::string> powers;
  std::vector<std::string> idle_powers;
  int64_t step_count = 0;
  int64_t sample_count = 0;
  int64_t token_count = 0;
  double deadline_hours = 0.0;
  double budget = -1.0;
  int spare_node_count = 0;
  bool wants_energy = false;
  bool uses_upper_end = false;

  // Adds the flags. REQUIRES, unchecked: this object stays where it is until the command line is
  // read, which sets its members.
  void AddTo(shell::Command command);

  // Reads the file and puts the question together for the node groups of `spec`. A flag replaces
  // what the file has. INVALID_ARGUMENT (SPEC_INVALID) naming the file or the flag for a number
  // that is none. Rules of the fields are not checked: whoever answers does.
  absl::StatusOr<v1::MoneyQuestion> Question(const v1::PlanSpec& spec) const;
};

}  // namespace parplan::planctl

#endif  // PARPLAN_CLIENTS_PLANCTL_COMMANDS_MONEY_FLAGS_H_
