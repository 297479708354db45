#include "proto/wire/hardware_library.h"

#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/check.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "proto/wire/embedded_files.h"
#include "proto/wire/field_path.h"
#include "proto/wire/hardware_wire.h"
#include "proto/wire/json_file.h"

namespace parplan {
namespace {

absl::Status Refuse(const std::string& field, absl::string_view rule) {
  return FieldError(Reason::kSpecInvalid, field, rule);
}

std::string LookupName(absl::string_view name) {
  const std::string lower = absl::AsciiStrToLower(absl::StripAsciiWhitespace(name));
  return std::string(absl::StripPrefix(lower, "nvidia "));
}

absl::Status AddName(absl::string_view name, int place, const std::string& field,
                     std::map<std::string, int>& index) {
  const std::string lookup = LookupName(name);
  if (lookup.empty()) return Refuse(field, "is empty; give a name or leave it out");
  const auto [entry, is_new] = index.emplace(lookup, place);
  if (!is_new && entry->second != place) {
    return Refuse(field,
                  absl::StrCat("`", name, "` is the name of another entry; cases do not count"));
  }
  return absl::OkStatus();
}

template <typename Entry>
absl::Status RequireSources(const Entry& entry, const std::string& field) {
  if (entry.sources().empty()) {
    return Refuse(JoinPath(field, "sources"), "is empty; say where the values come from");
  }
  for (int i = 0; i < entry.sources_size(); ++i) {
    if (entry.sources(i).empty()) {
      return Refuse(JoinPath(field, "sources", i), "is empty; name a document");
    }
  }
  return absl::OkStatus();
}

int Find(const std::map<std::string, int>& index, absl::string_view name) {
  const auto found = index.find(LookupName(name));
  return found == index.end() ? -1 : found->second;
}

}  // namespace

absl::StatusOr<HardwareLibrary> HardwareLibrary::Create(v1::HardwareLibrary message) {
  HardwareLibrary library;
  library.message_ = std::move(message);
  PARPLAN_RETURN_IF_ERROR(library.AddDevices());
  PARPLAN_RETURN_IF_ERROR(library.AddLinks());
  PARPLAN_RETURN_IF_ERROR(library.AddFabrics());
  PARPLAN_RETURN_IF_ERROR(library.CheckUsualFabrics());
  return library;
}

const HardwareLibrary& HardwareLibrary::BuiltIn() {
  static const HardwareLibrary* const library = [] {
    v1::HardwareLibrary message;
    for (const EmbeddedFile& file : BuiltInHardwareFiles()) {
      v1::HardwareLibrary part;
      const absl::Status status = ParseJson(file.text, file.name, &part);
      PARPLAN_CHECK(status.ok());
      message.MergeFrom(part);
    }
    absl::StatusOr<HardwareLibrary> made = Create(std::move(message));
    PARPLAN_CHECK(made.ok());
    return new HardwareLibrary(*std::move(made));
  }();
  return *library;
}

absl::Status HardwareLibrary::AddDevices() {
  for (int i = 0; i < message_.devices_size(); ++i) {
    const v1::DeviceDescription& entry = message_.devices(i);
    const std::string field = JoinPath("", "devices", i);
    PARPLAN_ASSIGN_OR_RETURN(DeviceDescription device, DeviceFromProto(entry, field));
    PARPLAN_RETURN_IF_ERROR(RequireSources(entry, field));
    PARPLAN_RETURN_IF_ERROR(
        AddName(entry.device_id(), i, JoinPath(field, "device_id"), device_index_));
    for (int j = 0; j < entry.aliases_size(); ++j) {
      PARPLAN_RETURN_IF_ERROR(
          AddName(entry.aliases(j), i, JoinPath(field, "aliases", j), device_index_));
    }
    devices_.push_back(std::move(device));
  }
  return absl::OkStatus();
}

absl::Status HardwareLibrary::AddLinks() {
  std::set<std::string> names;
  const auto add = [&](const v1::LinkDescription& entry, const std::string& field,
                       std::vector<LinkDescription>& links) -> absl::Status {
    PARPLAN_ASSIGN_OR_RETURN(LinkDescription link, LinkFromProto(entry, field));
    PARPLAN_RETURN_IF_ERROR(RequireSources(entry, field));
    if (!names.insert(link.link_id).second) {
      return Refuse(JoinPath(field, "link_id"), absl::StrCat("`", link.link_id, "` is taken"));
    }
    links.push_back(std::move(link));
    return absl::OkStatus();
  };
  for (int i = 0; i < message_.intra_node_links_size(); ++i) {
    PARPLAN_RETURN_IF_ERROR(
        add(message_.intra_node_links(i), JoinPath("", "intra_node_links", i), intra_node_links_));
  }
  for (int i = 0; i < message_.inter_node_links_size(); ++i) {
    PARPLAN_RETURN_IF_ERROR(
        add(message_.inter_node_links(i), JoinPath("", "inter_node_links", i), inter_node_links_));
  }
  for (const LinkDescription& intra_node : intra_node_links_) {
    for (const LinkDescription& inter_node : inter_node_links_) {
      FabricDescription fabric;
      fabric.fabric_id = absl::StrCat(intra_node.link_id, "+", inter_node.link_id);
      fabric.intra_node = intra_node;
      fabric.inter_node = inter_node;
      fabric_index_.emplace(fabric.fabric_id, static_cast<int>(fabrics_.size()));
      fabrics_.push_back(std::move(fabric));
    }
  }
  return absl::OkStatus();
}

absl::Status HardwareLibrary::AddFabrics() {
  for (int i = 0; i < message_.fabrics_size(); ++i) {
    const v1::FabricDescription& entry = message_.fabrics(i);
    const std::string field = JoinPath("", "fabrics", i);
    const int place = Find(fabric_index_, entry.fabric_id());
    if (place < 0 || entry.has_intra_node() || entry.has_inter_node()) {
      return Refuse(JoinPath(field, "fabric_id"),
                    absl::StrCat("`", entry.fabric_id(),
                                 "` is not the name of a link inside a node, `+` and the name of "
                                 "a link between nodes; a library says no more of a fabric"));
    }
    PARPLAN_RETURN_IF_ERROR(RequireSources(entry, field));
    PARPLAN_RETURN_IF_ERROR(
        AddName(entry.fabric_id(), i, JoinPath(field, "fabric_id"), fabric_entry_index_));
    for (int j = 0; j < entry.aliases_size(); ++j) {
      const std::string alias_field = JoinPath(field, "aliases", j);
      PARPLAN_RETURN_IF_ERROR(AddName(entry.aliases(j), i, alias_field, fabric_entry_index_));
      PARPLAN_RETURN_IF_ERROR(AddName(entry.aliases(j), place, alias_field, fabric_index_));
    }
  }
  return absl::OkStatus();
}

absl::Status HardwareLibrary::CheckUsualFabrics() const {
  for (int i = 0; i < message_.devices_size(); ++i) {
    const v1::DeviceDescription& device = message_.devices(i);
    for (int j = 0; j < device.usual_fabrics_size(); ++j) {
      const v1::UsualFabric& usual = device.usual_fabrics(j);
      const std::string field = JoinPath(JoinPath("", "devices", i), "usual_fabrics", j);
      if (FindFabric(usual.fabric_id()) == nullptr) {
        return Refuse(JoinPath(field, "fabric_id"),
                      absl::StrCat("`", usual.fabric_id(), "` is no fabric of the library"));
      }
      if (usual.max_devices_per_node() < 0) {
        return Refuse(JoinPath(field, "max_devices_per_node"), "must be 0 (any) or more");
      }
      if (usual.max_device_count() < 0) {
        return Refuse(JoinPath(field, "max_device_count"), "must be 0 (any) or more");
      }
    }
  }
  return absl::OkStatus();
}

const DeviceDescription* HardwareLibrary::FindDevice(absl::string_view name) const {
  const int place = Find(device_index_, name);
  return place < 0 ? nullptr : &devices_[place];
}

const v1::DeviceDescription* HardwareLibrary::FindDeviceEntry(absl::string_view name) const {
  const int place = Find(device_index_, name);
  return place < 0 ? nullptr : &message_.devices(place);
}

const FabricDescription* HardwareLibrary::FindFabric(absl::string_view name) const {
  const int place = Find(fabric_index_, name);
  return place < 0 ? nullptr : &fabrics_[place];
}

const v1::FabricDescription* HardwareLibrary::FindFabricEntry(absl::string_view name) const {
  const int place = Find(fabric_entry_index_, name);
  return place < 0 ? nullptr : &message_.fabrics(place);
}

const FabricDescription* HardwareLibrary::DefaultFabricFor(absl::string_view device_id,
                                                           int devices_per_node,
                                                           int device_count) const {
  const v1::DeviceDescription* const device = FindDeviceEntry(device_id);
  if (device == nullptr) return nullptr;
  for (const v1::UsualFabric& usual : device->usual_fabrics()) {
    const bool node_fits =
        usual.max_devices_per_node() == 0 || devices_per_node <= usual.max_devices_per_node();
    const bool cluster_fits = usual.max_device_count() == 0 ||
                              (device_count > 0 && device_count <= usual.max_device_count());
    if (node_fits && cluster_fits) return FindFabric(usual.fabric_id());
  }
  return nullptr;
}

}  // namespace parplan
