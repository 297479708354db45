#include "server/backup/table_rows.h"

#include "absl/strings/str_cat.h"
#include "proto/wire/digest.h"

namespace parplan {
namespace {

using Kind = TableColumn::Kind;

TableColumn IntegerColumn(const char* name) { return {name, Kind::kInteger, false}; }
TableColumn TextColumn(const char* name) { return {name, Kind::kText, false}; }
TableColumn BytesColumn(const char* name) { return {name, Kind::kBytes, false}; }

}  // namespace

const std::vector<StoreTable>& StoreTables() {
  static const auto& tables = *new std::vector<StoreTable>{
      {"profiles",
       {IntegerColumn("sequence"), TextColumn("name"), TextColumn("cluster"), TextColumn("node"),
        TextColumn("profile_id"), TextColumn("device_kind"), TextColumn("kind"),
        TextColumn("coverage"), TextColumn("owner"), TextColumn("request_id"),
        TextColumn("content_digest"), IntegerColumn("create_time"), BytesColumn("bytes")},
       "sequence",
       true},
      {"profile_revisions", {TextColumn("cluster"), IntegerColumn("revision")}, "cluster", false},
      {"calibrations",
       {IntegerColumn("sequence"), TextColumn("name"), TextColumn("cluster"),
        TextColumn("calibration_id"), TextColumn("request_id"), TextColumn("content_digest"),
        IntegerColumn("create_time"), BytesColumn("bytes")},
       "sequence",
       true},
      {"active_calibrations",
       {TextColumn("cluster"), {"calibration", Kind::kText, true}, IntegerColumn("activate_time")},
       "cluster",
       false},
      {"specs",
       {TextColumn("digest"), TextColumn("cluster"), TextColumn("owner"), BytesColumn("bytes")},
       "digest",
       false,
       /*first_schema=*/11},
      {"plans",
       {IntegerColumn("sequence"),
        TextColumn("name"),
        TextColumn("cluster"),
        TextColumn("plan_id"),
        TextColumn("plan_key"),
        TextColumn("answer_key"),
        TextColumn("owner"),
        TextColumn("request_id"),
        TextColumn("job_id"),
        TextColumn("topology_digest"),
        TextColumn("profile_digest"),
        IntegerColumn("create_time"),
        IntegerColumn("expire_time"),
        {"spec_digest", Kind::kText, true},
        BytesColumn("bytes")},
       "sequence",
       true},
      {"jobs",
       {TextColumn("cluster"), TextColumn("job_id"), TextColumn("owner"),
        IntegerColumn("generation")},
       "cluster, job_id",
       false,
       /*first_schema=*/8},
      {"executions",
       {IntegerColumn("sequence"), TextColumn("name"), TextColumn("plan"),
        TextColumn("execution_id"), TextColumn("owner"), TextColumn("request_id"),
        IntegerColumn("state"), IntegerColumn("start_time"), IntegerColumn("end_time"),
        IntegerColumn("window_count"), IntegerColumn("byte_count"), TextColumn("failure_reason"),
        IntegerColumn("report_time"), IntegerColumn("abandoned"), BytesColumn("bytes")},
       "sequence",
       true},
      {"windows",
       {IntegerColumn("execution"), IntegerColumn("rank"), IntegerColumn("first_step"),
        IntegerColumn("step_count"), IntegerColumn("median_step_nanoseconds"),
        IntegerColumn("peak_memory_bytes"), BytesColumn("items"), BytesColumn("bytes")},
       "execution, rank, first_step",
       false}};
  return tables;
}

std::string ColumnList(const StoreTable& table) {
  std::string list;
  for (const TableColumn& column : table.columns) {
    absl::StrAppend(&list, list.empty() ? "" : ", ", column.name);
  }
  return list;
}

void RowDigest::Add(const TableRow& row) {
  std::string text = text_;
  for (const auto& value : row) {
    if (const int64_t* const number = std::get_if<int64_t>(&value)) {
      absl::StrAppend(&text, *number, "\n");
    } else {
      const std::string& bytes = std::get<std::string>(value);
      absl::StrAppend(&text, bytes.size(), ":", bytes, "\n");
    }
  }
  text_ = Sha256Hex(text);
}

}  // namespace parplan
