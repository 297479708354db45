#include "studies/table2/table2_text.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "planner/model/precision.h"

namespace parplan::table2 {
namespace {

// Hypotheses in the first table: the differences below are within a few percent of each other.
constexpr size_t kBestShown = 12;
// Factor from which a cell counts as unexplained.
constexpr double kUnexplained = 2.0;
// Relative difference up to which two memories of the table count as equal.
constexpr double kEqualMemory = 0.015;

// Columns of a line of the page, except for tables.
constexpr size_t kPageWidth = 100;

// Breaks lines of prose at spaces; lines of tables and code stay. A continued list item is
// indented.
std::string Wrapped(absl::string_view text) {
  std::string page;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!page.empty()) page += "\n";
    if (absl::StartsWith(line, "|")) {
      absl::StrAppend(&page, line);
      continue;
    }
    const absl::string_view indent = absl::StartsWith(line, "- ") ? "  " : "";
    size_t column = 0;
    for (const absl::string_view word : absl::StrSplit(line, ' ')) {
      if (column > 0 && column + 1 + word.size() > kPageWidth) {
        absl::StrAppend(&page, "\n", indent);
        column = indent.size();
      } else if (column > 0) {
        page += ' ';
        ++column;
      }
      absl::StrAppend(&page, word);
      column += word.size();
    }
  }
  return page;
}

const char* OptimizerName(Optimizer optimizer) {
  return optimizer == Optimizer::kAdam ? "Adam" : "SGD";
}

const char* PrecisionText(Precision precision) {
  return precision == Precision::kFp32 ? "fp32" : "bf16";
}

std::string CellText(const TableMemory& memory) {
  const std::string gigabytes = absl::StrFormat("%.1f", memory.needed.as_double() * 1e-9);
  if (!memory.fits) return absl::StrCat("needs ", gigabytes);
  return absl::StrFormat("%s GB, %.0f ms", gigabytes, memory.step.milliseconds());
}

std::string FactorText(double factor) { return absl::StrFormat("%.2f", factor); }

std::string ErrorCells(const Hypothesis& h) {
  return absl::StrFormat("%s | %s | %s | %s | %.2f", FactorText(h.total_factor),
                         FactorText(h.memory_factor), FactorText(h.shape_factor),
                         FactorText(h.ratio_factor), h.ratio_rank_correlation);
}

std::string HypothesisRow(const Hypothesis& h) {
  return absl::StrFormat("| %s | %s | %s | %s | %s |\n", DefinitionName(h.definition), h.batch_text,
                         PrecisionText(h.precision), OptimizerName(h.optimizer), ErrorCells(h));
}

constexpr char kHypothesisHead[] =
    "| memory overhead is | batch | precision | optimizer | all 84 off by | memories off by | "
    "after "
    "one common factor | ratios off by | rank correlation of ratios |\n"
    "|---|---|---|---|---|---|---|---|---|\n";

std::string ProductText(const PublishedTable& table, const ProductRows& product) {
  std::string text = absl::StrFormat(
      "## Our planners on these models\n\n"
      "One node of %s, batch %d, one micro-batch and one stage, bf16 and Adam, ZeRO allowed; "
      "recomputation only for `colossal-auto-like` and in the column that says so. GB that a "
      "device must have, and ms a predicted "
      "step. *needs*: nothing fits, and this is what it takes. The last columns are the table's, "
      "in "
      "GB. The two sides are different quantities, as the rest of this page shows.\n\n",
      product.device, product.global_batch_size);
  absl::StrAppend(&text, "| model | devices |");
  for (const Column column :
       {Column::kTheirs, Column::kAlpa, Column::kColossalAuto, Column::kMegatronLm}) {
    absl::StrAppend(&text, " `", PlannerOf(column), "` |");
    if (column == Column::kTheirs) {
      absl::StrAppend(&text, " `", PlannerOf(column), "`, recomputing |");
    }
  }
  absl::StrAppend(&text, " theirs | Alpa | Colossal-Auto | Megatron-LM |\n",
                  "|---|---|---|---|---|---|---|---|---|---|---|\n");
  for (size_t row = 0; row < table.rows.size(); ++row) {
    const PublishedRow& published = table.rows[row];
    absl::StrAppendFormat(&text, "| %s | %d |", published.model, published.device_count);
    for (const Column column :
         {Column::kTheirs, Column::kAlpa, Column::kColossalAuto, Column::kMegatronLm}) {
      absl::StrAppend(&text, " ", CellText(product.cells[row][static_cast<int>(column)]), " |");
      if (column == Column::kTheirs) {
        absl::StrAppend(&text, " ", CellText(product.recomputing[row]), " |");
      }
    }
    for (const Column column :
         {Column::kTheirs, Column::kAlpa, Column::kColossalAuto, Column::kMegatronLm}) {
      absl::StrAppendFormat(&text, " %.2f |", published.memory_mb[static_cast<int>(column)] * 1e-3);
    }
    text += "\n";
  }
  return text;
}

