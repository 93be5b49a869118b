/* SPDX-License-Identifier: Apache-2.0 */
#include <wring/types.h>

#include <string.h>

static const struct {
    const char *name;
    size_t bytes;
} dtypes[WRING_DTYPES] = {
    [WRING_F32] = {"f32", 4},   [WRING_F64] = {"f64", 8}, [WRING_F16] = {"f16", 2},
    [WRING_BF16] = {"bf16", 2}, [WRING_I32] = {"i32", 4}, [WRING_I64] = {"i64", 8},
};

static const char *const ops[WRING_OPS] = {
    [WRING_SUM] = "sum",
    [WRING_AVG] = "avg",
    [WRING_MIN] = "min",
    [WRING_MAX] = "max",
};

static const char *const schemes[WRING_SCHEMES] = {
    [WRING_SCHEME_AUTO] = "auto",
    [WRING_SCHEME_DIVISIBLE] = "divisible",
    [WRING_SCHEME_INDIVISIBLE] = "indivisible",
    [WRING_SCHEME_HIERARCHICAL] = "hierarchical",
    [WRING_SCHEME_HIERARCHICAL_DIVISIBLE] = "hierarchical-divisible",
    [WRING_SCHEME_HIERARCHICAL_INDIVISIBLE] = "hierarchical-indivisible",
};

size_t wring_dtype_bytes(enum wring_dtype dtype)
{
    return (unsigned)dtype < WRING_DTYPES ? dtypes[dtype].bytes : 0;
}

const char *wring_dtype_name(enum wring_dtype dtype)
{
    return (unsigned)dtype < WRING_DTYPES ? dtypes[dtype].name : "?";
}

const char *wring_op_name(enum wring_op op)
{
    return (unsigned)op < WRING_OPS ? ops[op] : "?";
}

const char *wring_scheme_name(enum wring_scheme scheme)
{
    return (unsigned)scheme < WRING_SCHEMES ? schemes[scheme] : "?";
}

enum wring_scheme wring_scheme_find(const char *name)
{
    unsigned scheme = 0;
    while (scheme < WRING_SCHEMES && strcmp(schemes[scheme], name) != 0)
        scheme++;
    return (enum wring_scheme)scheme;
}
