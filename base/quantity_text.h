// Sizes and times as text for people. planctl, the HTML report, the studies and errors of the
// search (solve/run_search.h) print by it.

#ifndef PARPLAN_BASE_QUANTITY_TEXT_H_
#define PARPLAN_BASE_QUANTITY_TEXT_H_

#include <string>

#include "base/units.h"

namespace parplan {

// Returns `value` without an exponent: with two decimals if it rounds to less than 10, one below
// 100, none from there on: `0.05`, `1.24`, `18.7`, `1240`. So numbers from 1 on have at least three
// significant digits. Negative numbers have two decimals. REQUIRES: `value` is finite, which is not
// checked.
std::string ThreeDigits(double value);

// Returns `ThreeDigits` of the time in the largest of µs, ms and s in which it rounds to 1 or more,
// in µs below that, in hours from 7200 s on: `12.3 ms`, `1.24 s`, `2.50 h`; `0 s` for 0 and below;
// `–` if `seconds` is not finite.
std::string TimeText(Seconds seconds);

// Returns `ThreeDigits` of the size in the largest of kB, MB, GB and TB (10^3 to 10^12 bytes) in
// which it rounds to 1 or more: `15.8 GB`. Below 1000 bytes, and for negative sizes, returns the
// exact count: `0 B`, `-5 B`.
std::string SizeText(Bytes bytes);

}  // namespace parplan

#endif  // PARPLAN_BASE_QUANTITY_TEXT_H_
