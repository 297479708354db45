#include "server/core/observer.h"

namespace parplan {

Observer& Observer::Null() {
  static Observer* const observer = new Observer;
  return *observer;
}

}  // namespace parplan
