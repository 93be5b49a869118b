/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/own.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"

#define STRUCT_BYTES_MAX 4096 /* more is no size but memory that was not set */
#define FIRST_BYTES (offsetof(struct wring_codec_ops, decode) + sizeof(void (*)(void)))
#define FLAGS (WRING_CODEC_UNBIASED | WRING_CODEC_FIXED | WRING_CODEC_EXACT | WRING_CODEC_ALTERS)

bool wring_own_read(const struct wring_codec_ops *theirs, struct wring_codec_ops *out)
{
    const unsigned char *entries = (const unsigned char *)theirs;
    size_t bytes = theirs->struct_bytes;

    if (bytes < FIRST_BYTES || bytes > STRUCT_BYTES_MAX)
        return false;
    memset(out, 0, sizeof(*out));
    memcpy(out, theirs, bytes < sizeof(*out) ? bytes : sizeof(*out));
    for (size_t i = sizeof(*out); i < bytes; i++)
        if (entries[i] != 0)
            return false;
    return true;
}

/** Where to say what is wrong with the codec in that place of the list. */
struct complaint {
    char *why;
    size_t why_bytes;
    size_t index;
    const char *name; /* NULL: it has none that could be said */
};

__attribute__((format(printf, 2, 3))) static enum wring_status complain(
    const struct complaint *complaint, const char *format, ...)
{
    char text[160];
    va_list args;

    va_start(args, format);
    wring_number_vprint(text, sizeof(text), format, args);
    va_end(args);
    if (complaint->name != NULL)
        snprintf(complaint->why, complaint->why_bytes, "own codec '%s': %s", complaint->name, text);
    else
        snprintf(complaint->why, complaint->why_bytes, "own codec %zu: %s", complaint->index, text);
    return WRING_ERR_INVALID;
}

static bool is_name(const char *name)
{
    size_t bytes = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-");
    return name[0] >= 'a' && name[0] <= 'z' && name[bytes] == '\0' && bytes < WRING_CODEC_NAME_MAX;
}

static bool is_in(const struct wring_codec_ops *const *list, size_t n, const char *name)
{
    for (size_t i = 0; i < n && list[i] != NULL; i++)
        if (strcmp(list[i]->name, name) == 0)
            return true;
    return false;
}

static enum wring_status check_param(const struct complaint *complaint,
                                     const struct wring_codec_param *param)
{
    if (param->name == NULL || !is_name(param->name) || param->doc == NULL)
        return complain(complaint,
                        "each parameter needs a doc and a name of [a-z][a-z0-9_-]*, of "
                        "%d bytes at most",
                        WRING_CODEC_NAME_MAX - 1);
    if (param->words == NULL && !(param->min >= 0 && param->min <= param->fallback &&
                                  param->fallback <= param->max && param->multiple_of >= 0))
        return complain(complaint, "parameter %s: needs 0 <= min <= fallback <= max", param->name);
    return WRING_OK;
}

static enum wring_status check_params(const struct complaint *complaint,
                                      const struct wring_codec_ops *ops)
{
    enum wring_status status = WRING_OK;

    if (ops->n_params > WRING_CODEC_PARAMS_MAX || (ops->n_params > 0 && ops->params == NULL))
        return complain(complaint, "params and n_params: needs at most %d of them",
                        WRING_CODEC_PARAMS_MAX);
    for (size_t i = 0; i < ops->n_params && status == WRING_OK; i++)
        status = check_param(complaint, &ops->params[i]);
    return status;
}

static bool is_round(const struct wring_codec_round *round)
{
    bool type = round->dtype == WRING_F32 || round->dtype == WRING_F64 ||
                round->dtype == WRING_I32 || round->dtype == WRING_I64;
    bool op = round->op == WRING_SUM || round->op == WRING_MIN || round->op == WRING_MAX;
    return round->name != NULL && type && op && round->count != NULL && round->begin != NULL;
}

