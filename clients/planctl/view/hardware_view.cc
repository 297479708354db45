#include "clients/planctl/view/hardware_view.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "clients/planctl/view/text_layout.h"

namespace parplan::planctl {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kLabelWidth = 16;

// A named system, or a combination of links without a name (`entry` is null).
struct FabricEntry {
  const FabricDescription* fabric;
  const v1::FabricDescription* entry;
};

template <typename Strings>
Json JsonList(const Strings& strings) {
  Json list = Json::array();
  for (const auto& string : strings) list.push_back(string);
  return list;
}

// `label` and `value`, broken below itself.
std::string Line(absl::string_view label, absl::string_view value) {
  return absl::StrFormat("%-*s%s\n", kLabelWidth, label, Wrap(value, kLabelWidth));
}

template <typename Strings>
std::string Lines(absl::string_view label, const Strings& values) {
  std::string text;
  for (const auto& value : values) {
    absl::StrAppend(&text, Line(text.empty() ? label : absl::string_view(), value));
  }
  return text;
}

std::string Tera(double rate) { return absl::StrFormat("%.5g TFLOP/s", rate / 1e12); }

std::string Gigabytes(double rate) { return absl::StrFormat("%.5g GB/s", rate / 1e9); }

// `100 Gb/s` means other things to other people; one way, bytes.
std::string LinkText(const LinkDescription& link) {
  return absl::StrCat(link.link_id, ": ", Gigabytes(link.bytes_per_second_per_device),
                      " a device, ",
                      link.bytes_per_second_per_node > 0.0
                          ? absl::StrCat(Gigabytes(link.bytes_per_second_per_node), " a node")
                          : std::string("not shared"),
                      absl::StrFormat(", one way; %.3g us", link.latency.value() * 1e6));
}

Json LinkJson(const LinkDescription& link) {
  return {{"link_id", link.link_id},
          {"bytes_per_second_per_device", link.bytes_per_second_per_device},
          {"bytes_per_second_per_node", link.bytes_per_second_per_node},
          {"latency_seconds", link.latency.value()}};
}

Json LinkJson(const LinkDescription& link, const HardwareLibrary& library) {
  Json json = LinkJson(link);
  for (const auto* const links :
       {&library.message().intra_node_links(), &library.message().inter_node_links()}) {
    for (const v1::LinkDescription& entry : *links) {
      if (entry.link_id() == link.link_id) json["sources"] = JsonList(entry.sources());
    }
  }
  return json;
}

Json FabricJson(const FabricEntry& found, const HardwareLibrary& library) {
  const bool has_name = found.entry != nullptr;
  return {{"fabric_id", found.fabric->fabric_id},
          {"aliases", has_name ? JsonList(found.entry->aliases()) : Json::array()},
          {"intra_node", LinkJson(found.fabric->intra_node, library)},
          {"inter_node", LinkJson(found.fabric->inter_node, library)},
          {"sources", has_name ? JsonList(found.entry->sources()) : Json::array()}};
}

Json DeviceJson(const DeviceDescription& device, const v1::DeviceDescription& entry) {
  Json usual_fabrics = Json::array();
  for (const v1::UsualFabric& usual : entry.usual_fabrics()) {
    usual_fabrics.push_back({{"fabric_id", usual.fabric_id()},
                             {"max_devices_per_node", usual.max_devices_per_node()},
                             {"max_device_count", usual.max_device_count()}});
  }
  return {{"device_id", device.device_id},
          {"device_family", device.device_family},
          {"aliases", JsonList(entry.aliases())},
          {"matrix_flops_16_bit", device.matrix_flops_16_bit},
          {"matrix_flops_8_bit", device.matrix_flops_8_bit},
          {"matrix_flops_4_bit", device.matrix_flops_4_bit},
          {"matrix_flops_fp32", device.matrix_flops_fp32},
          {"vector_flops_fp32", device.vector_flops_fp32},
          {"memory_bytes", device.memory.count()},
          {"memory_bytes_per_second", device.memory_bytes_per_second},
          {"last_level_cache_bytes", device.last_level_cache.count()},
          {"multiprocessor_count", device.multiprocessor_count},
          {"power_limit_watts", device.power_limit_watts},
          {"usual_fabrics", usual_fabrics},
          {"sources", JsonList(entry.sources())}};
}

std::string Watts(double watts) { return absl::StrFormat("%.0f W", watts); }

// Returns nothing for a value that the data sheet leaves out.
std::string OptionalLine(const char* name, double value, std::string (*text_of)(double)) {
  return value > 0.0 ? Line(name, text_of(value)) : std::string();
}

std::string DeviceText(const DeviceDescription& device, const v1::DeviceDescription& entry) {
  std::vector<std::string> fabrics;
  for (const v1::UsualFabric& usual : entry.usual_fabrics()) {
    std::string words = usual.fabric_id();
    if (usual.max_devices_per_node() > 0) {
      absl::StrAppend(&words, ", nodes of at most ", usual.max_devices_per_node());
    }
    if (usual.max_device_count() > 0) {
      absl::StrAppend(&words, ", at most ", usual.max_device_count(), " in all");
    }
    fabrics.push_back(words);
  }
  return absl::StrCat(Line("device", device.device_id), Line("family", device.device_family),
                      Line("also", absl::StrJoin(entry.aliases(), ", ")),
                      Line("matrix 16-bit", Tera(device.matrix_flops_16_bit)),
                      OptionalLine("matrix 8-bit", device.matrix_flops_8_bit, Tera),
                      OptionalLine("matrix 4-bit", device.matrix_flops_4_bit, Tera),
                      Line("matrix fp32", Tera(device.matrix_flops_fp32)),
                      Line("vector fp32", Tera(device.vector_flops_fp32)),
                      Line("memory", absl::StrFormat("%d bytes, %s", device.memory.count(),
                                                     Gigabytes(device.memory_bytes_per_second))),
                      Line("cache", absl::StrCat(device.last_level_cache.count(), " bytes")),
                      Line("multiprocessors", absl::StrCat(device.multiprocessor_count)),
                      OptionalLine("power limit", device.power_limit_watts, Watts),
                      Lines("usual fabric", fabrics), Lines("sources", entry.sources()));
}

std::string FabricText(const FabricEntry& found, const HardwareLibrary& library) {
  const Json json = FabricJson(found, library);
  const bool has_name = found.entry != nullptr;
  const auto sources = [](const Json& part) {
    return part.value("sources", std::vector<std::string>());
  };
  return absl::StrCat(
      Line("fabric", found.fabric->fabric_id),
      has_name ? Line("also", absl::StrJoin(found.entry->aliases(), ", ")) : std::string(),
      Line("inside a node", LinkText(found.fabric->intra_node)),
      Lines("  sources", sources(json["intra_node"])),
      Line("between nodes", LinkText(found.fabric->inter_node)),
      Lines("  sources", sources(json["inter_node"])), Lines("sources", sources(json)));
}

absl::StatusOr<FabricEntry> FindFabric(const HardwareLibrary& library, absl::string_view name) {
  const FabricDescription* const fabric = library.FindFabric(name);
  if (fabric == nullptr) {
    return MakeError(absl::StatusCode::kNotFound, Reason::kResourceNotFound,
                     absl::StrCat("no device and no fabric is called `", name,
                                  "`; `planctl hardware list` shows all"),
                     {{"name", std::string(name)}});
  }
  return FabricEntry{fabric, library.FindFabricEntry(name)};
}

}  // namespace

