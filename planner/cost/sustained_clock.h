// The clock that a device holds while its matrix units are busy. `MatrixTime` uses it.

#ifndef PARPLAN_PLANNER_COST_SUSTAINED_CLOCK_H_
#define PARPLAN_PLANNER_COST_SUSTAINED_CLOCK_H_

#include "planner/model/hardware.h"

namespace parplan {

// Returns the share of its clock that `device` holds in large products, relative to an H100 SXM,
// whose sustained rate is the prior of `kMatrixEfficiency` for its family. From above 0 to 1; 1 if
// the power limit is unknown.
//
// Power grows with the clock and the square of the voltage, which grows with the clock: a device
// that may draw a share p of what its peak needs runs at the cube root of p (Mudge, "Power: A
// First-Class Architectural Design Constraint", IEEE Computer 34 (4), 2001, equations 1 and 3). An
// operation needs as much energy as on an H100, because all devices with a power limit in the
// library are of one class of process (TSMC N5, 4N, 4NP, N3P), and half of it in half the bits:
// peaks of fewer bits are higher by as much, so the share holds for every format. (The 4-bit peaks
// of B300 and GB300 are 1.5 times as high as that, which the share leaves out.)
//
//   share = min(1, cbrt((limit / peak) / (700 W / 989.4e12 FLOP/s)))
//
// `limit` is `power_limit_watts` and `peak` is `matrix_flops_16_bit`, above 0 as in any device that
// `DeviceDescription::Create` returns.
double SustainedClockShare(const DeviceDescription& device);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_COST_SUSTAINED_CLOCK_H_
