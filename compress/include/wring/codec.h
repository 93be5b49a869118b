/* SPDX-License-Identifier: Apache-2.0 */
/**
 * For callers and authors of codecs: a codec encodes a run of float32 gradients in fewer bytes, and
 * decodes them. A program may bring codecs of its own (docs/add-a-codec.md).
 *
 * A codec cuts a bucket into *units*, counted from element 0 of the bucket. It encodes each unit by
 * itself; the code of a run of units is the concatenation of their codes. So callers may cut a
 * bucket into shards and chunks anywhere between units without changing one bit. Only the last
 * unit of a bucket may be short. compress/FORMAT.md has the bytes.
 *
 * A codec object is immutable: any number of threads may use one at once. Residuals, which change
 * from step to step, belong to the caller, who passes them to each call.
 *
 * Every kernel gives the same bits on every CPU and tier. Callers go through wring_job_run()
 * (executor.h), which sets the floating-point mode. Call these functions directly only in the mode
 * that a process starts with: round to nearest even, denormals kept.
 */
#ifndef WRING_CODEC_H
#define WRING_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <wring/status.h>
#include <wring/types.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default) /* the library exports what follows */

#define WRING_CODEC_SPEC_MAX 128 /* bytes of a spec, its NUL included */
#define WRING_CODEC_NAME_MAX 24  /* of a name, its NUL included: [a-z][a-z0-9_-]* */
#define WRING_CODEC_PARAMS_MAX 8
#define WRING_CODEC_ROUNDS_MAX 4
#define WRING_CODEC_STATES_MAX 4

struct wring_codec;

enum wring_codec_flag {
    WRING_CODEC_RAW = 1 << 0,      /* the code is the float32 data itself: nothing to run */
    WRING_CODEC_SUMMABLE = 1 << 1, /* codes of several ranks can be added as they are: raw codes,
                                      and codes of codecs that have code_sum */
    WRING_CODEC_UNBIASED = 1 << 2, /* the expectation of decode(encode(x)) is x */
    WRING_CODEC_FEEDBACK = 1 << 3, /* the spec asked for +ef: callers keep a residual */
    WRING_CODEC_FIXED = 1 << 4, /* a code always takes bound() bytes, so its parts can be located */
    WRING_CODEC_TWO_WAYS = 1 << 5, /* "in>out", and votes: needs a scheme that sends the sum back */
    WRING_CODEC_EXACT = 1 << 6,    /* a code loses nothing, so nothing could be fed back */
    WRING_CODEC_ALTERS = 1 << 7,   /* the decoded values differ from the input on purpose, as with
                                      momentum: no commit bypasses the codec, and an owner encodes its
                                      own contribution as well */
    WRING_CODEC_OWN = 1 << 8, /* an owner encodes its own contribution as well, so that a sum holds
                                 what codes hold and nothing else */
    WRING_CODEC_MATRIX = 1 << 9, /* it codes matrices: a bucket of one tensor that names its shape
                                    travels in fewer bytes than one of several tensors */
    WRING_CODEC_VOTES = 1 << 10, /* a code is one vote of a contribution: a vote of sums would be
                                    another, so a bucket goes flat whatever its scheme */
};

/**
 * The place of a run of elements in the job. Codecs take the tensor's shape from it, and draw
 * random numbers from it. A code is decoded under the context under which it was encoded, so its
 * decoder draws the same numbers.
 */
struct wring_codec_context {
    uint64_t seed;         /* of the job: equal on all ranks */
    uint32_t bucket;       /* id, equal on all ranks */
    uint32_t rank;         /* who encoded; counted in the group */
    uint32_t ranks;        /* in the group: how many contributions are summed */
    uint32_t phase;        /* 0: on the way in; 1: the sum's way back */
    uint64_t step;         /* how often this bucket was posted before */
    uint64_t element;      /* of the bucket, at which the run begins: a multiple of the unit */
    uint64_t first, elems; /* of the bucket, the part that the collective covers: all of it, or this
                              node's part, or one run in a call that has a run for each member */
    uint64_t rows, columns;        /* of the tensor, row after row; 0: it is no matrix */
    const void *const *statistics; /* [rounds] the result of each round, equal on all ranks;
                                      undefined for later rounds, and without any rounds */
    void *const *states; /* [states] each array from its beginning; NULL for codecs without
                            state, and for a decode that is not given them */
};

