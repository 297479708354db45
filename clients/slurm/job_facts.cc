#include "clients/slurm/job_facts.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "base/error.h"
#include "base/status_macros.h"

namespace parplan::slurm {
namespace {

constexpr size_t kMaxHostCount = 65536;
constexpr int kMaxDigits = 9;
// Slurm has larger numbers that mean that there is none.
constexpr int64_t kMaxArrayTask = 4000001;
constexpr int64_t kMaxPart = 1024;

absl::Status NoHostList(absl::string_view text) {
  return absl::InvalidArgumentError(absl::StrCat("`", text, "` is no list of hosts"));
}

// The parts of `text` between commas that are not in brackets of any kind.
std::vector<absl::string_view> SplitOutside(absl::string_view text) {
  std::vector<absl::string_view> parts;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i == text.size() || (text[i] == ',' && depth == 0)) {
      parts.push_back(text.substr(begin, i - begin));
      begin = i + 1;
    } else if (text[i] == '[' || text[i] == '(') {
      ++depth;
    } else if (text[i] == ']' || text[i] == ')') {
      --depth;
    }
  }
  return parts;
}

// Numbers of `01-03,7` with the zeros before them.
absl::StatusOr<std::vector<std::string>> ExpandNumbers(absl::string_view text) {
  std::vector<std::string> numbers;
  for (const absl::string_view range : absl::StrSplit(text, ',')) {
    const std::pair<absl::string_view, absl::string_view> ends =
        absl::StrSplit(range, absl::MaxSplits('-', 1));
    const absl::string_view last_text = absl::StrContains(range, '-') ? ends.second : ends.first;
    int first = 0;
    int last = 0;
    const auto is_number = [](absl::string_view digits, int& number) {
      return !digits.empty() && digits.size() <= kMaxDigits &&
             std::all_of(digits.begin(), digits.end(), absl::ascii_isdigit) &&
             absl::SimpleAtoi(digits, &number);
    };
    if (!is_number(ends.first, first) || !is_number(last_text, last) || last < first ||
        static_cast<size_t>(last - first) >= kMaxHostCount) {
      return NoHostList(text);
    }
    for (int number = first; number <= last; ++number) {
      numbers.push_back(absl::StrFormat("%0*d", static_cast<int>(ends.first.size()), number));
    }
  }
  return numbers;
}

absl::StatusOr<std::vector<std::string>> ExpandOne(absl::string_view text) {
  std::vector<std::string> names = {""};
  while (!text.empty()) {
    const size_t open = std::min(text.find('['), text.size());
    const absl::string_view plain = text.substr(0, open);
    if (plain.find_first_of(" ]\t") != absl::string_view::npos) return NoHostList(text);
    for (std::string& name : names) absl::StrAppend(&name, plain);
    if (open == text.size()) break;
    const size_t close = text.find(']', open);
    if (close == absl::string_view::npos) return NoHostList(text);
    PARPLAN_ASSIGN_OR_RETURN(const std::vector<std::string> numbers,
                             ExpandNumbers(text.substr(open + 1, close - open - 1)));
    if (names.size() * numbers.size() > kMaxHostCount) return NoHostList(text);
    std::vector<std::string> longer;
    for (const std::string& name : names) {
      for (const std::string& number : numbers) longer.push_back(name + number);
    }
    names = std::move(longer);
    text.remove_prefix(close + 1);
  }
  return names;
}

