// The sets of files in the folder of measured data, and what comes of each.

#ifndef PARPLAN_TESTS_CLIENTS_IMPORT_GALVATRON_PROFILE_SETS_H_
#define PARPLAN_TESTS_CLIENTS_IMPORT_GALVATRON_PROFILE_SETS_H_

#include <ostream>
#include <vector>

namespace parplan {

// One set: files below galvatron_profiles, and what comes of it.
struct ProfileSet {
  const char* name;
  std::vector<const char*> times;
  std::vector<const char*> memory;
  const char* model_config;  // null for none
  // Points in the profile; -1 for some.
  int timing_count;
  int memory_count;
  // Part of the error; empty when the import succeeds.
  const char* error;
};

// Prints the set's name instead of its bytes in messages of GoogleTest.
void PrintTo(const ProfileSet& set, std::ostream* out);

const std::vector<ProfileSet>& GalvatronProfileSets();

}  // namespace parplan

#endif  // PARPLAN_TESTS_CLIENTS_IMPORT_GALVATRON_PROFILE_SETS_H_