// Returns a table of the best hypotheses, and one of the best of each definition.
std::string HypothesesText(const PublishedTable& table, const std::vector<Hypothesis>& hypotheses) {
  std::string text = absl::StrFormat(
      "\n## Hypotheses\n\n"
      "The table states no batch, precision, optimizer or definition. Tried, %d in all: the "
      "definitions of the second table below; batches of 1, 2, 4 and so on to 64, global, for each "
      "device, fitted for each number of devices, and fitted for each model; fp32 and bf16; Adam "
      "and SGD (no optimizer: *weights alone*). Plans have one stage, one micro-batch and no ZeRO, "
      "because the abstract has intra-operator strategies alone ([papers.md](../papers.md) 3.3); "
      "Colossal-Auto's column may recompute (4.1 there). *Program* is "
      "the solution of the integer program before it is mapped to a plan, with least memory for "
      "theirs and least time for Alpa; the other two columns have no program and keep the figures "
      "of their plans. *Off by* is the "
      "mean factor between ours and theirs, e to the mean of |ln(ours/theirs)|: 1 is equality. A "
      "fitted batch has more freedom, so its error is no fair comparison with a fixed one.\n\n"
      "The yardstick knows neither planners nor devices: for each model one number, the median of "
      "its "
      "12 memories in the table.\n\n"
      "The %d best by all 84 numbers, and the yardstick:\n\n",
      hypotheses.size(), std::min(kBestShown, hypotheses.size()));
  text += kHypothesisHead;
  for (size_t i = 0; i < std::min(kBestShown, hypotheses.size()); ++i) {
    text += HypothesisRow(hypotheses[i]);
  }
  absl::StrAppend(&text, "| yardstick | | | | ", ErrorCells(YardstickOf(table)), " |\n");
  text += "\nThe best of each definition with a batch that is not fitted:\n\n";
  text += kHypothesisHead;
  std::set<Definition> shown;
  for (const Hypothesis& h : hypotheses) {
    const bool is_fixed = h.rule == BatchRule::kGlobal || h.rule == BatchRule::kPerDevice;
    if (is_fixed && shown.insert(h.definition).second) text += HypothesisRow(h);
  }
  const auto best_of = [&](const auto& comes_first) {
    return *std::min_element(hypotheses.begin(), hypotheses.end(), comes_first);
  };
  text += "\nThe best by the 36 ratios, and by their rank correlation:\n\n";
  text += kHypothesisHead;
  text += HypothesisRow(best_of([](const Hypothesis& a, const Hypothesis& b) {
    return std::llround(a.ratio_factor * 1e6) < std::llround(b.ratio_factor * 1e6);
  }));
  text += HypothesisRow(best_of([](const Hypothesis& a, const Hypothesis& b) {
    return std::llround(a.ratio_rank_correlation * 1e6) >
           std::llround(b.ratio_rank_correlation * 1e6);
  }));
  return text;
}

