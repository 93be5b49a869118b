/* SPDX-License-Identifier: Apache-2.0 */
#include <wring/bootstrap.h>

#include <stdlib.h>

void wring_blobs_finish(struct wring_blobs *blobs)
{
    free(blobs->offsets);
    free(blobs->storage);
    *blobs = (struct wring_blobs){0};
}
