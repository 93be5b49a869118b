/* SPDX-License-Identifier: Apache-2.0 */
/* What saving a state and loading it have in common. */
#include "runtime/session/session.h"
#include "runtime/state_inside.h"

#include <openssl/evp.h>

static uint64_t part_of(uint64_t at, uint64_t begin, uint64_t elems)
{
    uint64_t past = at > begin ? at - begin : 0;
    return past < elems ? past : elems;
}

struct wring_span wring_state_owned(struct wring_bucket *bucket, uint32_t which)
{
    struct wring_span owned = bucket->carrier->owned[which];
    uint64_t begin = bucket->joined_at;
    return (struct wring_span){part_of(owned.begin, begin, bucket->elems),
                               part_of(owned.end, begin, bucket->elems)};
}

enum wring_status wring_state_check(struct wring_session *session)
{
    for (const struct wring_bucket *at = session->buckets; at != NULL; at = at->next) {
        if (!at->committed || at->dropped)
            return WRING_ERR_INVALID;
        if (atomic_load_explicit(&at->collective.status, memory_order_acquire) == WRING_ERR_AGAIN)
            return WRING_ERR_BUSY;
    }
    return WRING_OK;
}

bool wring_state_digest(const uint8_t *data, size_t bytes, uint8_t *out)
{
    return EVP_Digest(data, bytes, out, NULL, EVP_sha256(), NULL) == 1;
}
