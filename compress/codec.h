/* SPDX-License-Identifier: Apache-2.0 */
/** A codec's own fields, for the codecs. Private to compress/. */
#ifndef WRING_COMPRESS_CODEC_H
#define WRING_COMPRESS_CODEC_H

#include <stdatomic.h>

#include "base/cpu.h"
#include "compress/kernels/kernels.h"
#include <wring/codec.h>

struct wring_momentum_kernels;
struct wring_sparse_kernels;

#define WRING_CODEC_IDENTITY_MAX (WRING_CODEC_SPEC_MAX + 64) /* the versions of two */

/** The tables of a codec that has suffixes, and what those need. */
struct wring_composition {
    struct wring_codec_ops ops;
    struct wring_codec_state states[WRING_CODEC_STATES_MAX];
    struct wring_codec_round rounds[WRING_CODEC_ROUNDS_MAX];
    const struct wring_momentum_kernels *momentum;
    const struct wring_sparse_kernels *sparse;
};

/** What may follow a codec in a spec, in canonical order. They act in this order, too. */
enum wring_suffix {
    WRING_SUFFIX_WARMUP,
    WRING_SUFFIX_MOMENTUM,
    WRING_SUFFIX_NESTEROV,
    WRING_SUFFIX_EF,   /* what is left of input and residual; WRING_CODEC_FEEDBACK says so, too */
    WRING_SUFFIX_EF21, /* so it does of differences; residuals are what was sent, negative */
    WRING_SUFFIXES,
};

/** How residuals are kept, in the order of the words of +ef:residual. */
enum wring_residual_form {
    WRING_RESIDUAL_F32,
    WRING_RESIDUAL_BF16,
    WRING_RESIDUAL_INT8, /* with a step for each 32 */
};

struct wring_codec {
    const struct wring_codec_ops *ops;  /* what callers see: with suffixes, a composed one */
    const struct wring_codec_ops *base; /* the codec's own table */
    struct wring_codec_ops read;        /* a program's own table, in this release's form: `ops` */
    struct wring_codec_info info;
    char spec[WRING_CODEC_SPEC_MAX];
    char identity[WRING_CODEC_IDENTITY_MAX];
    enum wring_cpu_tier tier;               /* highest allowed; init lowers it to its choice */
    double params[WRING_CODEC_PARAMS_MAX];  /* in the order of ops->params */
    unsigned suffixes;                      /* bit i: the spec has suffix i */
    double suffix_params[WRING_SUFFIXES];   /* of each the one that it has */
    const void *kernels;                    /* the codec's own tier table entry */
    void *own;                              /* [ops->own_bytes]; NULL: none */
    struct wring_codec *ways[2];            /* of a pair "in>out", which owns them; [1] alone: the
                                               way back that the codec's table names; else NULL */
    bool returns;                           /* it is that, and takes back sums of its own codes */
    struct wring_codec_room *room;          /* for encodes outside of jobs; NULL: none is needed */
    char values_spec[WRING_CODEC_SPEC_MAX]; /* "int8" of "topk/int8"; "": none */
    struct wring_codec *values;             /* the codec of the values that it sends; NULL: f32 */
    struct wring_composition composed;      /* of compress/compose.c */
    enum wring_residual_form residual_form; /* compress/residual.h */
    unsigned held;                          /* 1 + the state to which sums are added that this
                                               codec takes back, as they are differences; 0: none */
    unsigned owed;                          /* 1 + the state that is the residual of sums; 0: the
                                               bucket's residual is, of the elements that it owns */
};

/** Scratch memory for an encode that was given none. */
struct wring_codec_room {
    atomic_bool taken;
    _Alignas(64) unsigned char bytes[];
};

/** As wring_codec_encode(). @param scratch  [ops->scratch_bytes]; NULL: the codec's own */
size_t wring_codec_encode_in(const struct wring_codec *codec,
                             const struct wring_codec_context *context, const float *src,
                             uint64_t elems, float *residual, void *code, void *scratch);

static inline bool wring_codec_has_suffix(const struct wring_codec *codec, enum wring_suffix suffix)
{
    return (codec->suffixes & 1u << suffix) != 0;
}

/** Do owners add its codes, and send the sum on as it is? Not those of a pair. NULL: raw. */
static inline bool wring_codec_adds_codes(const struct wring_codec *codec)
{
    return codec != NULL && codec->ops->code_sum != NULL;
}

