/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Which codec a call takes that has no bucket, in a drop-in whose programs know nothing of codecs.
 *
 * The patterns of WRING_CODEC_RULES are asked for the name of the operation, as "allreduce". The
 * first one that fits decides, and min= and max= are its sizes. An operation that no pattern fits
 * takes the drop-in's own codec, WRING_MPI_CODEC or WRING_NCCL_CODEC, from its own least size on;
 * one that cannot, as a reduce-scatter cannot take rounds, is exact, which a line says.
 * Calls have no shape, so 1d= says nothing of them. Whatever is no sum of 16 or 32 bits is exact.
 *
 * Threads: what has been read never changes, and any thread may ask it.
 */
#ifndef WRING_RUNTIME_CALL_CODECS_H
#define WRING_RUNTIME_CALL_CODECS_H

#include "base/config.h"
#include <wring/codec.h>
#include <wring/types.h>

#define WRING_CALL_CODECS 4 /* operations of a drop-in, at most */

struct wring_session;

/** A drop-in, to its settings. */
struct wring_call_codecs_dropin {
    const char *library;               /* its file's name */
    const char *setting, *min_setting; /* variables of its own: a codec, and its least bytes */
    struct {
        const char *name; /* NULL: there are no more */
        bool sends_back;  /* all ranks hear the sum, or the root does: it is encoded again */
    } operations[WRING_CALL_CODECS + 1];
};

struct wring_call_codec {
    char spec[WRING_CODEC_SPEC_MAX]; /* "": exact */
    uint64_t least, most;            /* that are encoded, in `in_bytes` or in elements */
    bool in_bytes;
    bool by_rule;
    const char *unfit; /* why the drop-in's own codec is not for it; NULL: it is */
};

struct wring_call_codecs {
    struct wring_call_codec of[WRING_CALL_CODECS]; /* in the drop-in's order of operations */
};

/**
 * Read both settings.
 * @param config     has WRING_CODEC_RULES, and which settings are given
 * @param own        the drop-in's own codec; "": none
 * @param own_bytes  the least that it encodes
 * Errors, logged with their remedy: WRING_ERR_INVALID (a rule or spec that cannot be read, settings
 * that contradict each other), WRING_ERR_UNSUPPORTED (the drop-in's own codec keeps something
 * between calls).
 */
enum wring_status wring_call_codecs_read(struct wring_call_codecs *codecs,
                                         const struct wring_call_codecs_dropin *dropin,
                                         const struct wring_config *config, const char *own,
                                         uint64_t own_bytes, const struct wring_log *log);

/**
 * Whether each operation can take the codec that a rule gives it. Errors: WRING_ERR_UNSUPPORTED,
 * logged with rule, cause and remedy.
 */
enum wring_status wring_call_codecs_check(const struct wring_call_codecs *codecs,
                                          const struct wring_call_codecs_dropin *dropin,
                                          const char *cpu, const struct wring_log *log);

/** Warn of operations that the drop-in's own codec is not for, and of rules that never count for
 * the drop-in's calls: a line for each cause. */
void wring_call_codecs_warn(const struct wring_call_codecs *codecs,
                            const struct wring_call_codecs_dropin *dropin, const char *rules,
                            const struct wring_log *log);

/**
 * Whether all ranks have read the same as rank 0. Collective; nothing is under way. Errors:
 * WRING_ERR_MISMATCH, logged with both ranks' codecs; those of wring_session_exchange().
 */
enum wring_status wring_call_codecs_agree(const struct wring_call_codecs *codecs,
                                          const struct wring_call_codecs_dropin *dropin,
                                          struct wring_session *session);

/** @param operation  index of it
 *  @return a spec, which stays; NULL: the call is exact. The same on all ranks that agreed */
const char *wring_call_codecs_find(const struct wring_call_codecs *codecs, unsigned operation,
                                   enum wring_dtype dtype, enum wring_op op, uint64_t elems);

#endif