/** A parameter of a spec, as in "int8:block=512". */
struct wring_codec_param {
    const char *name;
    const char *words; /* a choice: words separated by '|', the value is their index; or NULL */
    const char *doc;   /* one line */
    double fallback;   /* the default */
    double min, max;
    double multiple_of; /* 0: any number */
};

/** Properties that callers and planners need; borrowed from the codec. */
struct wring_codec_info {
    const char *name;     /* "int8" */
    const char *spec;     /* canonical, defaults left out: "int8:block=256+ef" */
    const char *identity; /* the text that ranks compare: the spec, and versions of codecs of a
                             program's own, as in "mine:scale=2 (version 3)" */
    const char *tier;     /* of the kernels chosen: "avx512" */
    unsigned flags;       /* of enum wring_codec_flag */
    unsigned rounds;      /* small all-reduced statistics rounds before the payload round */
    unsigned states;      /* arrays that a bucket keeps beside the residual */
    uint64_t unit;        /* elements; 0: the whole bucket is one unit and cannot be cut */
};

/** Who holds an array of state. This decides where it goes when ranks or owners change. */
enum wring_codec_holder {
    WRING_CODEC_PRIVATE, /* the rank: the array goes with it, no other rank can use it */
    WRING_CODEC_OWNER,   /* the owner of the sums: the array goes to the elements' next owner */
    WRING_CODEC_SHARED,  /* all ranks: they have equal arrays, and may take any rank's */
};

/**
 * An array that a bucket keeps from step to step for its codec, beside the residual: momentum or a
 * mask, for instance. A state of wring_session_save_state() includes it, WRING_ROLLBACK=on takes it
 * back after a failed step, and the bucket's statistics count its bytes. Immediate calls keep no
 * state, and refuse a codec that has some.
 *
 * encode and the rounds find it in context->states, on the way in and back; decode may only read
 * SHARED arrays, and of codes that add up, on the way in, PRIVATE ones: their rank alone decodes
 * them. In an array with a number for each element, number i belongs to element i of the
 * bucket, and a call touches the numbers of its run alone. Any other array is written by rounds, or
 * by encode of a codec whose unit is the whole bucket, because runs are encoded side by side.
 */
struct wring_codec_state {
    const char *name; /* "mom"; saved under it */
    const char *doc;  /* one line */
    enum wring_codec_holder holder;
    enum wring_dtype dtype;

    /** The array's length, a function of the context's elems, rows, columns and ranks. NULL: one
     *  for each element, which an OWNER's array must have. */
    uint64_t (*count)(const struct wring_codec *codec, const struct wring_codec_context *context);

    /** Fill the array before the first step: a function of its arguments. NULL: zeros.
     *  @param state  out, [count] of dtype, aligned to 64 bytes, zeros until then */
    void (*init)(const struct wring_codec *codec, const struct wring_codec_context *context,
                 void *state, uint64_t count);
};

/**
 * A round: all ranks reduce statistics of the input before anything is encoded, as for a scale that
 * all share. It costs the latency of one small allreduce. Rounds run one after the other. Buckets
 * and wring_allreduce() have them; other calls refuse such a codec.
 */
struct wring_codec_round {
    const char *name;       /* "scale" */
    enum wring_dtype dtype; /* of the statistics: f32, f64, i32 or i64 */
    enum wring_op op;       /* sum, min or max. A sum of floats is in the order of FORMAT.md */

    /** Number of statistics, a function of the context's elems, rows, columns and ranks. Its first
     *  and elems name the elements that the round covers. */
    uint64_t (*count)(const struct wring_codec *codec, const struct wring_codec_context *context);