absl::Status LooksLikeFacts(absl::string_view start) {
  return FieldError(
      Reason::kSpecInvalid, "name of the job",
      absl::StrCat("must hold no line that begins with `", start,
                   "`, nor must its comment or another text, because scontrol reports facts about "
                   "the job by such lines; give it another one, for example with --job-name"));
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ExpandHosts(absl::string_view host_list) {
  std::vector<std::string> hosts;
  for (const absl::string_view part : SplitOutside(host_list)) {
    if (part.empty()) return NoHostList(host_list);
    PARPLAN_ASSIGN_OR_RETURN(std::vector<std::string> names, ExpandOne(part));
    hosts.insert(hosts.end(), names.begin(), names.end());
    if (hosts.size() > kMaxHostCount) return NoHostList(host_list);
  }
  return hosts;
}

absl::StatusOr<std::vector<GresCount>> ParseGres(absl::string_view text) {
  std::vector<GresCount> found;
  if (text.empty() || text == "(null)") return found;
  for (const absl::string_view part : SplitOutside(text)) {
    absl::string_view name = part.substr(0, part.find('('));
    absl::string_view details = part.substr(name.size());
    absl::string_view number;
    // Slurm writes `core:here(CNT:2)` if the devices are not files.
    if (absl::ConsumePrefix(&details, "(CNT:")) {
      number = details.substr(0, details.find_first_of(",)"));
    } else if (const size_t colon = name.rfind(':'); colon != absl::string_view::npos) {
      number = name.substr(colon + 1);
      name = name.substr(0, colon);
    }
    int64_t count = 0;
    if (name.empty() || !absl::SimpleAtoi(number, &count) || count < 0) {
      return absl::InvalidArgumentError(absl::StrCat("`", text, "` is no list of GRES"));
    }
    found.push_back({std::string(name), count});
  }
  return found;
}

absl::Duration ParseTimeLimit(absl::string_view text) {
  int64_t days = 0;
  if (const size_t dash = text.find('-'); dash != absl::string_view::npos) {
    if (!absl::SimpleAtoi(text.substr(0, dash), &days)) return absl::InfiniteDuration();
    text.remove_prefix(dash + 1);
  }
  int64_t seconds = 0;
  const std::vector<absl::string_view> parts = absl::StrSplit(text, ':');
  for (const absl::string_view part : parts) {
    int number = 0;
    if (parts.size() != 3 || !absl::SimpleAtoi(part, &number) || number < 0) {
      return absl::InfiniteDuration();
    }
    seconds = seconds * 60 + number;
  }
  return absl::Hours(24) * days + absl::Seconds(seconds);
}

absl::StatusOr<JobFacts> JobFromEnvironment(const JobFacts::Lookup& lookup) {
  const auto text = [&](const char* name) {
    const char* const value = lookup(name);
    return std::string(value == nullptr ? "" : value);
  };
  JobFacts job;
  job.job_id = text("SLURM_JOB_ID");
  // It becomes part of paths.
  if (job.job_id.empty() || job.job_id.size() > 20 ||
      !std::all_of(job.job_id.begin(), job.job_id.end(), absl::ascii_isdigit)) {
    return FieldError(Reason::kSpecInvalid, "SLURM_JOB_ID",
                      "must be the number of a job; Slurm sets it for prologs and epilogs");
  }
  job.slurm_name = job.job_id;
  int64_t array = 0;
  int64_t task = 0;
  if (absl::SimpleAtoi(text("SLURM_ARRAY_JOB_ID"), &array) && array > 0 &&
      absl::SimpleAtoi(text("SLURM_ARRAY_TASK_ID"), &task) && task >= 0 && task <= kMaxArrayTask) {
    job.slurm_name = absl::StrCat(array, "_", task);
  }
  int64_t whole = 0;
  int64_t part = 0;
  if (absl::SimpleAtoi(text("SLURM_HET_JOB_ID"), &whole) && whole > 0 &&
      absl::SimpleAtoi(text("SLURM_HET_JOB_OFFSET"), &part) && part >= 0 && part <= kMaxPart) {
    job.slurm_name = absl::StrCat(whole, "+", part);
  }
  if (!absl::SimpleAtoi(text("SLURM_JOB_RESTART_COUNT"), &job.restart_count)) job.restart_count = 0;
  JobWishes& wishes = job.wishes;
  if (const std::string plan = text("SPANK_PARPLAN_PLAN"); !plan.empty()) wishes.plan = plan;
  wishes.model = text("SPANK_PARPLAN_MODEL");
  wishes.planner = text("SPANK_PARPLAN_PLANNER");
  wishes.runtime = text("SPANK_PARPLAN_RUNTIME");
  wishes.target = text("SPANK_PARPLAN_TARGET");
  wishes.space = text("SPANK_PARPLAN_SPACE");
  wishes.exports = text("SPANK_PARPLAN_EXPORT");
  // A batch size that is no number is refused later, like 0.
  if (!absl::SimpleAtoi(text("SPANK_PARPLAN_BATCH"), &wishes.global_batch_size)) {
    wishes.global_batch_size = 0;
  }
  return job;
}

absl::StatusOr<absl::string_view> OnlyLine(absl::string_view scontrol_text,
                                           absl::string_view start) {
  absl::string_view found;
  for (absl::string_view line : absl::StrSplit(scontrol_text, '\n')) {
    line = absl::StripAsciiWhitespace(line);
    if (!absl::StartsWith(line, start)) continue;
    if (!found.empty()) {
      return LooksLikeFacts(start);
    }
    found = line;
  }
  if (found.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("scontrol reports no `", start, "`"));
  }
  return found;
}

