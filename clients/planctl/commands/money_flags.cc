#include "clients/planctl/commands/money_flags.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "clients/planctl/files.h"
#include "proto/wire/duration_wire.h"
#include "proto/wire/hardware_library.h"

namespace parplan::planctl {
namespace {

// Returns the terms of a device, which are added if there are none.
v1::DeviceTerms& TermsOf(const std::string& kind, v1::MoneyQuestion& question) {
  const HardwareLibrary& library = HardwareLibrary::BuiltIn();
  const DeviceDescription* const device = library.FindDevice(kind);
  for (v1::DeviceTerms& terms : *question.mutable_devices()) {
    if (terms.device_kind() == kind ||
        (device != nullptr && device == library.FindDevice(terms.device_kind()))) {
      return terms;
    }
  }
  v1::DeviceTerms& terms = *question.add_devices();
  terms.set_device_kind(kind);
  return terms;
}

// A flag with a number for each kind of device.
struct NumberFlag {
  absl::string_view name;
  const std::vector<std::string>& words;
  void (v1::DeviceTerms::*set)(double number);
};

// Reads `KIND=NUMBER` or `NUMBER`, of which the second is for every kind, and sets the number for
// each. Kinds may have `=` in their names, numbers do not.
absl::Status ReadNumbers(const NumberFlag& flag, const v1::PlanSpec& spec,
                         v1::MoneyQuestion& question) {
  for (const std::string& word : flag.words) {
    const size_t equals = word.rfind('=');
    double number = 0.0;
    if (!absl::SimpleAtod(equals == std::string::npos ? word : word.substr(equals + 1), &number)) {
      return FieldError(Reason::kSpecInvalid, flag.name,
                        absl::StrCat("is KIND=NUMBER or NUMBER; `", word, "` is not"));
    }
    if (equals != std::string::npos) {
      (TermsOf(word.substr(0, equals), question).*flag.set)(number);
      continue;
    }
    for (const v1::NodeGroup& group : spec.topology().node_groups()) {
      (TermsOf(group.device_kind(), question).*flag.set)(number);
    }
  }
  return absl::OkStatus();
}

}  // namespace

void MoneyFlags::AddTo(shell::Command command) {
  const shell::Option money = command.AddFlag(
      "--money", is_asked, "Weigh numbers of devices by the time, money and energy of a whole run");
  const auto option = [&](const char* name, auto& value, const char* help) {
    return command.AddOption(name, value, help).Needs(money);
  };
  const auto flag = [&](const char* name, bool& value, const char* help) {
    command.AddFlag(name, value, help).Needs(money);
  };
  option("--price", prices,
         "Price of one device for one hour: NUMBER, or KIND=NUMBER for each kind");
  option("--steps", step_count, "Optimizer steps of the run").Check(shell::Positive());
  option("--samples", sample_count, "Samples of the run, instead of --steps")
      .Check(shell::Positive());
  option("--tokens", token_count, "Tokens of the run, instead of --steps").Check(shell::Positive());
  option("--deadline-hours", deadline_hours,
         "Longest time of the run, in hours: take the cheapest plan within it")
      .Check(shell::Positive());
  option("--budget", budget,
         "Most that the run may cost: take the fastest plan within it, or with a deadline the "
         "cheapest")
      .Check(shell::NotNegative());
  flag("--worst-case", uses_upper_end,
       "Deadline and budget must hold at the upper end of the predicted range");
  option("--spare-nodes", spare_node_count, "Nodes paid for that wait [0]")
      .Check(shell::NotNegative());
  flag("--energy", wants_energy, "Weigh energy too; refused if the power of a device is not known");
  option("--power", powers,
         "Watts of one device that works: NUMBER or KIND=NUMBER [its data sheet]");
  option("--idle-power", idle_powers,
         "Watts of one device that waits: NUMBER or KIND=NUMBER [as if it worked]");
  option("--money-file", path, "File with the same, in JSON (docs/money.md)");
}

absl::StatusOr<v1::MoneyQuestion> MoneyFlags::Question(const v1::PlanSpec& spec) const {
  v1::MoneyQuestion question;
  if (!path.empty()) {
    PARPLAN_ASSIGN_OR_RETURN(question, ReadMoney(path));
  }
  for (const NumberFlag& flag :
       {NumberFlag{"--price", prices, &v1::DeviceTerms::set_price_per_device_hour},
        NumberFlag{"--power", powers, &v1::DeviceTerms::set_power_watts},
        NumberFlag{"--idle-power", idle_powers, &v1::DeviceTerms::set_idle_power_watts}}) {
    PARPLAN_RETURN_IF_ERROR(ReadNumbers(flag, spec, question));
  }
  if (step_count > 0 || sample_count > 0 || token_count > 0) {
    question.set_step_count(step_count);
    question.set_sample_count(sample_count);
    question.set_token_count(token_count);
  }
  if (deadline_hours > 0.0) {
    *question.mutable_deadline_duration() = DurationToProto(Seconds::Of(deadline_hours * 3600.0));
  }
  if (budget >= 0.0) question.set_budget(budget);
  if (spare_node_count > 0) question.set_spare_node_count(spare_node_count);
  if (wants_energy) question.set_wants_energy(true);
  if (uses_upper_end) question.set_uses_upper_end(true);
  return question;
}

}  // namespace parplan::planctl
