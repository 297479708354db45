// The arguments of a script or of a function, which `ShellVariables` keeps as the variable `@`.

#include <cstddef>
#include <optional>
#include <utility>

#include "clients/import/shell_variables.h"

namespace parplan {

void ShellVariables::SetPositions(std::optional<std::vector<std::string>> values) {
  ForgetPositions();
  has_set_positions_ = true;
  values_["@"] = std::move(values);
}

void ShellVariables::ForgetPositions() {
  Keep("@");
  values_["@"] = std::nullopt;
}

void ShellVariables::ForgetKnownPositions() {
  if (values_.count("@") > 0) ForgetPositions();
}

void ShellVariables::ShiftPositions(size_t count) {
  const auto found = values_.find("@");
  if (!has_positions_ || found == values_.end() || !found->second.has_value()) {
    return ForgetPositions();
  }
  if (count > found->second->size()) return;
  Keep("@");
  found->second->erase(found->second->begin(),
                       found->second->begin() + static_cast<std::ptrdiff_t>(count));
}

ShellVariables::Positions ShellVariables::SavePositions() {
  return {.values = Save("@"), .are_known = has_positions_, .are_set = has_set_positions_};
}

void ShellVariables::RestorePositions(Positions positions) {
  Restore("@", std::move(positions.values));
  has_positions_ = positions.are_known;
  has_set_positions_ = positions.are_set;
}

void ShellVariables::EnterShell(bool are_given) {
  has_positions_ = false;
  has_set_positions_ = are_given;
}

}  // namespace parplan
