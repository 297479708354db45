// `planctl hardware list|show`: the devices and fabrics that plans may be
// estimated for.

#include <memory>
#include <string>

#include <nlohmann/json.hpp>

#include "base/status_macros.h"
#include "clients/planctl/commands/command.h"
#include "clients/planctl/view/hardware_view.h"
#include "proto/wire/hardware_library.h"

namespace parplan::planctl {
namespace {

absl::Status List(const Session& session) {
  const HardwareLibrary& library = HardwareLibrary::BuiltIn();
  if (session.json) return Print(session, HardwareListJson(library).dump(2) + "\n");
  return Print(session, HardwareListText(library));
}

absl::Status Show(const Session& session, const std::string& name) {
  const HardwareLibrary& library = HardwareLibrary::BuiltIn();
  if (session.json) {
    PARPLAN_ASSIGN_OR_RETURN(const nlohmann::ordered_json entry, HardwareEntryJson(library, name));
    return Print(session, entry.dump(2) + "\n");
  }
  PARPLAN_ASSIGN_OR_RETURN(const std::string text, HardwareEntryText(library, name));
  return Print(session, text);
}

}  // namespace

void AddHardwareCommand(CLI::App& app, const Session& session, Action& action) {
  CLI::App* hardware =
      app.add_subcommand("hardware", "Data sheets of devices and fabrics inside this program");
  hardware->footer("Example:\n  planctl hardware show a100-sxm-80gb");
  hardware->require_subcommand(1);
  CLI::App* list = hardware->add_subcommand("list", "Devices, systems and links");
  list->footer("Example:\n  planctl hardware list");
  list->callback([&session, &action] { action = [&session] { return List(session); }; });

  auto name = std::make_shared<std::string>();
  CLI::App* show = hardware->add_subcommand("show", "Every value of one, and its sources");
  show->footer(
      "Example:\n  planctl hardware show \"NVIDIA H100 80GB HBM3\"\n"
      "  planctl hardware show nvlink-4+hdr-4x200");
  show->add_option("name", *name, "Device or fabric, or another name of it")->required();
  show->callback(
      [&session, &action, name] { action = [&session, name] { return Show(session, *name); }; });
}

}  // namespace parplan::planctl