static enum wring_status check_rounds(const struct complaint *complaint,
                                      const struct wring_codec_ops *ops)
{
    if (ops->n_rounds > WRING_CODEC_ROUNDS_MAX || (ops->n_rounds > 0 && ops->rounds == NULL))
        return complain(complaint, "rounds and n_rounds: needs at most %d of them",
                        WRING_CODEC_ROUNDS_MAX);
    for (size_t i = 0; i < ops->n_rounds; i++)
        if (!is_round(&ops->rounds[i]))
            return complain(complaint,
                            "round %zu: needs a name, count, begin, f32, f64, i32 or "
                            "i64, and sum, min or max",
                            i);
    if (ops->code_sum != NULL && !(ops->flags & WRING_CODEC_FIXED))
        return complain(complaint, "code_sum: needs FIXED, codes of the size that bound says");
    return WRING_OK;
}

static enum wring_status check_states(const struct complaint *complaint,
                                      const struct wring_codec_ops *ops)
{
    if (ops->n_states > WRING_CODEC_STATES_MAX || (ops->n_states > 0 && ops->states == NULL))
        return complain(complaint, "states and n_states: needs at most %d of them",
                        WRING_CODEC_STATES_MAX);
    for (size_t i = 0; i < ops->n_states; i++) {
        const struct wring_codec_state *state = &ops->states[i];
        if (state->name == NULL || !is_name(state->name) || state->doc == NULL ||
            wring_dtype_bytes(state->dtype) == 0)
            return complain(complaint,
                            "state %zu: needs a doc, a type and a name of "
                            "[a-z][a-z0-9_-]*",
                            i);
        if ((unsigned)state->holder > WRING_CODEC_SHARED ||
            (state->holder == WRING_CODEC_OWNER && state->count != NULL))
            return complain(complaint,
                            "state %s: an owner has one number for each element, and "
                            "no count",
                            state->name);
    }
    return WRING_OK;
}

static enum wring_status check_table(struct complaint *complaint,
                                     const struct wring_codec_ops *theirs)
{
    struct wring_codec_ops ops;

    if (!wring_own_read(theirs, &ops))
        return complain(complaint,
                        "struct_bytes is %zu, or an entry is set that this release lacks: set it "
                        "to sizeof(struct wring_codec_ops), which is %zu here",
                        theirs->struct_bytes, sizeof(ops));
    if (ops.name == NULL || !is_name(ops.name) || ops.doc == NULL)
        return complain(complaint,
                        "needs a doc and a name of [a-z][a-z0-9_-]*, of %d bytes at most",
                        WRING_CODEC_NAME_MAX - 1);
    complaint->name = ops.name;
    if (ops.unit == NULL || ops.bound == NULL || ops.encode == NULL || ops.decode == NULL)
        return complain(complaint, "needs unit, bound, encode and decode");
    if (ops.flags & ~(unsigned)FLAGS)
        return complain(complaint, "flags may be UNBIASED, FIXED, EXACT and ALTERS, not %#x",
                        ops.flags);
    if (ops.scratch_bytes > WRING_CODEC_SCRATCH_MAX || ops.own_bytes > WRING_CODEC_OWN_MAX)
        return complain(complaint,
                        "needs scratch_bytes of at most %zu and own_bytes of at most %zu",
                        WRING_CODEC_SCRATCH_MAX, WRING_CODEC_OWN_MAX);
    enum wring_status status = check_params(complaint, &ops);
    if (status == WRING_OK)
        status = check_rounds(complaint, &ops);
    return status == WRING_OK ? check_states(complaint, &ops) : status;
}

enum wring_status wring_codec_check_own(const struct wring_codec_ops *const *own, char *why,
                                        size_t why_bytes)
{
    enum wring_status status = WRING_OK;

    for (size_t i = 0; own != NULL && own[i] != NULL && status == WRING_OK; i++) {
        struct complaint complaint = {why, why != NULL ? why_bytes : 0, i, NULL};
        status = check_table(&complaint, own[i]);
        if (status == WRING_OK &&
            (is_in(wring_codec_list(), SIZE_MAX, complaint.name) || is_in(own, i, complaint.name)))
            status = complain(&complaint, "another codec has that name: choose a new one");
    }
    return status;
}
