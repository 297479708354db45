#include "exports/pass_table.h"

#include <cstddef>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/error.h"

namespace parplan {
namespace {

char LetterOf(PassKind kind) {
  switch (kind) {
    case PassKind::kForward:
      return 'F';
    case PassKind::kBackward:
      return 'B';
    case PassKind::kBackwardInputs:
      return 'I';
    case PassKind::kBackwardWeights:
      return 'W';
  }
  return '?';
}

std::string CellOf(const PipelinePass& pass) {
  return absl::StrCat(pass.stage_index, std::string(1, LetterOf(pass.kind)), pass.micro_batch);
}

absl::Status CheckRow(absl::string_view line, const std::string& where,
                      const std::vector<PipelinePass>& passes) {
  size_t next = 0;
  size_t cell_number = 0;
  for (absl::string_view cell : absl::StrSplit(line, ',')) {
    ++cell_number;
    cell = absl::StripAsciiWhitespace(cell);
    if (cell.empty()) continue;
    const std::string field = absl::StrCat(where, ", cell ", cell_number);
    if (next == passes.size()) {
      return FieldError(Reason::kSpecInvalid, field, "is beyond the passes of this device");
    }
    const std::string expected = CellOf(passes[next++]);
    if (cell != expected) {
      return FieldError(Reason::kSpecInvalid, field,
                        absl::StrCat("must be ", expected, " in this schedule, and is `",
                                     absl::ClippedSubstr(cell, 0, 32), "`"));
    }
  }
  if (next == passes.size()) return absl::OkStatus();
  return FieldError(Reason::kSpecInvalid, where,
                    absl::StrCat("has ", next, " passes and must have ", passes.size()));
}

}  // namespace

PipelineShape PipelineShapeOf(const Plan& plan) {
  return {.schedule = plan.schedule,
          .pipeline_parallel_degree = plan.pipeline_parallel_degree(),
          .virtual_stage_count = plan.virtual_stage_count,
          .micro_batch_count = plan.micro_batch_count,
          .micro_batch_group_size = plan.micro_batch_group_size};
}

std::string FormatPassTable(const PipelineShape& shape) {
  std::string text;
  for (int device = 0; device < shape.pipeline_parallel_degree; ++device) {
    const char* separator = "";
    for (const PipelinePass& pass : PassOrder(shape, device)) {
      absl::StrAppend(&text, separator, CellOf(pass));
      separator = ",";
    }
    text += '\n';
  }
  return text;
}

absl::Status CheckPassTable(absl::string_view text, absl::string_view file_name,
                            const PipelineShape& shape) {
  int device = 0;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    if (absl::StripAsciiWhitespace(line).empty()) continue;
    const std::string where = absl::StrCat(file_name, ": line ", device + 1);
    if (device == shape.pipeline_parallel_degree) {
      return FieldError(Reason::kSpecInvalid, where,
                        absl::StrCat("is beyond the ", device, " devices of the pipeline"));
    }
    const absl::Status status = CheckRow(line, where, PassOrder(shape, device++));
    if (!status.ok()) return status;
  }
  if (device == shape.pipeline_parallel_degree) return absl::OkStatus();
  return FieldError(Reason::kSpecInvalid, file_name,
                    absl::StrCat("has ", device, " lines, and the pipeline ",
                                 shape.pipeline_parallel_degree, " devices"));
}

}  // namespace parplan
