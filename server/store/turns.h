// Turns of servers that share a store: one at a time works on a key, and the others learn when it
// is done. `PlanCore` asks for a turn before it searches. `PostgresTurns` implements it.

#ifndef PARPLAN_SERVER_STORE_TURNS_H_
#define PARPLAN_SERVER_STORE_TURNS_H_

#include <functional>
#include <memory>
#include <string>

namespace parplan {

// A turn, held as long as the object lives, at most as long as its `Turns`. The turns of a server
// that dies become free. Those of a server that freezes may stay held, but no other server waits
// for them for long: `Granted` receives null.
class Turn {
 public:
  virtual ~Turn() = default;
};

// The queue for turns. Safe to use from any thread.
class Turns {
 public:
  // Receives the turn, or null if the servers cannot reach the database, the holder gives no sign
  // of life or the caller no longer waits. With null the caller goes on as well; at worst the work
  // is done twice.
  using Granted = std::function<void(std::unique_ptr<Turn>)>;

  virtual ~Turns() = default;

  // Returns at once. Calls `granted` once, on a thread of this object, when no other server holds
  // the turn of `key`. Equal keys of one server do not wait for each other. `waits` is called
  // before the first try and, while another server holds the turn, from time to time; false ends
  // the waiting. Of several questions of one key only the one that was asked first is called so, as
  // long as it waits. Both functions must return quickly and must not throw.
  virtual void Ask(const std::string& key, std::function<bool()> waits, Granted granted) = 0;

  // Ends all waiting, now and in later calls of `Ask`: `granted` then receives null. Turns that are
  // held stay.
  virtual void Stop() = 0;
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_STORE_TURNS_H_
