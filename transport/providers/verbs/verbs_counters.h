/* SPDX-License-Identifier: Apache-2.0 */
/** What the verbs provider did, counted, so that its cost per byte can be told. */
#ifndef WRING_VERBS_COUNTERS_H
#define WRING_VERBS_COUNTERS_H

#include <stdbool.h>
#include <stdint.h>

struct wring_provider;

struct wring_verbs_counters {
    uint64_t puts, put_bytes, sends; /* as asked for by the layer above */
    uint64_t requests;               /* posted to send queues: stripes, sends, credits */
    uint64_t signalled;              /* of these, with a completion asked for */
    uint64_t inlined;                /* of these, with their bytes in the request */
    uint64_t doorbells;              /* posts to send queues */
    uint64_t credit_writes;
    uint64_t receives, receive_doorbells; /* posted to receive queues, and posts */
    uint64_t completions;                 /* taken out of completion queues */
    uint64_t control_bytes; /* of control messages, which are copied on their way out */
    uint64_t copied_bytes;  /* of puts, by the CPU: into requests that are sent inline */
    uint64_t registrations; /* of memory, with each device */
    uint64_t paths_lost, trials, resyncs, recoveries;
};

/** What was counted since an earlier look: now -= before. */
void wring_verbs_counters_since(struct wring_verbs_counters *now,
                                const struct wring_verbs_counters *before);

/** @return false where the provider is another one */
bool wring_verbs_counters_of(const struct wring_provider *provider,
                             struct wring_verbs_counters *out);

#endif
