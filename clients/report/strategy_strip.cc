// `DistinctStrategies` and `StrategyStrip` of charts.h.

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "clients/report/chart.h"
#include "clients/report/charts.h"
#include "clients/report/html.h"
#include "clients/report/style.h"

namespace parplan::report {
namespace {

// Layers a row can show; a stage with more takes several rows. With fewer than
// the second number the cells do not become wider.
constexpr int kMaxCellsPerRow = 100;
constexpr int kMinCellsPerRow = 12;
// Largest number of pieces that is drawn.
constexpr size_t kMaxPieces = 1500;
// Number of pieces above which tooltips leave out the strategy's words, which the table has.
constexpr size_t kMaxWordyPieces = 300;

// Part of a run of layers that falls into one row.
struct Piece {
  int row = 0;
  int first_cell = 0;
  int cell_count = 0;
  int first_layer = 0;
  const Strategy* strategy = nullptr;
};

std::string Hint(const Piece& piece, int depth, bool wordy,
                 const std::vector<std::string>& layer_names) {
  std::string hint = absl::StrCat(piece.cell_count == 1 ? "layer " : "layers ",
                                  Range(piece.first_layer, piece.cell_count));
  if (static_cast<size_t>(piece.first_layer) < layer_names.size()) {
    absl::StrAppend(&hint, " (", Shorten(layer_names[piece.first_layer], kMaxNameLength), ")");
  }
  absl::StrAppend(&hint, ": ", StrategyNotation(depth, *piece.strategy));
  if (wordy) absl::StrAppend(&hint, ", ", StrategyWords(*piece.strategy));
  return hint;
}

}  // namespace

std::vector<Strategy> DistinctStrategies(const Plan& plan) {
  std::vector<Strategy> strategies;
  for (const StagePlan& stage : plan.stages) {
    for (const StageLayerRun& run : stage.layer_runs) {
      if (std::find(strategies.begin(), strategies.end(), run.strategy) == strategies.end()) {
        strategies.push_back(run.strategy);
      }
    }
  }
  return strategies;
}

std::string StrategyStrip(const Plan& plan, const std::vector<Strategy>& strategies,
                          const std::vector<std::string>& layer_names) {
  int cells = kMinCellsPerRow;
  for (const StagePlan& stage : plan.stages) cells = std::max(cells, stage.layer_count());
  cells = std::min(cells, kMaxCellsPerRow);

  std::vector<std::string> row_names;
  std::vector<Piece> pieces;
  for (size_t i = 0; i < plan.stages.size(); ++i) {
    // A stage without layers has a row of its own, with nothing in it.
    if (plan.stages[i].is_empty()) row_names.push_back(absl::StrCat("stage ", i));
    int cell = cells;  // full: the first layer opens a row
    for (const StageLayerRun& run : plan.stages[i].layer_runs) {
      for (int done = 0; done < run.layer_count;) {
        if (cell == cells) {
          const bool continued =
              !pieces.empty() && run.first_layer_index + done > plan.stages[i].first_layer_index();
          row_names.push_back(continued ? absl::StrCat("from ", run.first_layer_index + done)
                                        : absl::StrCat("stage ", i));
          cell = 0;
        }
        const int count = std::min(run.layer_count - done, cells - cell);
        pieces.push_back({static_cast<int>(row_names.size()) - 1, cell, count,
                          run.first_layer_index + done, &run.strategy});
        cell += count;
        done += count;
      }
    }
  }

  size_t piece_count = 0;
  while (piece_count < std::min(pieces.size(), kMaxPieces) &&
         pieces[piece_count].row < kMaxChartRows) {
    ++piece_count;
  }
  const int row_count = pieces[piece_count - 1].row + 1;
  Chart chart("Strategy of every layer", row_count, /*banner=*/false);
  for (int row = 0; row < row_count; ++row) chart.AddRow(row_names[row], "");
  std::string edges;
  for (size_t i = 0; i < piece_count; ++i) {
    const Piece& piece = pieces[i];
    const auto found = std::find(strategies.begin(), strategies.end(), *piece.strategy);
    const int index = static_cast<int>(found - strategies.begin());
    const double start = static_cast<double>(piece.first_cell) / cells;
    const double end = static_cast<double>(piece.first_cell + piece.cell_count) / cells;
    chart.AddBar(piece.row, start, end, StrategyFillClass(index),
                 Hint(piece, plan.pipeline_parallel_degree(), pieces.size() <= kMaxWordyPieces,
                      layer_names));
    const std::string letter = Letter(index);
    chart.AddWord(piece.row, start, end, "letter", letter, letter.size(), /*plate=*/true);
    for (int cell = 1; cell < piece.cell_count; ++cell) {
      absl::StrAppend(&edges, "M", 1000.0 * (piece.first_cell + cell) / cells, " ",
                      chart.BarTop(piece.row), "v", chart.bar_height());
    }
  }
  chart.AddStretched(absl::StrCat("<path class=\"edges\" d=\"", edges, "\"/>"));
  if (piece_count == pieces.size()) return chart.Html();
  return absl::StrCat(chart.Html(), "<p class=\"quiet\">Drawn are the layers before layer ",
                      pieces[piece_count].first_layer, ".</p>");
}

}  // namespace parplan::report
