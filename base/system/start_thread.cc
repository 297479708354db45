#include "base/system/start_thread.h"

#include <system_error>
#include <utility>

namespace parplan {

std::thread StartThread(std::function<void()> work) {
  try {
    return std::thread(std::move(work));
  } catch (const std::system_error&) {
    return {};
  }
}

}  // namespace parplan
