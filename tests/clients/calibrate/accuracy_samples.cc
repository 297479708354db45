#include "tests/clients/calibrate/accuracy_samples.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "clients/calibrate/run_problem.h"

namespace parplan::accuracy {

NamedText RunsFile(const std::vector<std::string>& rows) {
  return {"runs.json", absl::StrCat(R"({"schema": "published_runs/1", "runs": [)",
                                    absl::StrJoin(rows, ","), "]}")};
}

std::string GptRow() {
  return R"({
    "id": "gpt-1", "source": "a-source", "split": "validation", "framework": "Megatron-LM",
    "model": {"arch": "gpt", "name": "GPT tiny", "hidden": 1024, "layers": 2, "heads": 16,
              "ffn": 4096, "seq": 2048, "vocab": 50257},
    "hardware": {"gpu": "A100-SXM-80GB", "mem_gb": 80, "gpus_per_node": 8, "n_gpus": 8,
                 "interconnect": "NVLink3; 8x200Gb/s HDR IB per node"},
    "parallel": {"tp": 2, "pp": 1, "dp": 4, "vpp": 1, "zero": 0, "sp": false},
    "batch": {"mbs": 2, "gbs": 64},
    "recompute": "full", "precision": "fp16",
    "measured": {"iter_time_s": 1.5, "peak_mem_gb": 20, "oom": false}
  })";
}

std::string With(std::string row, const std::string& from, const std::string& to) {
  const size_t at = row.find(from);
  PARPLAN_CHECK(at != std::string::npos);
  return row.replace(at, from.size(), to);
}

PublishedRun RunOf(const std::string& row) {
  const absl::StatusOr<PublishedRuns> runs = ReadPublishedRuns(RunsFile({row}));
  PARPLAN_CHECK(runs.ok() && runs->runs.size() == 1);
  return runs->runs.front();
}

std::string SkipReasonOf(const std::string& row) {
  const absl::StatusOr<PublishedRuns> runs = ReadPublishedRuns(RunsFile({row}));
  if (!runs.ok()) return std::string(runs.status().message());
  if (!runs->skipped.empty()) return runs->skipped.front().reason;
  return std::string(QuestionOf(runs->runs.front()).status().message());
}

AccuracyRow TimedRow(const std::string& id, double predicted, double measured) {
  AccuracyRow row;
  row.id = id;
  row.source = "a-source";
  row.job_key = "a-source, job";
  row.plan_key = id;
  row.measured_step = Seconds::Of(measured);
  row.out_of_memory = false;
  row.device_memory = Bytes::Of(80'000'000'000);
  row.prediction.step = Seconds::Of(predicted);
  row.prediction.time_items[TimeItemKind::kForwardCompute] = Seconds::Of(predicted * 0.3);
  row.prediction.time_items[TimeItemKind::kBackwardCompute] = Seconds::Of(predicted * 0.6);
  row.prediction.time_items[TimeItemKind::kTensorParallel] = Seconds::Of(predicted * 0.1);
  return row;
}

AccuracySummary SampleSummary(int row_count) {
  std::vector<AccuracyRow> rows;
  for (int i = 0; i < row_count; ++i) {
    const double measured = 0.02 * std::pow(1.013, i % 700);
    AccuracyRow row = TimedRow(absl::StrCat("run-", i, "-with-a-name-as-long-as-tests-have-<&>"),
                               measured * (0.8 + 0.01 * (i % 37)), measured);
    static constexpr const char* kSources[] = {"bigscience-176b-prequel", "only-memory",
                                               "only-time", "vtrain-single"};
    row.source = kSources[i % 4];
    row.job_key = absl::StrCat(row.source, ", job ", i / 24);
    row.fitted = i % 20 == 3;
    if (i % 4 < 2) {
      row.measured_memory = Bytes::Of(1'000'000'000 + int64_t{40'000'000} * (i % 1900));
      row.prediction.memory_items[MemoryItemKind::kActivations] =
          Bytes::Of(row.measured_memory->count() * (60 + i % 31) / 100);
      row.prediction.memory_items[MemoryItemKind::kOptimizerStates] =
          Bytes::Of(row.measured_memory->count() * 25 / 100);
      row.prediction.memory = row.prediction.memory_items.Total();
      row.prediction.memory_bound = row.prediction.memory * 2;
      row.prediction.memory_upper = row.prediction.memory * 2;
    }
    if (i % 4 == 1) row.measured_step.reset();
    if (i % 40 == 0) row.out_of_memory = true;
    rows.push_back(std::move(row));
  }
  std::vector<SkippedRun> skipped;
  for (int i = 0; i < row_count / 10; ++i) {
    skipped.push_back({absl::StrCat("skipped-", i), "skipped-source",
                       absl::StrCat("model.args.num-layers is missing, reason ", i % 7)});
  }
  return Summarise(std::move(rows), std::move(skipped), "built-in");
}

}  // namespace parplan::accuracy
