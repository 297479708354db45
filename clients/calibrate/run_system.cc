#include "clients/calibrate/run_system.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/check.h"
#include "base/error.h"
#include "proto/wire/hardware_library.h"

namespace parplan::accuracy {
namespace {

// Kinds of networks by the words of texts, and the beginnings of link ids.
struct NetworkWord {
  absl::string_view word;
  absl::string_view kind;
};
constexpr NetworkWord kNetworks[] = {
    {"hdr", "hdr"},
    {"ndr", "ndr"},
    {"xdr", "xdr"},
    {"edr", "edr"},
    {"omnipath", "omnipath"},
    {"omni-path", "omnipath"},
    {"slingshot", "slingshot"},
    {"roce", "roce"},
    {"efa", "efa"},
    {"ethernet", "ethernet"},
    {"gbe", "ethernet"},
};

bool IsWordCharacter(char c) { return absl::ascii_isalnum(c); }

// Whether `words`, as a whole, stand in `text`.
bool HasWords(absl::string_view text, absl::string_view words) {
  for (size_t at = text.find(words); at != absl::string_view::npos; at = text.find(words, at + 1)) {
    const size_t end = at + words.size();
    if ((at == 0 || !IsWordCharacter(text[at - 1])) &&
        (end == text.size() || !IsWordCharacter(text[end]))) {
      return true;
    }
  }
  return false;
}

// Lower case, with hyphens as spaces.
std::string Loose(absl::string_view text) {
  return absl::StrReplaceAll(absl::AsciiStrToLower(text), {{"-", " "}, {"_", " "}});
}

// The number that ends at `end`, and where it begins; -1 for none.
int NumberBefore(absl::string_view text, size_t end, size_t* begin) {
  size_t at = end;
  while (at > 0 && absl::ascii_isdigit(text[at - 1])) --at;
  *begin = at;
  if (at == end || end - at > 5) return -1;
  return std::atoi(std::string(text.substr(at, end - at)).c_str());
}

// Returns the number before the `x` that ends at `end`; -1 if there is none.
int CountBefore(absl::string_view text, size_t end) {
  --end;
  while (end > 0 && text[end - 1] == ' ') --end;
  size_t begin = end;
  return NumberBefore(text, end, &begin);
}

// Returns the count that stands in the same clause before the rate at `end`, with other words
// between them, as in `4x OmniPath 100Gb/s`; 1 if there is none.
int CountInClause(absl::string_view text, size_t end) {
  for (size_t at = end; at > 0 && text[at - 1] != ';' && text[at - 1] != '('; --at) {
    if (text[at - 1] != 'x' || (at < end && IsWordCharacter(text[at]))) continue;
    const int count = CountBefore(text, at);
    if (count > 0) return count;
  }
  return 1;
}

// Returns the kind of InfiniBand whose adapters have this rate; empty if there is none.
absl::string_view InfiniBandOf(int gigabits_per_second) {
  switch (gigabits_per_second) {
    case 100:
      return "edr";
    case 200:
      return "hdr";
    case 400:
      return "ndr";
    case 800:
      return "xdr";
    default:
      return "";
  }
}

// Returns the part of a text on all networks of a node that computation uses.
absl::string_view ComputeNetwork(absl::string_view text) {
  const size_t at = text.find("Compute:");
  if (at == absl::string_view::npos) return text;
  text.remove_prefix(at);
  return text.substr(0, text.find(", "));
}

// Returns `device` with what the source says of it beyond the data sheet.
DeviceDescription Adjusted(DeviceDescription device, const PublishedHardware& hardware) {
  if (hardware.memory_terabytes_per_second > 0.0) {
    device.memory_bytes_per_second = hardware.memory_terabytes_per_second * 1e12;
  }
  if (hardware.power_limit_watts > 0.0) device.power_limit_watts = hardware.power_limit_watts;
  return device;
}

const FabricDescription* NamedFabric(absl::string_view text) {
  const HardwareLibrary& library = HardwareLibrary::BuiltIn();
  const std::string loose = Loose(text);
  for (const v1::FabricDescription& fabric : library.message().fabrics()) {
    for (const std::string& alias : fabric.aliases()) {
      if (HasWords(loose, Loose(alias))) return library.FindFabric(fabric.fabric_id());
    }
  }
  return nullptr;
}

}  // namespace

std::optional<AdapterText> AdaptersIn(absl::string_view text) {
  const std::string lower = absl::AsciiStrToLower(text);
  const absl::string_view view(lower);
  AdapterText adapters;
  for (const NetworkWord& network : kNetworks) {
    if (absl::StrContains(lower, network.word)) {
      adapters.kind = std::string(network.kind);
      break;
    }
  }
  for (absl::string_view unit : {"gb/s", "gbps", "gbit/s", "gbe", "g "}) {
    for (size_t at = view.find(unit); at != absl::string_view::npos; at = view.find(unit, at + 1)) {
      if (text[at + 1] == 'B') continue;  // bytes
      size_t end = at;
      while (end > 0 && view[end - 1] == ' ') --end;
      size_t begin = end;
      const int rate = NumberBefore(view, end, &begin);
      if (rate <= 0) continue;
      while (begin > 0 && view[begin - 1] == ' ') --begin;
      const bool counted = begin > 0 && view[begin - 1] == 'x';
      if (!counted && adapters.kind.empty()) continue;
      adapters.gigabits_per_second = rate;
      adapters.count = counted ? std::max(1, CountBefore(view, begin)) : CountInClause(view, begin);
      if (adapters.kind.empty() &&
          (HasWords(lower, "ib") || absl::StrContains(lower, "infiniband"))) {
        adapters.kind = std::string(InfiniBandOf(rate));
      }
      return adapters;
    }
  }
  return std::nullopt;
}

absl::StatusOr<DeviceDescription> DeviceOf(const PublishedHardware& hardware) {
  const HardwareLibrary& library = HardwareLibrary::BuiltIn();
  absl::string_view name(hardware.device_name);
  name = absl::StripAsciiWhitespace(name.substr(0, name.find('(')));
  std::string text(name);
  const DeviceDescription* device = library.FindDevice(text);
  if (device == nullptr) {
    text = absl::StrReplaceAll(text, {{"_", "-"}, {" ", "-"}});
    device = library.FindDevice(text);
  }
  const auto far_off = [&hardware](const DeviceDescription& found) {
    // Figures of data sheets and of drivers differ by a tenth at most.
    return std::abs(found.memory.as_double() / 1e9 / hardware.memory_gb - 1.0) > 0.1;
  };
  if (hardware.memory_gb > 0.0 && (device == nullptr || far_off(*device))) {
    const DeviceDescription* variant =
        library.FindDevice(absl::StrCat(text, "-", std::lround(hardware.memory_gb), "GB"));
    if (variant != nullptr) device = variant;
  }
  if (device == nullptr && !hardware.similar_device_name.empty()) {
    device = library.FindDevice(hardware.similar_device_name);
  }
  if (device == nullptr) {
    return FieldError(
        Reason::kSpecInvalid, "hardware.gpu",
        absl::StrCat("`", hardware.device_name,
                     "` is not in the library of devices; add it (docs/hardware.md)"));
  }
  return Adjusted(*device, hardware);
}

int DevicesPerNode(const PublishedHardware& hardware, const DeviceDescription& device,
                   std::vector<std::string>* assumptions) {
  constexpr int kTray = 4;
  constexpr int kRack = 72;
  const bool tray_said = hardware.devices_per_node == kTray;
  if (hardware.devices_per_node > 0 && !tray_said) return hardware.devices_per_node;
  if (absl::StartsWith(device.device_id, "gb") && hardware.device_count > kRack) {
    for (const int rack : {64, kRack}) {
      if (hardware.device_count % rack != 0) continue;
      assumptions->push_back(absl::StrCat("NVLink reaches over racks of ", rack, " devices"));
      return rack;
    }
  }
  // Grace superchips come four to a tray.
  return tray_said || absl::StartsWith(device.device_id, "g") ? kTray : 8;
}

FabricDescription FabricOf(const PublishedHardware& hardware, const DeviceDescription& device,
                           int devices_per_node, int device_count,
                           std::vector<std::string>* assumptions) {
  const HardwareLibrary& library = HardwareLibrary::BuiltIn();
  const FabricDescription* usual =
      library.DefaultFabricFor(device.device_id, devices_per_node, device_count);
  PARPLAN_CHECK(usual != nullptr);
  const bool several_nodes = device_count > devices_per_node;
  if (const FabricDescription* named = NamedFabric(hardware.interconnect)) return *named;
  // NVLink reaches all devices, whatever adapters their nodes have.
  if (hardware.nvlink_domain >= device_count) return *usual;
  std::optional<AdapterText> adapters = AdaptersIn(hardware.interconnect);
  if (!adapters.has_value()) adapters = AdaptersIn(ComputeNetwork(hardware.network_text));
  if (adapters.has_value() && devices_per_node > hardware.devices_per_node &&
      hardware.devices_per_node > 0) {
    // The text is of a tray, and the node is a rack.
    adapters->count *= devices_per_node / hardware.devices_per_node;
  }
  if (!adapters.has_value()) {
    if (several_nodes) {
      assumptions->push_back(absl::StrCat("the network is not said; taken as ", usual->fabric_id));
    }
    return *usual;
  }
  const std::string link = absl::StrCat(adapters->kind.empty() ? "ethernet" : adapters->kind, "-",
                                        adapters->count, "x", adapters->gigabits_per_second);
  const FabricDescription* found =
      library.FindFabric(absl::StrCat(usual->intra_node.link_id, "+", link));
  if (found != nullptr) return *found;
  FabricDescription fabric = *usual;
  fabric.inter_node.link_id = link;
  const double rate = adapters->gigabits_per_second * 1e9 / 8;
  fabric.inter_node.bytes_per_second_per_node = rate * adapters->count;
  fabric.inter_node.bytes_per_second_per_device =
      adapters->count > devices_per_node ? rate * adapters->count / devices_per_node : rate;
  fabric.fabric_id = absl::StrCat(fabric.intra_node.link_id, "+", link);
  return fabric;
}

}  // namespace parplan::accuracy
