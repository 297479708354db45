#include "clients/planctl/commands/flag_checks.h"

#include <cmath>
#include <optional>
#include <string>

#include "absl/strings/numbers.h"

namespace parplan::planctl {
namespace {

std::optional<double> FiniteNumber(const std::string& text) {
  double value = 0.0;
  if (!absl::SimpleAtod(text, &value) || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::string IsPositive(const std::string& text) {
  const std::optional<double> value = FiniteNumber(text);
  return value > 0.0 ? "" : "must be a number above 0";
}

std::string IsNotNegative(const std::string& text) {
  const std::optional<double> value = FiniteNumber(text);
  return value >= 0.0 ? "" : "must be a number from 0 on";
}

std::string IsShare(const std::string& text) {
  const std::optional<double> value = FiniteNumber(text);
  return value >= 0.0 && value < 1.0 ? "" : "must be a number from 0 to below 1";
}

std::string IsRisk(const std::string& text) {
  const std::optional<double> value = FiniteNumber(text);
  return value >= 1e-6 && value <= 0.5 ? "" : "must be a number from 1e-06 to 0.5";
}

std::string IsNotEmpty(const std::string& text) {
  return text.empty() ? "must not be empty; leave the flag out for its default" : "";
}

}  // namespace

CLI::Validator Positive() { return CLI::Validator(IsPositive, "POSITIVE"); }
CLI::Validator NotNegative() { return CLI::Validator(IsNotNegative, "NUMBER"); }
CLI::Validator Share() { return CLI::Validator(IsShare, "SHARE"); }
CLI::Validator Risk() { return CLI::Validator(IsRisk, "PROBABILITY"); }
CLI::Validator NotEmpty() { return CLI::Validator(IsNotEmpty, "NAME"); }

}  // namespace parplan::planctl
