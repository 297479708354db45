// The cases of the public engine kept beside a working copy.

#ifndef PARPLAN_TESTS_STUDIES_ORACLE_ORACLE_FILES_H_
#define PARPLAN_TESTS_STUDIES_ORACLE_ORACLE_FILES_H_

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/status/statusor.h"
#include "studies/oracle/oracle_case.h"

namespace parplan::oracle {

// `galvatron_oracle/` of the shared data, with a slash; nothing without the data.
std::optional<std::string> OracleFolder();

// The text of a file; ends the test run where it is not there.
std::string OracleText(const std::string& path);

// Every case of the folder, by name. Records a failure for those that are refused.
std::vector<OracleCase> AllOracleCases(const std::string& folder);

// A case of an invented model on four devices, without an answer, and the text of a file that it
// names; NOT_FOUND for other paths.
nlohmann::json MadeUpCase();
absl::StatusOr<std::string> MadeUpFile(const std::string& path);

}  // namespace parplan::oracle

#endif  // PARPLAN_TESTS_STUDIES_ORACLE_ORACLE_FILES_H_