std::string FieldOf(absl::string_view scontrol_text, absl::string_view name) {
  const std::string start = absl::StrCat(name, "=");
  for (absl::string_view word :
       absl::StrSplit(scontrol_text, absl::ByAnyChar(" \n\t"), absl::SkipEmpty())) {
    if (absl::ConsumePrefix(&word, start)) return std::string(word);
  }
  return "";
}

absl::Status AddJobDetails(absl::string_view scontrol_text, absl::string_view node_list,
                           JobFacts& job) {
  PARPLAN_ASSIGN_OR_RETURN(const absl::string_view first, OnlyLine(scontrol_text, "JobId="));
  if (FieldOf(first, "JobId") != job.job_id) {
    return absl::InvalidArgumentError(absl::StrCat("scontrol does not report job ", job.job_id));
  }
  PARPLAN_ASSIGN_OR_RETURN(const absl::string_view requeue, OnlyLine(scontrol_text, "Requeue="));
  PARPLAN_ASSIGN_OR_RETURN(const absl::string_view run_time, OnlyLine(scontrol_text, "RunTime="));
  PARPLAN_ASSIGN_OR_RETURN(const absl::string_view submit, OnlyLine(scontrol_text, "SubmitTime="));
  (void)absl::SimpleAtoi(FieldOf(requeue, "Restarts"), &job.restart_count);
  job.time_limit = ParseTimeLimit(FieldOf(run_time, "TimeLimit"));
  job.submit_time = FieldOf(submit, "SubmitTime");
  const absl::StatusOr<std::vector<std::string>> listed = ExpandHosts(node_list);
  if (!listed.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("SLURM_JOB_NODELIST: ", listed.status().message()));
  }
  const std::set<std::string> mine(listed->begin(), listed->end());
  // Scontrol reports every node of the job, so a line that a user made up about one of them is the
  // second about it. Other nodes do not count.
  std::map<std::string, std::vector<GresCount>> gres;
  for (absl::string_view line : absl::StrSplit(scontrol_text, '\n')) {
    line = absl::StripAsciiWhitespace(line);
    if (!absl::StartsWith(line, "Nodes=")) continue;
    PARPLAN_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                             ExpandHosts(FieldOf(line, "Nodes")));
    PARPLAN_ASSIGN_OR_RETURN(const std::vector<GresCount> found, ParseGres(FieldOf(line, "GRES")));
    for (const std::string& name : names) {
      if (mine.contains(name) && !gres.emplace(name, found).second) return LooksLikeFacts("Nodes=");
    }
  }
  job.nodes.clear();
  for (const std::string& name : *listed) {
    const auto found = gres.find(name);
    if (found == gres.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("scontrol does not report what the job has of ", name));
    }
    job.nodes.push_back({name, found->second});
  }
  return absl::OkStatus();
}

}  // namespace parplan::slurm
