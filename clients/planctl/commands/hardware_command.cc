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

absl::Status ListHardware(const Session& session) {
  const HardwareLibrary& library = HardwareLibrary::BuiltIn();
  if (session.json) return Print(session, HardwareListJson(library).dump(2) + "\n");
  return Print(session, HardwareListText(library));
}

absl::Status ShowHardware(const Session& session, const std::string& name) {
  const HardwareLibrary& library = HardwareLibrary::BuiltIn();
  if (session.json) {
    PARPLAN_ASSIGN_OR_RETURN(const nlohmann::ordered_json entry, HardwareEntryJson(library, name));
    return Print(session, entry.dump(2) + "\n");
  }
  PARPLAN_ASSIGN_OR_RETURN(const std::string text, HardwareEntryText(library, name));
  return Print(session, text);
}

}  // namespace

void AddHardwareCommand(Command app, const Session& session, Action& action) {
  Command hardware =
      app.AddCommand("hardware", "Data sheets of devices and fabrics inside this program");
  hardware.Footer("Example:\n  planctl hardware show a100-sxm-80gb");
  hardware.RequireCommand();
  Command list = hardware.AddCommand("list", "Devices, systems and links");
  list.Footer("Example:\n  planctl hardware list");
  list.OnChosen([&session, &action] { action = [&session] { return ListHardware(session); }; });

  auto name = std::make_shared<std::string>();
  Command show = hardware.AddCommand("show", "Every value of one, and its sources");
  show.Footer(
      "Example:\n  planctl hardware show \"NVIDIA H100 80GB HBM3\"\n"
      "  planctl hardware show nvlink-4+hdr-4x200");
  show.AddOption("name", *name, "Device or fabric, or another name of it").Required();
  show.OnChosen([&session, &action, name] {
    action = [&session, name] { return ShowHardware(session, *name); };
  });
}

}  // namespace parplan::planctl
