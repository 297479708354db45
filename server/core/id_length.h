// The length of the ids that the server derives from contents and requests. Used where the core
// makes such ids.

#ifndef PARPLAN_SERVER_CORE_ID_LENGTH_H_
#define PARPLAN_SERVER_CORE_ID_LENGTH_H_

#include <cstddef>

namespace parplan {

// Hexadecimal digits of the SHA-256 that are the id of a plan, profile, calibration or execution:
// 128 bits.
inline constexpr size_t kIdLength = 32;

}  // namespace parplan

#endif  // PARPLAN_SERVER_CORE_ID_LENGTH_H_
