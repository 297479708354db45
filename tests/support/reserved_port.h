// A port for a server that needs its number in advance.

#ifndef PARPLAN_TESTS_SUPPORT_RESERVED_PORT_H_
#define PARPLAN_TESTS_SUPPORT_RESERVED_PORT_H_

namespace parplan {

// A free TCP port of 127.0.0.1. While the object lives, the system gives the port to no program
// that asks for any port. A server that names it, and sets SO_REUSEADDR as servers do, can listen
// on it.
class ReservedPort {
 public:
  // Dies where there is none.
  ReservedPort();
  ~ReservedPort();
  ReservedPort(const ReservedPort&) = delete;
  ReservedPort& operator=(const ReservedPort&) = delete;

  int number() const { return number_; }

 private:
  // Bound, and never listening.
  int socket_ = -1;
  int number_ = 0;
};

}  // namespace parplan

#endif  // PARPLAN_TESTS_SUPPORT_RESERVED_PORT_H_
