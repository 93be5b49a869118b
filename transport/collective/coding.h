/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The state that steps by some codecs need besides their pieces. It holds the statistics of rounds,
 * which are reduced before the first piece is encoded. It also has room for codes of our own shard
 * where that is encoded like all others. It belongs to a bucket, or to one immediate call.
 *
 * A round is a step of its own within the step: a job begins it, the step's channels gather it, and
 * another job ends it. Meanwhile the collective's work is that of the round.
 */
#ifndef WRING_TRANSPORT_CODING_H
#define WRING_TRANSPORT_CODING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <wring/codec.h>

struct wring_coding;
struct wring_collective;
struct wring_work;

/** Bytes of the largest piece that the rounds of a codec can use. @param codec  NULL: raw
 *  @param context  as for a round's count */
size_t wring_coding_piece_bytes(const struct wring_codec *codec,
                                const struct wring_codec_context *context);

/**
 * Make what the work's codec needs; NULL is given for one that needs nothing, and where there are
 * no elements. The collective runs the codec itself, not by legs, and has its members and tasks
 * already, and its slots hold wring_coding_piece_bytes(), or a few KiB. Errors:
 * WRING_ERR_NO_MEMORY.
 */
enum wring_status wring_coding_create(const struct wring_collective *collective,
                                      const struct wring_work *work, struct wring_coding **out);

/** NULL is fine. */
void wring_coding_destroy(struct wring_coding *coding);

/** The statistics of each round; NULL where there are none. @param coding  NULL is fine */
const void *const *wring_coding_statistics(const struct wring_coding *coding);

/** Where REDUCE task number `index` of the collective has the code of our own piece. */
void *wring_coding_own(const struct wring_coding *coding, uint32_t index);

/** Begin the collective's step: its rounds first, if it has some. */
void wring_coding_start(struct wring_collective *collective);

/** A state machine has ended its round, or the step. @return whether the step goes on */
bool wring_coding_goes_on(struct wring_collective *collective);

/** The step has failed, perhaps within a round: its work is what it was posted with. */
void wring_coding_stop(struct wring_collective *collective);

#endif
