// Rows of published runs and predictions that are plain arithmetic, for tests.

#ifndef PARPLAN_TESTS_CLIENTS_CALIBRATE_ACCURACY_SAMPLES_H_
#define PARPLAN_TESTS_CLIENTS_CALIBRATE_ACCURACY_SAMPLES_H_

#include <string>
#include <vector>

#include "clients/calibrate/published_run.h"
#include "studies/accuracy/accuracy_metrics.h"

namespace parplan::accuracy {

// A file of schema published_runs/1 with these rows, each a JSON object.
NamedText RunsFile(const std::vector<std::string>& rows);

// A valid row: GPT with 2 layers on 8 A100, tensor x data = 2 x 4.
std::string GptRow();

// `row` with the first `from` replaced by `to`. Fails the program when there is none.
std::string With(std::string row, const std::string& from, const std::string& to);

// The only run of such a file; the program fails when it is skipped.
PublishedRun RunOf(const std::string& row);

// The reason for which it is skipped by the reader, or by `QuestionOf`; empty when
// there is none.
std::string SkipReasonOf(const std::string& row);

// A row with a step of `predicted` seconds for `measured`.
AccuracyRow TimedRow(const std::string& id, double predicted, double measured);

// Sources of many kinds, with and without times, peaks, groups and skipped rows.
AccuracySummary SampleSummary(int row_count);

}  // namespace parplan::accuracy

#endif  // PARPLAN_TESTS_CLIENTS_CALIBRATE_ACCURACY_SAMPLES_H_
