// Table 2 of Shi et al., FITEE 26(1), 2025 (docs/papers.md 3.2): 48 memories and 36 ratios.
// `parplan-study table2` compares plans with it.

#ifndef PARPLAN_STUDIES_TABLE2_PUBLISHED_TABLE_H_
#define PARPLAN_STUDIES_TABLE2_PUBLISHED_TABLE_H_

#include <array>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace parplan::table2 {

// The columns of memory, in the order of the table. The first three are the authors' rivals.
enum class Column { kMegatronLm = 0, kAlpa = 1, kColossalAuto = 2, kTheirs = 3 };
inline constexpr int kColumnCount = 4;
inline constexpr int kRatioCount = 3;

// A model on a number of devices: memories by `Column`, in MB of 10^6 bytes.
struct PublishedRow {
  // `BERT-Large`, `1.7B`, `3.6B` or `7.5B` in the table of the paper.
  std::string model;
  int device_count = 0;
  std::array<double, kColumnCount> memory_mb = {};
  // Ratios of the last column to each of the others, as printed.
  std::array<double, kRatioCount> ratios = {};
};

// The whole table.
struct PublishedTable {
  // The origin of the numbers, and the names of the columns, for people.
  std::string source;
  std::array<std::string, kColumnCount> columns;
  std::vector<PublishedRow> rows;
};

// Reads a data file. INVALID_ARGUMENT (SPEC_INVALID) naming `table2`, with what the parser says,
// for text that is not JSON, and a member that is missing, too short or of another type. Other
// members are ignored, and rows may be none.
absl::StatusOr<PublishedTable> ReadPublishedTable(absl::string_view json);

// Returns the table in the program, which lives until the process ends.
const PublishedTable& BuiltInTable();

}  // namespace parplan::table2

#endif  // PARPLAN_STUDIES_TABLE2_PUBLISHED_TABLE_H_
