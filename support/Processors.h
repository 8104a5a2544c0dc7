// How much of the machine this process may use.
#ifndef QUERN_SUPPORT_PROCESSORS_H
#define QUERN_SUPPORT_PROCESSORS_H

namespace quern::support {

/// The processors that this process may use: affinity, then the quotas of its control groups (v2 and v1), at least 1.
int availableThreads();

} // namespace quern::support
#endif
