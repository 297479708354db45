#include "proto/wire/money_wire.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "proto/wire/duration_wire.h"
#include "proto/wire/field_path.h"

namespace parplan {
namespace {

// Returns whether two names are of one device.
bool IsSameDevice(const std::string& a, const std::string& b, const HardwareLibrary& library) {
  if (a == b) return true;
  const DeviceDescription* const device = library.FindDevice(a);
  return device != nullptr && device == library.FindDevice(b);
}

std::string PowerNote(const DeviceTerms& terms, bool is_data_sheet) {
  if (!terms.power_watts.has_value()) {
    return absl::StrCat("energy of `", terms.device_kind,
                        "`: its power is not known, because no data sheet has a power limit; give "
                        "power_watts");
  }
  const std::string working = absl::StrFormat(
      "energy of `%s`: estimated as time times %g W for each device that works (%s)",
      terms.device_kind, *terms.power_watts,
      is_data_sheet ? "the power limit of its data sheet" : "power_watts as given");
  if (terms.idle_power_watts.has_value()) {
    return absl::StrFormat("%s and %g W for each that waits (idle_power_watts as given)", working,
                           *terms.idle_power_watts);
  }
  return absl::StrCat(
      working,
      ", and as much for each that waits, because idle_power_watts is not given: an "
      "upper estimate");
}

// Converts the terms of one device.
absl::StatusOr<DeviceTerms> TermsFromProto(const v1::DeviceTerms& message, const std::string& path,
                                           const HardwareLibrary& library, bool& is_data_sheet) {
  if (!message.has_price_per_device_hour()) {
    return FieldError(Reason::kSpecInvalid, JoinPath(path, "price_per_device_hour"),
                      "is required; 0 is a price");
  }
  DeviceTerms terms;
  terms.device_kind = message.device_kind();
  terms.price_per_device_hour = message.price_per_device_hour();
  if (message.has_power_watts()) {
    terms.power_watts = message.power_watts();
  } else if (const DeviceDescription* const device = library.FindDevice(message.device_kind());
             device != nullptr && device->power_limit_watts > 0.0) {
    terms.power_watts = device->power_limit_watts;
    is_data_sheet = true;
  }
  if (message.has_idle_power_watts()) terms.idle_power_watts = message.idle_power_watts();
  return DeviceTerms::Create(std::move(terms), path);
}

absl::StatusOr<MoneyLimits> LimitsFromProto(const v1::MoneyQuestion& message,
                                            absl::string_view field) {
  MoneyLimits limits;
  if (message.has_deadline_duration()) {
    PARPLAN_ASSIGN_OR_RETURN(
        limits.deadline,
        SecondsFromProto(message.deadline_duration(), JoinPath(field, "deadline_duration")));
  }
  if (message.has_budget()) limits.budget = message.budget();
  limits.uses_upper_end = message.uses_upper_end();
  return MoneyLimits::Create(limits, field);
}

}  // namespace

absl::StatusOr<AskedMoney> MoneyFromProto(const v1::MoneyQuestion& message,
                                          absl::Span<const std::string> offered_kinds,
                                          absl::string_view field, const HardwareLibrary& library) {
  AskedMoney asked;
  asked.terms.resize(offered_kinds.size());
  asked.power_notes.resize(offered_kinds.size());
  std::vector<bool> has_terms(offered_kinds.size(), false);
  for (int i = 0; i < message.devices_size(); ++i) {
    const std::string path = JoinPath(field, "devices", i);
    bool is_data_sheet = false;
    PARPLAN_ASSIGN_OR_RETURN(DeviceTerms terms,
                             TermsFromProto(message.devices(i), path, library, is_data_sheet));
    for (int j = 0; j < i; ++j) {
      if (IsSameDevice(message.devices(j).device_kind(), terms.device_kind, library)) {
        return FieldError(Reason::kSpecInvalid, JoinPath(path, "device_kind"),
                          absl::StrCat("is the device of ", JoinPath(field, "devices", j),
                                       " again; give each device one price"));
      }
    }
    bool is_offered = false;
    for (size_t offer = 0; offer < offered_kinds.size(); ++offer) {
      if (!IsSameDevice(terms.device_kind, offered_kinds[offer], library)) continue;
      is_offered = true;
      has_terms[offer] = true;
      asked.terms[offer] = terms;
      asked.terms[offer].device_kind = offered_kinds[offer];
      asked.power_notes[offer] = PowerNote(asked.terms[offer], is_data_sheet);
    }
    if (!is_offered) {
      return FieldError(Reason::kSpecInvalid, JoinPath(path, "device_kind"),
                        absl::StrCat("`", terms.device_kind,
                                     "` is not the device of any offer; leave it out, or write it "
                                     "as the offer does"));
    }
  }
  for (size_t offer = 0; offer < offered_kinds.size(); ++offer) {
    if (!has_terms[offer]) {
      return FieldError(
          Reason::kSpecInvalid, JoinPath(field, "devices"),
          absl::StrCat("has no price for `", offered_kinds[offer], "`, which is offered; add one"));
    }
    if (message.wants_energy() && !asked.terms[offer].power_watts.has_value()) {
      return FieldError(Reason::kSpecInvalid, JoinPath(field, "wants_energy"),
                        absl::StrCat("cannot be answered, because no data sheet has the power of `",
                                     offered_kinds[offer], "`; give its power_watts"));
    }
  }
  PARPLAN_ASSIGN_OR_RETURN(asked.length, RunLength::Create({.step_count = message.step_count(),
                                                            .sample_count = message.sample_count(),
                                                            .token_count = message.token_count()},
                                                           field));
  PARPLAN_ASSIGN_OR_RETURN(asked.limits, LimitsFromProto(message, field));
  if (message.spare_node_count() < 0 || message.spare_node_count() > kMaxSpareNodeCount) {
    return FieldError(Reason::kSpecInvalid, JoinPath(field, "spare_node_count"),
                      absl::StrCat("must be from 0 to ", kMaxSpareNodeCount));
  }
  asked.spare_node_count = message.spare_node_count();
  asked.wants_energy = message.wants_energy();
  return asked;
}

}  // namespace parplan