    /**
     * Fold a run of whole units into the statistics of this rank, which begin as the operation's
     * identity. Runs come in order, each element once, in one thread at a time.
     * @param src         in, [elems]
     * @param residual    in, [elems]; NULL without error feedback
     * @param statistics  in and out, [count] of dtype
     * @param scratch     [scratch_bytes], aligned to 64 bytes
     */
    void (*begin)(const struct wring_codec *codec, const struct wring_codec_context *context,
                  const float *src, uint64_t elems, const float *residual, void *statistics,
                  void *scratch);

    /** Turn the statistics, reduced over all ranks, into those that encode and decode read. NULL:
     *  they stay as they are. All ranks call it, so it must be a function of its arguments. */
    void (*end)(const struct wring_codec *codec, const struct wring_codec_context *context,
                void *statistics, uint64_t count);
};

#define WRING_CODEC_SCRATCH_MAX ((size_t)160 << 10)
#define WRING_CODEC_OWN_MAX ((size_t)64 << 10)

/**
 * For authors of codecs. The library's codecs stand in one visible table, in compress/codec.c; a
 * program hands its own to wring_session_open().
 *
 * `code` sizes: encode never writes more than bound(elems) bytes. decode gets exactly the bytes
 * that encode said it wrote, or hostile bytes of any length. All functions but init may run in
 * several threads at once. They run on the caller's stack; a frame takes 16 KiB of it at most.
 */
struct wring_codec_ops {
    size_t struct_bytes; /* sizeof(struct wring_codec_ops) as the author compiled it: later
                            releases add entries at the end, and missing ones count as zero */
    uint32_t version;    /* of the codes, counted by the author: commits and calls of ranks whose
                            versions differ fail */
    const char *name;    /* see WRING_CODEC_NAME_MAX; no other codec has it */
    const char *doc;     /* one line */
    unsigned flags;      /* UNBIASED, FIXED, EXACT, ALTERS, OWN, MATRIX, VOTES */
    const struct wring_codec_param *params; /* [n_params] */
    size_t n_params;
    size_t scratch_bytes; /* that an encode works in, up to WRING_CODEC_SCRATCH_MAX */
    size_t own_bytes;     /* of each codec object, up to WRING_CODEC_OWN_MAX: zeros until init fills
                             them. See wring_codec_own() */

    /**
     * Check the parameters against each other, and fill the object's own memory. NULL: there is
     * nothing to do. Runs in the floating-point mode of jobs, as states' init does.
     * @param why  out, [why_bytes], one line that names fault and remedy, on failure
     * Errors: WRING_ERR_INVALID, WRING_ERR_NO_MEMORY.
     */
    enum wring_status (*init)(struct wring_codec *codec, char *why, size_t why_bytes);

    /** Elements of a unit; 0: the whole bucket is one. */
    uint64_t (*unit)(const struct wring_codec *codec);

    /** The most bytes that elems elements, whole units and perhaps a short last one, can take. */
    size_t (*bound)(const struct wring_codec *codec, uint64_t elems);

    /**
     * code = encode(src + residual); residual = src + residual − decode(code).
     *
     * residual may be NULL (no error feedback). A unit in which src or residual holds NaN or
     * infinity decodes to NaN and leaves its part of the residual as it was. An EXACT codec
     * carries NaN and infinity as they are, and ignores the residual.
     * @param scratch  [scratch_bytes], aligned to 64 bytes, this call's alone
     * @return bytes written
     */
    size_t (*encode)(const struct wring_codec *codec, const struct wring_codec_context *context,
                     const float *src, uint64_t elems, float *residual, void *code, void *scratch);

    /**
     * dst = decode(code), or dst += decode(code) with `add`, where a NaN may have any payload.
     * Checks code before it trusts it.
     * Errors: WRING_ERR_FRAME; dst is then undefined within [0, elems).
     */
    enum wring_status (*decode)(const struct wring_codec *codec,
                                const struct wring_codec_context *context, const void *code,
                                size_t code_bytes, float *dst, uint64_t elems, bool add);

    const struct wring_codec_round *rounds; /* [n_rounds], at most WRING_CODEC_ROUNDS_MAX */
    size_t n_rounds;