// Returns the hypothesis that looks right in two rows of the table, with its error over all of it;
// empty if it is not among those tried.
std::string NearMissText(const PublishedTable& table, const std::vector<Hypothesis>& hypotheses) {
  const auto near = std::find_if(hypotheses.begin(), hypotheses.end(), [](const Hypothesis& h) {
    return h.definition == Definition::kPeak && h.precision == Precision::kBf16 &&
           h.optimizer == Optimizer::kAdam && h.rule == BatchRule::kGlobal && h.batch_text == "1";
  });
  if (near == hypotheses.end()) return "";
  std::vector<std::string> cells;
  for (size_t row = 0; row < table.rows.size(); ++row) {
    if (table.rows[row].model != "1.7B") continue;
    constexpr int kTheirs = static_cast<int>(Column::kTheirs);
    cells.push_back(absl::StrFormat("%.1f against %.1f on %d", near->memory_mb[row][kTheirs] * 1e-3,
                                    table.rows[row].memory_mb[kTheirs] * 1e-3,
                                    table.rows[row].device_count));
  }
  const auto place = near - hypotheses.begin() + 1;
  return absl::StrFormat(
      "\nThe peak of a process with one sample, in bf16 with Adam, was once near the authors' "
      "column "
      "for 1.7B on 2 and 4 devices (18.6 and 10.6 GB against 18.8 and 10.6). It is no more than "
      "that: GB ours against theirs %s devices, and by all 84 numbers it is hypothesis %d of %d:"
      "\n\n%s%s",
      absl::StrJoin(cells, ", "), place, hypotheses.size(), kHypothesisHead, HypothesisRow(*near));
}

std::string RowName(const PublishedRow& row) {
  return absl::StrFormat("%s on %d", row.model, row.device_count);
}

// A pair of rows of one model on a number of devices and on twice as many.
struct Doubling {
  size_t few = 0;
  size_t many = 0;
};
std::vector<Doubling> DoublingsOf(const PublishedTable& table) {
  std::vector<Doubling> doublings;
  for (size_t few = 0; few < table.rows.size(); ++few) {
    for (size_t many = 0; many < table.rows.size(); ++many) {
      if (table.rows[few].model == table.rows[many].model &&
          table.rows[many].device_count == 2 * table.rows[few].device_count) {
        doublings.push_back({few, many});
      }
    }
  }
  return doublings;
}

