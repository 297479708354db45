// Lets one of several servers at a time work on a thing, and tells the others when it is done.

#ifndef PARPLAN_SERVER_STORE_TURNS_H_
#define PARPLAN_SERVER_STORE_TURNS_H_

#include <functional>
#include <memory>
#include <string>

namespace parplan {

// Held as long as it lives. A server that dies gives back all it held.
class Turn {
 public:
  virtual ~Turn() = default;
};

// Safe to use from any thread.
class Turns {
 public:
  // Null where nobody knows whose turn it is, since the servers can't reach one another, or
  // the caller does not wait any more: going on is right, and at worst work is done twice.
  using Granted = std::function<void(std::unique_ptr<Turn>)>;

  virtual ~Turns() = default;

  // Calls `granted` once, on a thread of its own, when no other server holds the turn of
  // `key`; equal keys of one server do not wait for each other. `waits` is asked now and
  // then while another server has it: false ends the waiting. Both return quickly.
  virtual void Ask(const std::string& key, std::function<bool()> waits, Granted granted) = 0;

  // Lets nobody wait any more, now and later.
  virtual void Stop() = 0;
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_STORE_TURNS_H_
