/* SPDX-License-Identifier: Apache-2.0 */
/* What `wring bench scale` expects: costs by the textbook, with a latency, a cost of each message
 * and a rate. Nothing here asks the code that it is compared with. */
#include <math.h>

#include "tools/bench/scale.h"

#define PIECE_BYTES ((double)(256 << 10)) /* WRING_CHUNK_BYTES */
#define FOLDED 8                          /* members that exchange all with all */
#define DOUBLING_BYTES (32 << 10)
#define HALVING_BYTES (4 << 20)

/** One after the other out of a port, in pieces; and then the last of them travels. */
static double exchange_ns(const struct wring_sim_params *network, double bytes, double times)
{
    double pieces = bytes > PIECE_BYTES ? ceil(bytes / PIECE_BYTES) : 1;
    return (double)network->latency_ns +
           times * (pieces * (double)network->message_ns + bytes / network->bytes_per_ns);
}

/** Each message but the last is answered by a credit, which goes out ahead of the next one. */
static double credits_ns(const struct wring_sim_params *network, double exchanges)
{
    return (exchanges - 1) * (double)network->message_ns;
}

/** Members beyond a power of two send all they have to one of the others, and get the result. */
static double fold_ns(const struct wring_sim_params *network, double bytes, uint32_t levels)
{
    return network->ranks > 1u << levels
               ? 2 * (exchange_ns(network, bytes, 1) + (double)network->message_ns)
               : 0;
}

double wring_scale_predict_us(const struct wring_sim_params *network, uint64_t total)
{
    double bytes = (double)total, ns = 0;
    uint32_t levels = 31 - (uint32_t)__builtin_clz(network->ranks), n = network->ranks;

    if (n == 1)
        return 0;
    if (n <= FOLDED && total <= DOUBLING_BYTES)
        return exchange_ns(network, bytes, n - 1) / 1e3;
    if (n <= FOLDED)
        return 2 * exchange_ns(network, bytes / n, n - 1) / 1e3;
    if (total > HALVING_BYTES)
        return NAN;
    for (uint32_t level = 0; level < levels; level++)
        ns += total <= DOUBLING_BYTES ? exchange_ns(network, bytes, 1)
                                      : 2 * exchange_ns(network, bytes / (double)(2u << level), 1);
    ns += credits_ns(network, total <= DOUBLING_BYTES ? levels : 2 * levels);
    return (ns + fold_ns(network, bytes, levels)) / 1e3;
}
