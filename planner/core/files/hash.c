/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/core/files/hash.h"

#include <stdlib.h>

#include <openssl/evp.h>

void wring_write_double(struct wring_writer *writer, double number)
{
    uint64_t bits;

    number += 0.0;
    memcpy(&bits, &number, sizeof(bits));
    wring_write_u64(writer, bits);
}

void wring_write_cost(struct wring_writer *writer, const struct wring_cost *cost)
{
    wring_write_u32(writer, cost->n);
    wring_write_double(writer, cost->slope);
    for (uint32_t i = 0; i < cost->n; i++) {
        wring_write_double(writer, cost->corners[i].x);
        wring_write_double(writer, cost->corners[i].y);
    }
}

enum wring_status wring_hash(struct wring_writer *writer, uint64_t *out)
{
    uint8_t digest[EVP_MAX_MD_SIZE];
    bool done = !writer->failed &&
                EVP_Digest(writer->data, writer->bytes, digest, NULL, EVP_sha256(), NULL) == 1;

    free(writer->data);
    *writer = (struct wring_writer){0};
    if (!done)
        return WRING_ERR_NO_MEMORY;
    *out = wring_get_u64(digest);
    return WRING_OK;
}
