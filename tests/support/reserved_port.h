// A port for a server that is told its number.

#ifndef PARPLAN_TESTS_SUPPORT_RESERVED_PORT_H_
#define PARPLAN_TESTS_SUPPORT_RESERVED_PORT_H_

namespace parplan {

// A free TCP port of 127.0.0.1. While the object lives the system gives it to nobody who asks for
// any port; a server that names it, and sets SO_REUSEADDR as servers do, can listen there.
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