std::string HardwareListText(const HardwareLibrary& library) {
  std::string text = absl::StrFormat("%-23s%-14s%14s%10s%12s%6s\n", "device", "family",
                                     "16-bit TFLOP/s", "memory GB", "memory GB/s", "SMs");
  for (const v1::DeviceDescription& entry : library.message().devices()) {
    const DeviceDescription& device = *library.FindDevice(entry.device_id());
    absl::StrAppendFormat(&text, "%-23s%-14s%14.5g%10.1f%12.0f%6d\n", device.device_id,
                          device.device_family, device.matrix_flops_16_bit / 1e12,
                          device.memory.as_double() / 1e9, device.memory_bytes_per_second / 1e9,
                          device.multiprocessor_count);
  }
  absl::StrAppendFormat(&text, "\n%-42s%s\n", "fabric", "systems");
  for (const v1::FabricDescription& entry : library.message().fabrics()) {
    absl::StrAppendFormat(&text, "%-42s%s\n", entry.fabric_id(),
                          Wrap(absl::StrJoin(entry.aliases(), ", "), 42));
  }
  absl::StrAppend(&text, "\nfabrics are also any link inside a node + any between nodes\n");
  const auto links = [&](absl::string_view label, const auto& entries) {
    std::vector<std::string> names;
    for (const v1::LinkDescription& link : entries) names.push_back(link.link_id());
    absl::StrAppend(&text, Line(label, absl::StrJoin(names, " ")));
  };
  links("inside a node", library.message().intra_node_links());
  links("between nodes", library.message().inter_node_links());
  return text;
}

Json HardwareListJson(const HardwareLibrary& library) {
  Json json = {{"devices", Json::array()},
               {"fabrics", Json::array()},
               {"intra_node_links", Json::array()},
               {"inter_node_links", Json::array()}};
  for (const v1::DeviceDescription& entry : library.message().devices()) {
    json["devices"].push_back(DeviceJson(*library.FindDevice(entry.device_id()), entry));
  }
  for (const v1::FabricDescription& entry : library.message().fabrics()) {
    json["fabrics"].push_back(FabricJson({library.FindFabric(entry.fabric_id()), &entry}, library));
  }
  for (const v1::LinkDescription& link : library.message().intra_node_links()) {
    json["intra_node_links"].push_back(link.link_id());
  }
  for (const v1::LinkDescription& link : library.message().inter_node_links()) {
    json["inter_node_links"].push_back(link.link_id());
  }
  return json;
}

absl::StatusOr<std::string> HardwareEntryText(const HardwareLibrary& library,
                                              absl::string_view name) {
  if (const DeviceDescription* const device = library.FindDevice(name); device != nullptr) {
    return DeviceText(*device, *library.FindDeviceEntry(name));
  }
  PARPLAN_ASSIGN_OR_RETURN(const FabricEntry found, FindFabric(library, name));
  return FabricText(found, library);
}

absl::StatusOr<Json> HardwareEntryJson(const HardwareLibrary& library, absl::string_view name) {
  if (const DeviceDescription* const device = library.FindDevice(name); device != nullptr) {
    return DeviceJson(*device, *library.FindDeviceEntry(name));
  }
  PARPLAN_ASSIGN_OR_RETURN(const FabricEntry found, FindFabric(library, name));
  return FabricJson(found, library);
}

}  // namespace parplan::planctl
