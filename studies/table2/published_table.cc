#include "studies/table2/published_table.h"

#include <utility>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
#include "studies/table2/embedded_table.h"

namespace parplan::table2 {

absl::StatusOr<PublishedTable> ReadPublishedTable(absl::string_view json) {
  PublishedTable table;
  try {
    const nlohmann::json object = nlohmann::json::parse(json.begin(), json.end());
    table.source = object.at("source").get<std::string>();
    table.columns = object.at("columns").get<std::array<std::string, kColumnCount>>();
    for (const nlohmann::json& entry : object.at("rows")) {
      PublishedRow& row = table.rows.emplace_back();
      row.model = entry.at("model").get<std::string>();
      row.device_count = entry.at("device_count").get<int>();
      row.memory_mb = entry.at("memory_mb").get<std::array<double, kColumnCount>>();
      row.ratios = entry.at("ratios").get<std::array<double, kRatioCount>>();
    }
  } catch (const nlohmann::json::exception& error) {
    return FieldError(Reason::kSpecInvalid, "table2", error.what());
  }
  return table;
}

const PublishedTable& BuiltInTable() {
  static const auto* const table = [] {
    absl::StatusOr<PublishedTable> read = ReadPublishedTable(Table2Files().front().text);
    PARPLAN_CHECK(read.ok());
    return new PublishedTable(*std::move(read));
  }();
  return *table;
}

}  // namespace parplan::table2
