#include "executor/device/backend/near_cores.h"

#include <sched.h>

#include <fstream>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace parplan {

std::vector<int> ProcessorsOf(absl::string_view list) {
  std::vector<int> processors;
  for (const absl::string_view entry : absl::StrSplit(absl::StripAsciiWhitespace(list), ',')) {
    const std::vector<absl::string_view> ends = absl::StrSplit(entry, '-');
    int first = 0;
    int last = 0;
    if (ends.size() > 2 || !absl::SimpleAtoi(ends.front(), &first) ||
        !absl::SimpleAtoi(ends.back(), &last) || first < 0 || last < first || last >= CPU_SETSIZE ||
        (!processors.empty() && first <= processors.back())) {
      return {};
    }
    for (int processor = first; processor <= last; ++processor) processors.push_back(processor);
  }
  return processors;
}

int BindNearDevice(std::string pci_address, const std::string& devices) {
  absl::AsciiStrToLower(&pci_address);
  std::string list;
  std::getline(std::ifstream(absl::StrCat(devices, "/", pci_address, "/local_cpulist")), list);
  cpu_set_t own;
  if (::sched_getaffinity(0, sizeof(own), &own) != 0) return 0;
  cpu_set_t near;
  CPU_ZERO(&near);
  for (const int processor : ProcessorsOf(list)) {
    if (CPU_ISSET(processor, &own)) CPU_SET(processor, &near);
  }
  const int count = CPU_COUNT(&near);
  if (count == 0 || count == CPU_COUNT(&own)) return 0;
  return ::sched_setaffinity(0, sizeof(near), &near) == 0 ? count : 0;
}

}  // namespace parplan