std::string UnexplainedText(const PublishedTable& table, const Hypothesis& best) {
  std::vector<std::string> far;
  for (size_t row = 0; row < table.rows.size(); ++row) {
    for (int column = 0; column < kColumnCount; ++column) {
      const double factor =
          std::max(best.memory_mb[row][column], kLeastMb) / table.rows[row].memory_mb[column];
      if (factor < kUnexplained && factor > 1.0 / kUnexplained) continue;
      far.push_back(
          absl::StrFormat("%s %s (%.2f)", table.columns[column], RowName(table.rows[row]), factor));
    }
  }
  std::vector<std::string> equal;
  std::vector<std::string> rising;
  int ours_rising = 0;
  for (const Doubling& pair : DoublingsOf(table)) {
    const PublishedRow& few = table.rows[pair.few];
    const PublishedRow& many = table.rows[pair.many];
    for (int column = 0; column < kColumnCount; ++column) {
      const double before = few.memory_mb[column];
      const double after = many.memory_mb[column];
      const std::string name = absl::StrFormat(
          "%s %s from %d to %d (%.2f, ours %.2f)", table.columns[column], few.model,
          few.device_count, many.device_count, after / before,
          best.memory_mb[pair.many][column] / std::max(best.memory_mb[pair.few][column], kLeastMb));
      if (std::fabs(after / before - 1.0) <= kEqualMemory) {
        equal.push_back(name);
      } else if (after > before) {
        rising.push_back(name);
      }
      if (best.memory_mb[pair.many][column] >
          best.memory_mb[pair.few][column] * (1.0 + kEqualMemory)) {
        ++ours_rising;
      }
    }
  }
  std::vector<std::string> above;
  for (size_t row = 0; row < table.rows.size(); ++row) {
    for (int column = 0; column < kRatioCount; ++column) {
      if (table.rows[row].ratios[column] <= 1.0) continue;
      above.push_back(absl::StrFormat("%s %s (%.2f, ours %.2f)", table.columns[column],
                                      RowName(table.rows[row]), table.rows[row].ratios[column],
                                      std::max(best.memory_mb[row][kColumnCount - 1], kLeastMb) /
                                          std::max(best.memory_mb[row][column], kLeastMb)));
    }
  }
  int equal_ratios = 0;
  for (const std::array<double, kColumnCount>& row : best.memory_mb) {
    for (int column = 0; column < kRatioCount; ++column) {
      const double ratio = row[kColumnCount - 1] / std::max(row[column], kLeastMb);
      if (std::fabs(ratio - 1.0) <= kEqualMemory) ++equal_ratios;
    }
  }
  const Hypothesis yardstick = YardstickOf(table);
  std::string text = "\n## What stays unexplained\n\nUnder the best hypothesis:\n\n";
  absl::StrAppendFormat(
      &text,
      "- All 84 numbers are off by %s on the mean, the yardstick's by %s: %s. Its ratios are off "
      "by "
      "%s, the yardstick's by %s; %d of our 36 ratios are 1.\n",
      FactorText(best.total_factor), FactorText(yardstick.total_factor),
      best.total_factor < yardstick.total_factor
          ? "the model explains some of how planners and devices differ"
          : "the model explains nothing of how planners and devices differ in this table",
      FactorText(best.ratio_factor), FactorText(yardstick.ratio_factor), equal_ratios);
  absl::StrAppendFormat(&text, "- %d of %d memories are off by a factor of %.0f or more: %s.\n",
                        far.size(), table.rows.size() * kColumnCount, kUnexplained,
                        far.empty() ? "none" : absl::StrJoin(far, "; "));
  absl::StrAppendFormat(&text,
                        "- Memories of the table that do not change when devices double: %s. No "
                        "batch that is fixed or grows with the devices gives that for one planner "
                        "and not for the others.\n",
                        absl::StrJoin(equal, "; "));
  absl::StrAppendFormat(
      &text, "- Memories that rise when devices double, %d of %d (ours: %d): %s.\n", rising.size(),
      DoublingsOf(table).size() * kColumnCount, ours_rising, absl::StrJoin(rising, "; "));
  absl::StrAppendFormat(&text,
                        "- Rows in which the authors are above a rival: %s. A least memory cannot "
                        "be above a rival of the same space, so either the rival has strategies "
                        "that theirs lacks, such as recomputation, or the memory that is measured "
                        "is not the one that is minimised.\n",
                        above.empty() ? "none" : absl::StrJoin(above, "; "));
  return text;
}

nlohmann::ordered_json AnswerJson(const TableMemory& memory) {
  return {{"fits", memory.fits},
          {"needed_bytes", memory.needed.count()},
          {"step_seconds", memory.step.value()},
          {"gist", memory.gist}};
}

nlohmann::ordered_json HypothesisJson(const Hypothesis& h) {
  return {{"definition", DefinitionName(h.definition)},
          {"batch", h.batch_text},
          {"precision", PrecisionText(h.precision)},
          {"optimizer", OptimizerName(h.optimizer)},
          {"global_batch_sizes", h.batches},
          {"memory_mb", h.memory_mb},
          {"total_factor", h.total_factor},
          {"memory_factor", h.memory_factor},
          {"shape_factor", h.shape_factor},
          {"ratio_factor", h.ratio_factor},
          {"ratio_rank_correlation", h.ratio_rank_correlation}};
}

}  // namespace