    /**
     * sum += code: adds a code to a sum of codes. NULL: codes cannot be added. Needs FIXED.
     * Owners then add codes and send on the sum, or what sum_end makes of it. encode must leave
     * room for the sum of context->ranks codes; decode gets what is sent on under a context of
     * phase 1. The sum must not depend on the order of additions: integers have this property.
     * @param sum         in and out, [bound(elems)], the first code at first; or as sum_bound says
     * @param code_bytes  of the code
     * Errors: WRING_ERR_FRAME (the code is malformed, or the sum overflows).
     */
    enum wring_status (*code_sum)(const struct wring_codec *codec,
                                  const struct wring_codec_context *context, void *sum,
                                  const void *code, size_t code_bytes, uint64_t elems);

    const struct wring_codec_state *states; /* [n_states], at most WRING_CODEC_STATES_MAX */
    size_t n_states;

    /** The most ranks whose codes can be added: buckets and calls of more refuse the codec. NULL:
     *  any number. */
    uint32_t (*most_ranks)(const struct wring_codec *codec);

    /**
     * Write the spec of the codec that takes the sum back, where the user names one codec alone.
     * NULL: it is this codec, with feedback if the user asks for it. The codec's unit is a multiple
     * of the other's, which has no rounds and no state unless it is the same codec.
     * @param spec  out, [WRING_CODEC_SPEC_MAX]
     */
    void (*way_back)(const struct wring_codec *codec, char *spec);

    /**
     * For EXACT codecs that are not FIXED, both or neither: elements of 16 bits as they are, which
     * are widened to float32 else. As encode and decode, and never more than bound(elems) bytes. A
     * sum is rounded to its type before it is encoded, which loses nothing more than rounding it at
     * last.
     * @param dtype  f16 or bf16
     * @param src, dst  [elems] of it; decode16 gives back every bit, and never adds
     */
    size_t (*encode16)(const struct wring_codec *codec, const struct wring_codec_context *context,
                       enum wring_dtype dtype, const void *src, uint64_t elems, void *code,
                       void *scratch);
    enum wring_status (*decode16)(const struct wring_codec *codec,
                                  const struct wring_codec_context *context, enum wring_dtype dtype,
                                  const void *code, size_t code_bytes, void *dst, uint64_t elems);

    /** The bytes of each sum that code_sum makes of elems elements, where it is not laid out as a
     *  code: wider numbers, for instance. It is all zeros before the first code is added. NULL: as
     *  a code. */
    size_t (*sum_bound)(const struct wring_codec *codec, uint64_t elems);

    /**
     * Make of a sum, once all codes are added, what goes back, in place: narrower numbers, for
     * instance, at which the sum saturates. Needs sum_bound. NULL: the sum goes as it is.
     * @param cut  in and out, counts numbers that were too large for that
     * @return its bytes, at most sum_bound(elems)
     */
    size_t (*sum_end)(const struct wring_codec *codec, const struct wring_codec_context *context,
                      void *sum, uint64_t elems, uint64_t *cut);
};

/**
 * Make a codec from a spec such as "none", "bf16", "int8:block=512" or "topk:ratio=0.01+ef". Two
 * specs, as in "onebit+ef>int8", name the codec of contributions and the codec of their sum.
 *
 * @param tier  highest kernel tier by name ("scalar", "avx2", "avx512", "vbmi2", "neon", "best");
 *              NULL = best
 * @param own   a program's own codecs, NULL-terminated, whose texts and functions live as long as
 *              the codec; NULL = none
 * @param why   out, [why_bytes], one line that names the fault and the remedy; may be NULL
 *
 * Errors: WRING_ERR_INVALID (unknown name, parameter or range; own codecs that
 * wring_codec_check_own() refuses), WRING_ERR_NO_MEMORY.
 */
enum wring_status wring_codec_create(const char *spec, const char *tier,
                                     const struct wring_codec_ops *const *own, char *why,
                                     size_t why_bytes, struct wring_codec **out);

/**
 * Check a program's own codecs: whether they are complete, their sizes are in range, and their
 * names are theirs alone. wring_session_open() calls this.
 *
 * @param own  NULL-terminated; NULL = none
 * @param why  out, [why_bytes], one line that names codec, fault and remedy; may be NULL
 *
 * Errors: WRING_ERR_INVALID. Threads: safe.
 */
