#include "profiler-agent/measure/torch_job.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "executor/device/ranks/child_process.h"
#include "profiler-agent/measure/process_group.h"
#include "profiler-agent/measure/temporary_file.h"
#include "profiler-agent/probe/probe_plan.h"
#include "proto/wire/duration_wire.h"
#include "proto/wire/json_file.h"

namespace parplan {
namespace {

// Starting Python and reading two files takes a second on a slow disk; importing PyTorch, which
// this does not do, takes ten.
constexpr absl::Duration kVersionLimit = absl::Minutes(1);
// Most models have three kinds of layers, which share the time limit of a model at one size. Below
// a fifth of a second few medians are known.
constexpr int kKindsOfLayers = 3;
constexpr absl::Duration kShortestTime = absl::Milliseconds(200);
constexpr char kHowToInstall[] =
    "install it with pip install 'parplan[torch]', or name it with --torch-program";

// Returns the path of a program.
absl::StatusOr<std::string> PathOf(const std::string& program) {
  if (program.find('/') != std::string::npos) return program;
  const char* const folders = std::getenv("PATH");
  for (const absl::string_view folder :
       absl::StrSplit(folders == nullptr ? "" : folders, ':', absl::SkipEmpty())) {
    std::string path = absl::StrCat(folder, "/", program);
    if (::access(path.c_str(), X_OK) == 0) return path;
  }
  return absl::NotFoundError(absl::StrCat("no folder of PATH has ", program, "; ", kHowToInstall));
}

// Starts `argv`, whose first word is a program.
absl::StatusOr<std::unique_ptr<RankProcesses>> StartProgram(std::vector<std::string> argv,
                                                            RankProcessesOptions options) {
  PARPLAN_ASSIGN_OR_RETURN(argv[0], PathOf(argv[0]));
  options.rank_count = 1;
  options.argv = std::move(argv);
  options.pins = false;
  absl::StatusOr<std::unique_ptr<RankProcesses>> started = RankProcesses::Start(options);
  if (absl::IsNotFound(started.status()) || absl::IsPermissionDenied(started.status())) {
    return absl::Status(started.status().code(),
                        absl::StrCat(started.status().message(), "; ", kHowToInstall));
  }
  return started;
}

// Waits for the only process and names it as the user does.
absl::StatusOr<std::string> ResultOf(RankProcesses& process, absl::string_view program) {
  const absl::Status status = process.Wait();
  if (!status.ok()) {
    return absl::Status(status.code(), absl::StrCat(program, ": ", status.message()));
  }
  return process.results().front();
}

// The file that a child writes its result to.
std::string ResultFile() { return absl::StrCat("/dev/fd/", kResultDescriptor); }

void Append(absl::string_view flag, const std::set<int64_t>& values,
            std::vector<std::string>& words) {
  words.emplace_back(flag);
  for (const int64_t value : values) words.push_back(absl::StrCat(value));
}

absl::StatusOr<std::vector<std::string>> CommandLine(const agent::v1::ProbePlan& plan, int model,
                                                     const std::string& spec_path,
                                                     const TorchJobOptions& options) {
  const agent::v1::TorchProbe& torch = plan.torch();
  std::set<int64_t> degrees = {1};
  std::set<int64_t> samples;
  for (const agent::v1::LayerKey& key : plan.layers()) {
    if (key.model_index() != model) continue;
    degrees.insert(key.tensor_parallel_degree());
    samples.insert(key.micro_batch_size());
  }
  if (samples.empty()) samples.insert(1);
  std::set<int64_t> sizes;
  if (options.measures_collectives) {
    for (const agent::v1::CollectiveKey& key : plan.collectives()) {
      sizes.insert(key.message_size_bytes());
    }
  }
  absl::Duration seconds = kShortestTime;
  if (plan.has_layer_time_limit()) {
    PARPLAN_ASSIGN_OR_RETURN(const absl::Duration limit,
                             DurationFromProto(plan.layer_time_limit(), "layer_time_limit"));
    seconds = std::max(limit / kKindsOfLayers, kShortestTime);
  }
  const std::string count = absl::StrCat(DevicesPerNode(plan));
  std::vector<std::string> words = {torch.program(),
                                    "profile",
                                    "--quiet",
                                    "--model",
                                    torch.models(model),
                                    "--spec",
                                    spec_path,
                                    "--device",
                                    plan.backend(),
                                    "--device-kind",
                                    options.device_kind,
                                    "--devices-per-node",
                                    count,
                                    "--ranks",
                                    count,
                                    "--seconds",
                                    absl::StrCat(absl::ToDoubleSeconds(seconds)),
                                    "--out",
                                    ResultFile()};
  Append("--micro-batch", samples, words);
  Append("--tensor-parallel", degrees, words);
  // Without sizes there are no collectives.
  Append("--message-size", sizes, words);
  if (torch.runtime_id() == "torch-compile") {
    words.emplace_back("--compile");
    words.emplace_back("only");
  }
  words.insert(words.end(), torch.arguments().begin(), torch.arguments().end());
  return words;
}

}  // namespace

absl::StatusOr<std::string> TorchVersion(const std::string& program) {
  RankProcessesOptions options;
  options.time_limit = kVersionLimit;
  // The last line is in the error.
  options.on_line = [](int, absl::string_view) {};
  PARPLAN_ASSIGN_OR_RETURN(
      const std::unique_ptr<RankProcesses> process,
      StartProgram({program, "versions", "--out", ResultFile()}, std::move(options)));
  PARPLAN_ASSIGN_OR_RETURN(const std::string text, ResultOf(*process, program));
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (absl::ConsumePrefix(&line, "torch ") && !line.empty()) return std::string(line);
  }
  return absl::DataLossError(absl::StrCat(program, " versions names no release of torch"));
}

absl::StatusOr<std::unique_ptr<TorchJob>> TorchJob::Start(const agent::v1::ProbePlan& plan,
                                                          int model,
                                                          const TorchJobOptions& options) {
  PARPLAN_ASSIGN_OR_RETURN(std::string spec_path,
                           WriteTemporaryFile("parplan-torch", ToReadableJson(plan.models(model))));
  std::unique_ptr<TorchJob> job(new TorchJob(plan.torch().program(), std::move(spec_path)));
  PARPLAN_ASSIGN_OR_RETURN(std::vector<std::string> words,
                           CommandLine(plan, model, job->spec_path_, options));
  RankProcessesOptions process;
  process.heeds_signals = options.heeds_signals;
  process.time_limit = options.time_limit;
  process.on_line = options.on_line;
  PARPLAN_ASSIGN_OR_RETURN(job->process_, StartProgram(std::move(words), std::move(process)));
  return job;
}

TorchJob::~TorchJob() {
  process_.reset();
  ::unlink(spec_path_.c_str());
}

absl::StatusOr<v1::Profile> TorchJob::Wait() {
  PARPLAN_ASSIGN_OR_RETURN(const std::string text, ResultOf(*process_, program_));
  v1::Profile profile;
  if (text.empty()) return absl::DataLossError(absl::StrCat(program_, " wrote no profile"));
  const absl::Status parsed = ParseJson(text, absl::StrCat("profile of ", program_), &profile);
  if (!parsed.ok()) return absl::DataLossError(parsed.message());
  if (profile.device_kind().empty()) {
    return absl::DataLossError(absl::StrCat(program_, " wrote an empty profile"));
  }
  return profile;
}

std::vector<pid_t> TorchJob::pids() const { return ProcessesOfGroup(process_->pids().front()); }

}  // namespace parplan