std::string HypothesisText(const PublishedTable& table, const Hypothesis& best) {
  std::string text = absl::StrFormat(
      "\n## The best one in full\n\n"
      "Memory overhead is %s, batch %s, %s, %s. MB (10^6 bytes): ours / theirs, and the factor "
      "between them.\n\n| model | devices |",
      DefinitionName(best.definition), best.batch_text, PrecisionText(best.precision),
      OptimizerName(best.optimizer));
  for (const std::string& column : table.columns) absl::StrAppend(&text, " ", column, " |");
  text += "\n|---|---|---|---|---|---|\n";
  for (size_t row = 0; row < table.rows.size(); ++row) {
    absl::StrAppendFormat(&text, "| %s | %d |", table.rows[row].model,
                          table.rows[row].device_count);
    for (int column = 0; column < kColumnCount; ++column) {
      const double ours = best.memory_mb[row][column];
      const double theirs = table.rows[row].memory_mb[column];
      absl::StrAppendFormat(&text, " %.0f / %.2f, %.2f |", ours, theirs,
                            std::max(ours, kLeastMb) / theirs);
    }
    text += "\n";
  }
  text += "\nThe ratios of the last column to the others, ours / theirs:\n\n| model | devices |";
  for (int column = 0; column < kRatioCount; ++column) {
    absl::StrAppend(&text, " to ", table.columns[column], " |");
  }
  text += "\n|---|---|---|---|---|\n";
  for (size_t row = 0; row < table.rows.size(); ++row) {
    absl::StrAppendFormat(&text, "| %s | %d |", table.rows[row].model,
                          table.rows[row].device_count);
    for (int column = 0; column < kRatioCount; ++column) {
      const double ratio = std::max(best.memory_mb[row][kColumnCount - 1], kLeastMb) /
                           std::max(best.memory_mb[row][column], kLeastMb);
      absl::StrAppendFormat(&text, " %.2f / %.2f |", ratio, table.rows[row].ratios[column]);
    }
    text += "\n";
  }
  return text;
}

std::string Table2Text(const PublishedTable& table, const ProductRows& product,
                       const std::vector<Hypothesis>& hypotheses) {
  std::string text =
      "# Table 2 of the minimal-memory paper\n\n"
      "Printed by `parplan-study table2`; no clock and no training is involved, so every machine "
      "prints the same. The 48 memories and 36 ratios are those of Shi, Liang, Zheng, Qiao and Li, "
      "FITEE 26(1):109-118, 2025 ([papers.md](../papers.md) 3.2), from "
      "`studies/table2/fitee2025_table2.json`. Ours are predictions. Model shapes are inferred "
      "from the models' names, from memory and unverified (papers.md 3.2).\n\n";
  text += ProductText(table, product);
  if (hypotheses.empty()) return Wrapped(text);
  text += HypothesesText(table, hypotheses);
  text += NearMissText(table, hypotheses);
  text += HypothesisText(table, hypotheses.front());
  text += UnexplainedText(table, hypotheses.front());
  return Wrapped(text);
}

nlohmann::ordered_json Table2Json(const PublishedTable& table, const ProductRows& product,
                                  const std::vector<Hypothesis>& hypotheses) {
  nlohmann::ordered_json object = {{"source", table.source},
                                   {"device", product.device},
                                   {"global_batch_size", product.global_batch_size},
                                   {"columns", table.columns}};
  object["rows"] = nlohmann::ordered_json::array();
  for (size_t row = 0; row < table.rows.size(); ++row) {
    const PublishedRow& published = table.rows[row];
    nlohmann::ordered_json line = {{"model", published.model},
                                   {"device_count", published.device_count},
                                   {"published_memory_mb", published.memory_mb},
                                   {"published_ratios", published.ratios}};
    for (int column = 0; column < kColumnCount; ++column) {
      line[std::string(PlannerOf(static_cast<Column>(column)))] =
          AnswerJson(product.cells[row][column]);
    }
    line["min-memory-ilp-recomputing"] = AnswerJson(product.recomputing[row]);
    object["rows"].push_back(std::move(line));
  }
  object["hypotheses"] = nlohmann::ordered_json::array();
  for (const Hypothesis& h : hypotheses) object["hypotheses"].push_back(HypothesisJson(h));
  return object;
}

}  // namespace parplan::table2
