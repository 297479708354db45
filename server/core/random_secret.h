// Random numbers that cannot be guessed. `AgentCore` calls it.

#ifndef PARPLAN_SERVER_CORE_RANDOM_SECRET_H_
#define PARPLAN_SERVER_CORE_RANDOM_SECRET_H_

#include <string>

namespace parplan {

// Returns 128 random bits of the system's generator as 32 hexadecimal digits, for the ids and
// tokens of leases. Ends the process if the system has none.
std::string RandomSecret();

}  // namespace parplan

#endif  // PARPLAN_SERVER_CORE_RANDOM_SECRET_H_
