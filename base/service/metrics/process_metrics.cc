#include "base/service/metrics/process_metrics.h"

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

namespace parplan {
namespace {

using prometheus::MetricFamily;
using prometheus::MetricType;

std::string ReadProcFile(const char* path) {
  std::ifstream file(path);
  return std::string((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
}

// Places, as in proc(5), of the numbers of /proc/self/stat that become metrics.
struct ProcessStat {
  double cpu_ticks = 0.0;
  double thread_count = 0.0;
  double start_ticks = 0.0;
  double virtual_bytes = 0.0;
  double resident_pages = 0.0;
};

std::optional<ProcessStat> ReadStat() {
  const std::string text = ReadProcFile("/proc/self/stat");
  // The second field is the program's name in parentheses, which may contain anything.
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream rest(text.substr(name_end + 1));
  const std::vector<std::string> fields((std::istream_iterator<std::string>(rest)),
                                        std::istream_iterator<std::string>());
  // The first element of `fields` is the third field.
  constexpr size_t kFirst = 3;
  if (fields.size() <= 24 - kFirst) return std::nullopt;
  const auto field = [&fields](size_t place) { return std::stod(fields[place - kFirst]); };
  ProcessStat stat;
  stat.cpu_ticks = field(14) + field(15);
  stat.thread_count = field(20);
  stat.start_ticks = field(22);
  stat.virtual_bytes = field(23);
  stat.resident_pages = field(24);
  return stat;
}

// Returns when the machine started, in seconds since 1970.
std::optional<double> BootTime() {
  std::istringstream text(ReadProcFile("/proc/stat"));
  std::string word;
  double seconds = 0.0;
  while (text >> word) {
    if (word == "btime" && text >> seconds) return seconds;
  }
  return std::nullopt;
}

std::optional<double> OpenFileCount() {
  std::error_code error;
  std::filesystem::directory_iterator entry("/proc/self/fd", error);
  double count = 0.0;
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) ++count;
  // One of the entries is the descriptor of the folder itself.
  return error ? std::nullopt : std::optional<double>(count - 1.0);
}

class ProcessMetrics : public prometheus::Collectable {
 public:
  std::vector<MetricFamily> Collect() const override {
    std::vector<MetricFamily> families;
    const auto add = [&families](const char* name, const char* help, MetricType type,
                                 double value) {
      MetricFamily family;
      family.name = name;
      family.help = help;
      family.type = type;
      prometheus::ClientMetric& metric = family.metric.emplace_back();
      (type == MetricType::Counter ? metric.counter.value : metric.gauge.value) = value;
      families.push_back(std::move(family));
    };
    if (const std::optional<ProcessStat> stat = ReadStat()) {
      const auto ticks_per_second = static_cast<double>(sysconf(_SC_CLK_TCK));
      add("process_cpu_seconds_total", "Processor time of the process.", MetricType::Counter,
          stat->cpu_ticks / ticks_per_second);
      add("process_resident_memory_bytes", "Memory the process holds.", MetricType::Gauge,
          stat->resident_pages * static_cast<double>(sysconf(_SC_PAGESIZE)));
      add("process_virtual_memory_bytes", "Address space of the process.", MetricType::Gauge,
          stat->virtual_bytes);
      add("process_threads", "Threads of the process.", MetricType::Gauge, stat->thread_count);
      if (const std::optional<double> boot = BootTime()) {
        add("process_start_time_seconds", "When the process started, in seconds since 1970.",
            MetricType::Gauge, *boot + stat->start_ticks / ticks_per_second);
      }
    }
    if (const std::optional<double> count = OpenFileCount()) {
      add("process_open_fds", "Files the process has open.", MetricType::Gauge, *count);
    }
    rlimit limit = {};
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
      add("process_max_fds", "Files the process may have open.", MetricType::Gauge,
          static_cast<double>(limit.rlim_cur));
    }
    return families;
  }
};

}  // namespace

std::shared_ptr<prometheus::Collectable> MakeProcessMetrics() {
  return std::make_shared<ProcessMetrics>();
}

}  // namespace parplan