/** Is an owner's contribution to its own shard encoded like all others? */
static inline bool wring_codec_encodes_own(const struct wring_codec *codec)
{
    return codec != NULL && (codec->info.flags & (WRING_CODEC_ALTERS | WRING_CODEC_OWN) ||
                             wring_codec_adds_codes(codec));
}

/** The most bytes that a piece of elems elements can take: a code, or a sum of codes. */
size_t wring_codec_piece_bytes(const struct wring_codec *codec, uint64_t elems);

/** Is training another with it than without, on one of its ways? Then neither a commit nor a plan
 * may switch it on or off. */
static inline bool wring_codec_alters(const struct wring_codec *codec)
{
    return ((codec->info.flags | wring_codec_way(codec, 1)->info.flags) & WRING_CODEC_ALTERS) != 0;
}

/** The rounds are those of the way in. */
static inline uint32_t wring_codec_rounds(const struct wring_codec *codec)
{
    return codec != NULL ? (uint32_t)wring_codec_way(codec, 0)->ops->n_rounds : 0;
}

/**
 * Make a codec that serves one way. Arguments and errors as of wring_codec_create().
 * @param returns  it takes back sums of codes that the same spec made
 */
enum wring_status wring_codec_create_way(const char *spec, const char *tier,
                                         const struct wring_codec_ops *const *own, bool returns,
                                         char *why, size_t why_bytes, struct wring_codec **out);

/** What an encode may have of scratch: a codec's own, and a unit's residual as f32. */
#define WRING_CODEC_ROOM_MAX (WRING_CODEC_SCRATCH_MAX + ((size_t)256 << 10))

/** For init: set codec->kernels to the best entry of the table, and codec->tier to its tier. */
void wring_codec_take_kernels(struct wring_codec *codec, const void *tiers, size_t entry_bytes);

/** Decode a unit that held a non-finite value, added or not: all of it becomes NaN. */
void wring_codec_fill_nan(float *dst, uint64_t elems);

/** The smaller of the two: the last unit of a bucket may be short. */
static inline uint64_t wring_codec_unit_length(uint64_t unit, uint64_t left)
{
    return left < unit ? left : unit;
}

extern const struct wring_codec_ops wring_codec_none;
extern const struct wring_codec_ops wring_codec_lossless;
extern const struct wring_codec_ops wring_codec_bf16;
extern const struct wring_codec_ops wring_codec_fp16;
extern const struct wring_codec_ops wring_codec_int8;
extern const struct wring_codec_ops wring_codec_onebit;
extern const struct wring_codec_ops wring_codec_topk;
extern const struct wring_codec_ops wring_codec_signsgd;
extern const struct wring_codec_ops wring_codec_signum;
extern const struct wring_codec_ops wring_codec_sharedint;
extern const struct wring_codec_ops wring_codec_randk;
extern const struct wring_codec_ops wring_codec_union;
extern const struct wring_codec_ops wring_codec_topkc;
extern const struct wring_codec_ops wring_codec_dgc;
extern const struct wring_codec_ops wring_codec_hashed;
extern const struct wring_codec_ops wring_codec_threshold;
extern const struct wring_codec_ops wring_codec_thc;
extern const struct wring_codec_ops wring_codec_qsgd;
extern const struct wring_codec_ops wring_codec_natural;
extern const struct wring_codec_ops wring_codec_terngrad;
extern const struct wring_codec_ops wring_codec_powersgd;
extern const struct wring_codec_ops wring_codec_int4;
extern const struct wring_codec_ops wring_codec_int2;
extern const struct wring_codec_ops wring_codec_bounded;
extern const struct wring_codec_ops wring_codec_fp8;
extern const struct wring_codec_ops wring_codec_mxfp8;
extern const struct wring_codec_ops wring_codec_mxfp4;
extern const struct wring_codec_ops wring_codec_nvfp4;

/* Tables of a program's own codecs, laid out as in the header's release that it was built with. */

/**
 * Take an author's table: entries that it lacks become zero.
 * @return whether its size can be one, and no entry is set that this release lacks
 */
bool wring_own_read(const struct wring_codec_ops *theirs, struct wring_codec_ops *out);

#endif
