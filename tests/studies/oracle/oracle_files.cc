#include "tests/studies/oracle/oracle_files.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include <gtest/gtest.h>

#include "base/check.h"
#include "tests/support/shared_data.h"

namespace parplan::oracle {

std::optional<std::string> OracleFolder() {
  const std::optional<std::string> data = SharedDataDir();
  if (!data.has_value()) return std::nullopt;
  return *data + "/galvatron_oracle/";
}

std::string OracleText(const std::string& path) {
  std::ifstream file(path);
  PARPLAN_CHECK(file.good());
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<OracleCase> AllOracleCases(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder + "cases")) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  std::vector<OracleCase> cases;
  for (const std::string& name : names) {
    absl::StatusOr<OracleCase> oracle =
        ReadOracleCase({name, OracleText(folder + "cases/" + name)},
                       [&folder](const std::string& path) { return OracleText(folder + path); });
    if (oracle.ok()) {
      cases.push_back(*std::move(oracle));
    } else {
      ADD_FAILURE() << name << ": " << oracle.status();
    }
  }
  return cases;
}

}  // namespace parplan::oracle
