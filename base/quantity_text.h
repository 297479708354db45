// Sizes and times as text for people.

#ifndef PARPLAN_BASE_QUANTITY_TEXT_H_
#define PARPLAN_BASE_QUANTITY_TEXT_H_

#include <string>

#include "base/units.h"

namespace parplan {

// Returns `value` without an exponent and with three significant digits, or with all digits before
// the point if these are more: `1.24`, `18.7`, `1240`. REQUIRES: `value` is finite.
std::string ThreeDigits(double value);

// Returns three significant digits and a unit: `12.3 ms`, `1.24 s`, `2.50 h`; `0 s`; `–` if
// `seconds` is not finite.
std::string TimeText(Seconds seconds);

// Returns three significant digits and a decimal unit: `15.8 GB`; `0 B`.
std::string SizeText(Bytes bytes);

}  // namespace parplan

#endif  // PARPLAN_BASE_QUANTITY_TEXT_H_
