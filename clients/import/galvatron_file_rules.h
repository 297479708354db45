// Rules that the readers of Galvatron's profile files share. The readers are galvatron_hardware.cc,
// galvatron_times.cc, galvatron_memory.cc and galvatron_raw_memory.cc.

#ifndef PARPLAN_CLIENTS_IMPORT_GALVATRON_FILE_RULES_H_
#define PARPLAN_CLIENTS_IMPORT_GALVATRON_FILE_RULES_H_

#include "base/error.h"

namespace parplan {

// The reason of errors in these files.
inline constexpr Reason kFileReason = Reason::kProfileInvalid;

// Most types of layers that a file may have. Not measured.
inline constexpr int kMaxLayerTypes = 64;

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_GALVATRON_FILE_RULES_H_