enum wring_status wring_codec_check_own(const struct wring_codec_ops *const *own, char *why,
                                        size_t why_bytes);

/** Free a codec that no call uses any more. NULL is fine. */
void wring_codec_destroy(struct wring_codec *codec);

/**
 * The codec of one way: 0 in, else back, as the contexts' phase counts. A spec "in>out" has two
 * codecs, each with flags, bound and feedback of its own. A codec that names a way back in its
 * table is the way in itself; any other codec serves both ways. Borrowed. The codec as a whole has
 * the larger unit and bound of both ways, and encodes and decodes by the codec of context->phase.
 * Threads: safe.
 */
const struct wring_codec *wring_codec_way(const struct wring_codec *codec, uint32_t phase);

/** For authors: the value of parameter `index` of ops->params. Threads: safe. */
double wring_codec_param(const struct wring_codec *codec, size_t index);

/**
 * For authors: the [ops->own_bytes] that belong to the object, aligned to 64 bytes. init writes
 * there; afterwards it is only read, as the object is shared by threads.
 */
void *wring_codec_own(const struct wring_codec *codec);

/** Which ranks draw the same random numbers. */
enum wring_codec_draw {
    WRING_DRAW_PRIVATE, /* each rank its own, as for stochastic rounding */
    WRING_DRAW_SHARED,  /* all ranks the same, as for indices that do not travel */
};

/**
 * Random bits for elements of a bucket: a function of the job's seed, the bucket, the step, the
 * rank (or none), the phase and the element alone. The run or chunk of the element does not matter.
 *
 *     words of block b: Philox4x32-10 of counter (b, step) under a key of the rest
 *     out[i] = word (element + i) % 4 of block (element + i) / 4
 *
 * @param context  whose seed, bucket, step, rank and phase count
 * @param element  of the bucket
 * @param out      [n]
 *
 * Threads: safe. Bits: same on every CPU; FORMAT.md, "Random numbers". Source: Salmon and others,
 * Parallel random numbers: as easy as 1, 2, 3, 2011.
 */
void wring_codec_random(const struct wring_codec_context *context, enum wring_codec_draw draw,
                        uint64_t element, uint32_t *out, size_t n);

/** The properties of a codec that callers and planners need; borrowed from it. Threads: safe. */
const struct wring_codec_info *wring_codec_info(const struct wring_codec *codec);

/** The exact worst case in bytes for elems elements that begin a unit. Threads: safe. */
size_t wring_codec_bound(const struct wring_codec *codec, uint64_t elems);

/**
 * Encode a run of elements: code = encode(src + residual).
 *
 * @param src       in, [elems] float32; whole units, and perhaps a short last one
 * @param residual  in and out, [elems], or NULL for no error feedback: becomes the part that the
 * code lost
 * @param code      out, at least wring_codec_bound(codec, elems) bytes
 * @return bytes written
 *
 * A unit in which src or residual holds NaN or infinity decodes to NaN and leaves its part of the
 * residual as it was. An EXACT codec carries it as it is. Threads: safe on different buffers; each
 * needs 32 KiB of stack. If several threads encode at once by one topk or lossless codec object,
 * they allocate memory, or take turns if there is none; jobs never do.
 */
size_t wring_codec_encode(const struct wring_codec *codec,
                          const struct wring_codec_context *context, const float *src,
                          uint64_t elems, float *residual, void *code);

/**
 * Decode a run of elements: dst = decode(code), or dst += decode(code) with `add`.
 *
 * @param code  in, [code_bytes]; checked before it is trusted
 * @param dst   out, [elems] float32; undefined after an error
 *
 * Errors: WRING_ERR_FRAME (malformed code). Threads: safe on different buffers.
 */
enum wring_status wring_codec_decode(const struct wring_codec *codec,
                                     const struct wring_codec_context *context, const void *code,
                                     size_t code_bytes, float *dst, uint64_t elems, bool add);

/** The table of the library's codecs, NULL-terminated, in the order of documentation. */
const struct wring_codec_ops *const *wring_codec_list(void);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop
#endif
