// Constants that the readers of Galvatron's profile files share. The readers are
// galvatron_hardware.cc, galvatron_times.cc, galvatron_memory.cc and galvatron_raw_memory.cc.

#ifndef PARPLAN_CLIENTS_IMPORT_GALVATRON_FILE_RULES_H_
#define PARPLAN_CLIENTS_IMPORT_GALVATRON_FILE_RULES_H_

#include "base/error.h"

namespace parplan {

// The reason of errors that these readers return, about the files or the flags that go with them.
inline constexpr Reason kFileReason = Reason::kProfileInvalid;

// Types of layers are numbered from 0 to below this. A key of this number or a higher one is an
// error, and further entries of `layernum[...]` are not read as types. The value was chosen;
// nothing was measured.
inline constexpr int kMaxLayerTypes = 64;

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_GALVATRON_FILE_RULES_H_
